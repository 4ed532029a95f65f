"""Compare the results of both paths on the CPU, bit by bit."""

from __future__ import annotations

import itertools

import numpy as np

from benchmarks.ir_spike.fresh import fresh_module
from benchmarks.ir_spike.paths import by_path


def values(rng, shape):
    x = rng.standard_normal(shape).astype(np.float32)
    flat = x.reshape(-1)
    if flat.size:
        special = np.array([np.nan, -0.0, 0.0, np.inf, -np.inf, 1e-42, 3e38], np.float32)
        where = rng.integers(0, flat.size, max(1, flat.size // 50))
        flat[where] = (
            special[rng.integers(0, special.size, where.size)] if rng.random() < 0.6 else -0.0
        )
    return x


def run(module, rng_seed, n):
    rng = np.random.default_rng(rng_seed)
    found = []
    x, y = values(rng, n), values(rng, n)
    out = np.zeros(max(n - rng.integers(0, 3), 0), np.float32)
    if n:
        module.axpy.forall(n)(np.float32(rng.standard_normal()), x, y, out)
    found.append(out)
    blocks = -(-n // 256) + int(rng.integers(0, 2))
    if blocks:
        for kernel in (module.tree, module.shuffle):
            sums = np.full(blocks, 7, np.float32)
            kernel[blocks, 256](x, sums)
            found.append(sums)
    rows, columns = int(rng.integers(1, 9)), int(rng.integers(1, 700))
    grid = values(rng, (rows, columns))
    if rng.random() < 0.5:
        grid = np.nan_to_num(grid, nan=1, posinf=2, neginf=3)
    soft = np.full((rows, columns), 7, np.float32)
    module.softmax[rows, 128](grid, soft)
    found.append(soft)
    found.append(grid if rng.random() < 0.5 else None)
    if found[-1] is not None:
        module.softmax[rows, 128](found[-1], found[-1])
    return found


def main() -> None:
    old, new = fresh_module(), fresh_module()
    sizes = [0, 1, 2, 7, 31, 33, 255, 256, 257, 511, 513, 1000, 4096, 5001, 100_003, 262_145]
    count = nans = 0
    for seed, n in itertools.product(range(12), sizes):
        with by_path("trees"):
            one = run(old, seed * 1000 + n, n)
        with by_path("regions"):
            two = run(new, seed * 1000 + n, n)
        for number, (a, b) in enumerate(zip(one, two, strict=True)):
            if a is None:
                continue
            count += 1
            if a.tobytes() != b.tobytes():
                bits_a, bits_b = a.view(np.uint32).ravel(), b.view(np.uint32).ravel()
                are_nan = np.isnan(a.ravel()) & np.isnan(b.ravel())
                bad = np.flatnonzero((bits_a != bits_b) & ~are_nan)
                nans += int(np.sum(bits_a != bits_b)) - bad.size
                if not bad.size:
                    continue
                raise SystemExit(
                    f"seed {seed}, n {n}, array {number}: {bad[:5]} "
                    f"{a.ravel()[bad[:5]]} {b.ravel()[bad[:5]]}"
                )
    print(f"{count} arrays equal; NaN with another sign or payload: {nans} elements")


if __name__ == "__main__":
    main()
