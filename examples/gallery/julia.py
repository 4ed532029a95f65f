"""Julia set: the same iteration from every point, four samples a pixel.

Run it: python examples/gallery/julia.py
"""

from __future__ import annotations

import math

import numpy as np
from picture import main, paint

import kerneldsl as kd


@kd.func
def escape(x, y, c, most):
    """Return how many steps a point takes to leave."""
    z = complex(x, y)
    count = 0
    while z.real * z.real + z.imag * z.imag < 16.0 and count < most:
        z = z * z + c
        count += 1
    return count


@kd.kernel
def julia(out, c, most):
    i, j = kd.grid(2)
    size = out.shape[0]
    total = 0
    for sample in range(4):
        x = (j + 0.25 + 0.5 * (sample % 2)) / size * 2.8 - 1.4
        y = (i + 0.25 + 0.5 * (sample // 2)) / size * 2.8 - 1.4
        total += escape(x, y, c, most)
    count = 0.25 * total
    paint(out, i, j, 0.6 + 0.008 * count, 1.0 - math.exp(-0.05 * count))


def draw(size: int) -> np.ndarray:
    out = np.zeros((size, size, 3), np.uint8)
    julia.forall(size, size)(out, complex(-0.8, 0.156), 300)
    return out


if __name__ == "__main__":
    main(draw, __file__)
