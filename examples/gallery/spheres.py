"""Spheres, marched along rays: device functions of the distance to a scene, light and shadow.

Run it: python examples/gallery/spheres.py
"""

from __future__ import annotations

import math

import numpy as np
from picture import main

import kerneldsl as kd


@kd.func
def distance(x, y, z):
    """Return how far a point is from the scene: a plane, and spheres on a lattice that melt."""
    sx, sz = x - 2.0 * math.floor(0.5 * x + 0.5), z - 2.0 * math.floor(0.5 * z + 0.5)
    height = 0.25 * math.sin(1.3 * x) * math.cos(0.9 * z)
    sphere = math.sqrt(sx * sx + (y - height) * (y - height) + sz * sz) - 0.7
    plane = y + 0.75
    mixed = max(0.0, min(1.0, 0.5 + (plane - sphere) / 0.6))
    return plane + (sphere - plane) * mixed - 0.3 * mixed * (1.0 - mixed)


@kd.func
def march(x, y, z, dx, dy, dz, far):
    """Return how far a ray goes until it meets the scene, at most `far`."""
    t = 0.02
    for _ in range(160):
        step = distance(x + t * dx, y + t * dy, z + t * dz)
        t += 0.8 * step
        if step < 0.0008 or t > far:
            break
    return t


@kd.kernel
def render(out):
    i, j = kd.grid(2)
    n = out.shape[0]
    u, v = (2.0 * j - n) / n, (n - 2.0 * i) / n
    length = math.sqrt(u * u + v * v + 2.6)
    dx, dy, dz = u / length, (v - 0.75) / length, 1.5 / length
    t = march(0.6, 2.1, -3.0, dx, dy, dz, 30.0)
    x, y, z = 0.6 + t * dx, 2.1 + t * dy, -3.0 + t * dz
    here, e = distance(x, y, z), 0.001
    nx, ny, nz = (
        (distance(x + e, y, z) - here) / e,
        (distance(x, y + e, z) - here) / e,
        (distance(x, y, z + e) - here) / e,
    )
    lit = max(0.0, 0.6 * nx + 0.7 * ny - 0.39 * nz)
    if lit > 0.0 and march(x, y, z, 0.6, 0.7, -0.39, 8.0) < 8.0:
        lit *= 0.25
    fog = math.exp(-0.0035 * t * t)
    rim = (1.0 - max(0.0, -(nx * dx + ny * dy + nz * dz))) ** 3
    for channel in range(3):
        hue = 0.55 + 0.45 * math.cos(0.8 * x + 0.5 * z + 2.1 * channel)
        surface = hue * (0.18 + 0.82 * lit) + 0.25 * rim
        sky = 0.55 + 0.12 * channel
        out[i, j, channel] = np.uint8(255.0 * min(1.0, sky + (surface - sky) * fog))


def draw(size: int) -> np.ndarray:
    out = np.zeros((size, size, 3), np.uint8)
    render.forall(size, size)(out)
    return out


if __name__ == "__main__":
    main(draw, __file__)
