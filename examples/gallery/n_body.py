"""Bodies that attract each other: a block kernel reads them by tiles in shared memory.

Run it: python examples/gallery/n_body.py
"""

from __future__ import annotations

import math

import numpy as np
from picture import main, paint

import kerneldsl as kd

BLOCK = 64


@kd.kernel
def move(position, velocity, next_position, mass, dt):
    xs = kd.shared.array(BLOCK, kd.float64)
    ys = kd.shared.array(BLOCK, kd.float64)
    i, t = kd.grid(1), kd.threadIdx.x
    x, y = position[i, 0], position[i, 1]
    ax = 0.0
    ay = 0.0
    for first in range(0, position.shape[0], BLOCK):
        xs[t], ys[t] = position[first + t, 0], position[first + t, 1]
        kd.syncthreads()
        for k in range(BLOCK):
            dx, dy = xs[k] - x, ys[k] - y
            square = dx * dx + dy * dy + 4e-4
            pull = mass / (square * math.sqrt(square))
            ax += pull * dx
            ay += pull * dy
        kd.syncthreads()
    velocity[i, 0] += dt * ax
    velocity[i, 1] += dt * ay
    next_position[i, 0] = x + dt * velocity[i, 0]
    next_position[i, 1] = y + dt * velocity[i, 1]


@kd.kernel
def trace(position, counts):
    k = kd.grid(1)
    n = counts.shape[0]
    i, j = math.floor(position[k, 1] * n), math.floor(position[k, 0] * n)
    if 0 <= i < n and 0 <= j < n:
        kd.atomic.add(counts, (i, j), 1)


@kd.kernel
def color(counts, out):
    i, j = kd.grid(2)
    light = 1.0 - math.exp(-0.4 * counts[i, j])
    paint(out, i, j, 0.68 - 0.5 * light, light)


def draw(size: int) -> np.ndarray:
    rng = np.random.default_rng(5)
    bodies = 4 * BLOCK
    radius, angle = 0.08 + 0.24 * np.sqrt(rng.random(bodies)), 2 * np.pi * rng.random(bodies)
    around = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    start = 0.5 + radius[:, None] * around
    turn = np.stack([-around[:, 1], around[:, 0]], axis=1) * np.sqrt(3.0 * radius)[:, None]
    position, velocity = kd.to_device(start), kd.to_device(0.62 * turn)
    next_position = kd.empty_like(position)
    counts = kd.zeros((size, size), np.int32)
    for _ in range(2 * size):
        move[bodies // BLOCK, BLOCK](position, velocity, next_position, 0.3 / bodies, 0.0015)
        position, next_position = next_position, position
        trace.forall(bodies)(position, counts)
    out = np.zeros((size, size, 3), np.uint8)
    color.forall(size, size)(counts.copy_to_host(), out)
    return out


if __name__ == "__main__":
    main(draw, __file__)
