"""Mandelbrot set: an element kernel over two dimensions, its own loop length in each thread.

Run it: python examples/gallery/mandelbrot.py
"""

from __future__ import annotations

import math

import numpy as np
from picture import main, paint

import kerneldsl as kd


@kd.kernel
def mandelbrot(out, x0, y0, width, most):
    i, j = kd.grid(2)
    step = width / out.shape[1]
    c = complex(x0 + j * step, y0 + i * step)
    z = 0j
    count = 0
    while z.real * z.real + z.imag * z.imag < 64.0 and count < most:
        z = z * z + c
        count += 1
    if count == most:
        paint(out, i, j, 0.0, 0.0)
    else:
        # The count continued between the steps, so that colors run smoothly.
        smooth = count + 1.0 - math.log2(0.5 * math.log2(abs(z)))
        paint(out, i, j, 0.55 + 0.012 * smooth, min(1.0, 0.3 + 0.02 * smooth))


def draw(size: int) -> np.ndarray:
    out = np.zeros((size, size, 3), np.uint8)
    mandelbrot.forall(size, size)(out, -0.7535, 0.0985, 0.018, 400)
    return out


if __name__ == "__main__":
    main(draw, __file__)
