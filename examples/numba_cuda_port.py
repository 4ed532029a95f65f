"""A kernel that was written for numba.cuda, its body unchanged.

If numba.cuda is installed, the kernel uses its names, and only the decorator is kerneldsl's.
Otherwise the same names come from kerneldsl.

Run it: python examples/numba_cuda_port.py
"""

from __future__ import annotations

import numpy as np

import kerneldsl as kd

try:
    from numba import cuda, float32
except ImportError:  # numba without its CUDA package
    cuda, float32 = kd, kd.float32

THREADS = 128


@kd.kernel
def dot(x, y, result):
    cache = cuda.shared.array(THREADS, float32)
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    total = float32(0)
    while i < x.size:
        total += x[i] * y[i]
        i += cuda.gridsize(1)
    cache[t] = total
    cuda.syncthreads()
    half = cuda.blockDim.x // 2
    while half > 0:
        if t < half:
            cache[t] += cache[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        cuda.atomic.add(result, 0, cache[0])


def main() -> None:
    rng = np.random.default_rng()
    x = rng.uniform(0.5, 1.5, 100_003).astype(np.float32)
    y = rng.uniform(0.5, 1.5, x.size).astype(np.float32)
    result = np.zeros(1, np.float32)
    dot[32, THREADS](x, y, result)
    np.testing.assert_allclose(result[0], np.dot(x.astype(np.float64), y), rtol=1e-4)
    print(f"dot of {x.size} elements on {kd.current_target()}: as NumPy's")


if __name__ == "__main__":
    main()
