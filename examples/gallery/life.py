"""Game of life: a color for the time since each cell was alive.

Run it: python examples/gallery/life.py
"""

from __future__ import annotations

import math

import numpy as np
from picture import main, paint

import kerneldsl as kd


@kd.kernel
def step(age, age_next):
    """Give a cell its age: 0 alive, else the steps since it was."""
    i, j = kd.grid(2)
    n, m = age.shape
    alive = 0
    for di in range(-1, 2):
        for dj in range(-1, 2):
            if di != 0 or dj != 0:
                alive += age[(i + di + n) % n, (j + dj + m) % m] == 0
    lives = alive == 3 or (alive == 2 and age[i, j] == 0)
    age_next[i, j] = 0 if lives else age[i, j] + 1


@kd.kernel
def color(age, out):
    i, j = kd.grid(2)
    cell = age[i * age.shape[0] // out.shape[0], j * age.shape[1] // out.shape[1]]
    if cell == 0:
        for channel in range(3):
            out[i, j, channel] = 245
    else:
        paint(out, i, j, 0.5 + 0.004 * cell, 0.85 * math.exp(-0.02 * cell))


def draw(size: int) -> np.ndarray:
    cells = size // 3
    start = np.where(np.random.default_rng(11).random((cells, cells)) < 0.3, 0, 1000)
    age = kd.to_device(start.astype(np.int32))
    age_next = kd.empty_like(age)
    for _ in range(size // 2):
        step.forall(cells, cells)(age, age_next)
        age, age_next = age_next, age
    out = np.zeros((size, size, 3), np.uint8)
    color.forall(size, size)(age.copy_to_host(), out)
    return out


if __name__ == "__main__":
    main(draw, __file__)
