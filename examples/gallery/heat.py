"""Heat equation: hot and cold discs that are held at their temperature, and the steps between.

Run it: python examples/gallery/heat.py
"""

from __future__ import annotations

import math

import numpy as np
from picture import main

import kerneldsl as kd


@kd.func
def held(i, j, size):
    """Return the temperature that a place is held at, or 0."""
    for disc in range(7):
        angle = 2.399963 * disc
        y = size * (0.5 + 0.13 * math.sqrt(disc) * math.sin(angle))
        x = size * (0.5 + 0.13 * math.sqrt(disc) * math.cos(angle))
        if math.hypot(i - y, j - x) < 0.045 * size:
            return 1.0 if disc % 2 == 0 else -1.0
    return 0.0


@kd.kernel
def place_discs(fixed):
    i, j = kd.grid(2)
    fixed[i, j] = held(i, j, fixed.shape[0])


@kd.kernel
def step(u, fixed, u_next):
    i, j = kd.grid(2)
    n = u.shape[0]
    if fixed[i, j] != 0.0:
        u_next[i, j] = fixed[i, j]
    elif 0 < i < n - 1 and 0 < j < n - 1:
        u_next[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
    else:
        u_next[i, j] = 0.0


@kd.kernel
def color(u, out):
    i, j = kd.grid(2)
    t = math.copysign(math.sqrt(abs(u[i, j])), u[i, j])
    # Lines of equal temperature are darker.
    shade = 0.75 + 0.25 * min(1.0, 4.0 * abs(math.sin(9.42478 * t)))
    out[i, j, 0] = np.uint8(255.0 * shade * min(1.0, max(0.0, 0.16 + 1.2 * t)))
    out[i, j, 1] = np.uint8(255.0 * shade * max(0.0, 0.12 + 0.6 * t * t))
    out[i, j, 2] = np.uint8(255.0 * shade * min(1.0, max(0.0, 0.2 - 1.1 * t)))


def draw(size: int) -> np.ndarray:
    fixed = kd.empty((size, size))
    place_discs.forall(size, size)(fixed)
    u, u_next = kd.zeros((size, size)), kd.empty((size, size))
    for _ in range(5 * size):
        step.forall(size, size)(u, fixed, u_next)
        u, u_next = u_next, u
    out = np.zeros((size, size, 3), np.uint8)
    color.forall(size, size)(u.copy_to_host(), out)
    return out


if __name__ == "__main__":
    main(draw, __file__)
