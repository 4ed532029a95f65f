"""Gray-Scott equations: two substances that react and spread until spots divide.

Run it: python examples/gallery/gray_scott.py
"""

from __future__ import annotations

import numpy as np
from picture import main, paint

import kerneldsl as kd


@kd.func
def around(f, i, j):
    n, m = f.shape
    up, down = i - 1 if i > 0 else n - 1, i + 1 if i + 1 < n else 0
    left, right = j - 1 if j > 0 else m - 1, j + 1 if j + 1 < m else 0
    straight = f[up, j] + f[down, j] + f[i, left] + f[i, right]
    diagonal = f[up, left] + f[up, right] + f[down, left] + f[down, right]
    return 0.2 * straight + 0.05 * diagonal - f[i, j]


@kd.kernel
def step(u, v, u_next, v_next, feed, kill):
    i, j = kd.grid(2)
    reaction = u[i, j] * v[i, j] * v[i, j]
    u_next[i, j] = u[i, j] + around(u, i, j) - reaction + feed * (1.0 - u[i, j])
    v_next[i, j] = v[i, j] + 0.5 * around(v, i, j) + reaction - (feed + kill) * v[i, j]


@kd.kernel
def color(v, out):
    i, j = kd.grid(2)
    level = min(1.0, 2.6 * v[i, j])
    paint(out, i, j, 0.62 - 0.35 * level, 0.15 + 0.85 * level)


def draw(size: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    u0, v0 = np.ones((size, size)), np.zeros((size, size))
    for y, x in rng.integers(0, size - 8, (size // 12, 2)):
        u0[y : y + 8, x : x + 8], v0[y : y + 8, x : x + 8] = 0.5, 0.25
    u, v = kd.to_device(u0), kd.to_device(v0)
    u_next, v_next = kd.empty_like(u), kd.empty_like(v)
    for _ in range(10 * size):
        step.forall(size, size)(u, v, u_next, v_next, 0.037, 0.06)
        u, v, u_next, v_next = u_next, v_next, u, v
    out = np.zeros((size, size, 3), np.uint8)
    color.forall(size, size)(v.copy_to_host(), out)
    return out


if __name__ == "__main__":
    main(draw, __file__)
