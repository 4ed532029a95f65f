"""A histogram with atomics: each block counts in shared memory, then adds to the common one.

Run it: python examples/histogram.py
"""

from __future__ import annotations

import numpy as np

import kerneldsl as kd

BINS = 256


@kd.kernel
def histogram(values, counts):
    block_counts = kd.shared.array(BINS, kd.int32)
    t = kd.threadIdx.x
    block_counts[t] = 0
    kd.syncthreads()
    for i in range(kd.grid(1), values.size, kd.gridsize(1)):
        kd.atomic.add(block_counts, values[i], 1)
    kd.syncthreads()
    kd.atomic.add(counts, t, block_counts[t])


def main() -> None:
    rng = np.random.default_rng()
    values = rng.integers(0, BINS, 1_000_003).astype(np.uint8)
    counts = np.zeros(BINS, np.int64)
    histogram[64, BINS](values, counts)
    np.testing.assert_array_equal(counts, np.bincount(values, minlength=BINS))
    print(f"histogram of {values.size} bytes on {kd.current_target()}: as NumPy's")


if __name__ == "__main__":
    main()
