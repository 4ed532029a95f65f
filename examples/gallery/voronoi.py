"""Voronoi cells by jump flooding: the nearest of many points in a logarithm of steps.

Run it: python examples/gallery/voronoi.py
"""

from __future__ import annotations

import math

import numpy as np
from picture import main, paint

import kerneldsl as kd


@kd.func
def square_distance(points, k, i, j):
    dy, dx = points[k, 0] - i, points[k, 1] - j
    return dy * dy + dx * dx


@kd.kernel
def plant(points, nearest):
    k = kd.grid(1)
    nearest[int(points[k, 0]), int(points[k, 1])] = k


@kd.kernel
def jump(points, nearest, nearest_next, reach):
    """Take the nearest point that any of nine pixels knows, `reach` apart."""
    i, j = kd.grid(2)
    n = nearest.shape[0]
    best = nearest[i, j]
    for di in range(-1, 2):
        for dj in range(-1, 2):
            y, x = i + di * reach, j + dj * reach
            if 0 <= y < n and 0 <= x < n:
                k = nearest[y, x]
                if k >= 0 and (
                    best < 0
                    or square_distance(points, k, i, j) < square_distance(points, best, i, j)
                ):
                    best = k
    nearest_next[i, j] = best


@kd.kernel
def color(points, nearest, out):
    i, j = kd.grid(2)
    n = nearest.shape[0]
    k = nearest[i, j]
    is_border = nearest[min(i + 1, n - 1), j] != k or nearest[i, min(j + 1, n - 1)] != k
    near = math.exp(-math.sqrt(square_distance(points, k, i, j)) * 14.0 / n)
    hue = 0.45 + 0.25 * math.sin(2.4 * k)
    paint(out, i, j, hue, 0.1 if is_border else 0.35 + 0.65 * near)


def draw(size: int) -> np.ndarray:
    points = np.random.default_rng(2).random((90, 2)) * size
    nearest = np.full((size, size), -1, np.int32)
    nearest_next = np.empty_like(nearest)
    plant.forall(len(points))(points, nearest)
    reach = 1 << (size - 1).bit_length() - 1
    while reach:
        jump.forall(size, size)(points, nearest, nearest_next, reach)
        nearest, nearest_next = nearest_next, nearest
        reach //= 2
    out = np.zeros((size, size, 3), np.uint8)
    color.forall(size, size)(points, nearest, out)
    return out


if __name__ == "__main__":
    main(draw, __file__)
