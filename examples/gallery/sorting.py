"""A sort at work: each row is the state of one block's shared memory after one more step.

Run it: python examples/gallery/sorting.py
"""

from __future__ import annotations

import numpy as np
from picture import main, paint

import kerneldsl as kd

WIDTH = 512


@kd.kernel
def odd_even_sort(values, out):
    """Swap neighbours, at even places and odd ones in turn; paint a row after each turn."""
    row = kd.shared.array(WIDTH, kd.float64)
    t, n = kd.threadIdx.x, values.size
    if t < n:
        row[t] = values[t]
    kd.syncthreads()
    for step in range(out.shape[0]):
        if t < n:
            paint(out, step, t, 0.62 + 0.55 * row[t], 0.35 + 0.6 * row[t])
        kd.syncthreads()
        if t % 2 == step % 2 and t + 1 < n and row[t] > row[t + 1]:
            row[t], row[t + 1] = row[t + 1], row[t]
        kd.syncthreads()


def draw(size: int) -> np.ndarray:
    values = np.random.default_rng(7).permutation(size) / size
    out = np.zeros((size, size, 3), np.uint8)
    odd_even_sort[1, WIDTH](values, out)
    return out


if __name__ == "__main__":
    main(draw, __file__)
