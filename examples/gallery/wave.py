"""Wave equation: a plane wave meets a wall with two slits, and interferes with itself beyond it.

Run it: python examples/gallery/wave.py
"""

from __future__ import annotations

import math

import numpy as np
from picture import main

import kerneldsl as kd


@kd.func
def is_wall(i, j, n):
    """Return whether a place is of the wall, which has two slits."""
    from_slit = abs(abs(i - n // 2) - n // 10)
    return j == n // 4 and from_slit > n // 48


@kd.kernel
def step(before, now, after, time):
    i, j = kd.grid(2)
    n = now.shape[0]
    if j == 0:
        after[i, j] = math.sin(time)
    elif is_wall(i, j, n):
        after[i, j] = 0.0
    else:
        up, down, right = max(i - 1, 0), min(i + 1, n - 1), min(j + 1, n - 1)
        around = now[up, j] + now[down, j] + now[i, j - 1] + now[i, right]
        after[i, j] = 2.0 * now[i, j] - before[i, j] + 0.25 * (around - 4.0 * now[i, j])


@kd.kernel
def color(u, out):
    i, j = kd.grid(2)
    n = u.shape[0]
    if is_wall(i, j, n) or is_wall(i, max(j - 1, 0), n):
        for channel in range(3):
            out[i, j, channel] = 235
    else:
        height = max(-1.0, min(1.0, (0.7 if j < n // 4 else 1.6) * u[i, j]))
        out[i, j, 0] = np.uint8(20.0 + 60.0 * height * height)
        out[i, j, 1] = np.uint8(70.0 + 65.0 * height)
        out[i, j, 2] = np.uint8(125.0 + 125.0 * height)


def draw(size: int) -> np.ndarray:
    before, now, after = (kd.zeros((size, size)) for _ in range(3))
    for count in range(int(1.9 * size)):
        step.forall(size, size)(before, now, after, 0.28 * count)
        before, now, after = now, after, before
    out = np.zeros((size, size, 3), np.uint8)
    color.forall(size, size)(now.copy_to_host(), out)
    return out


if __name__ == "__main__":
    main(draw, __file__)
