"""Filters on a photograph: smoothed within edges, in few colors, with the edges drawn.

Run it: python examples/gallery/filters.py (needs pip install "kerneldsl[demo]")
"""

from __future__ import annotations

import math

import numpy as np
from picture import main, photograph

import kerneldsl as kd


@kd.func
def grey(image, i, j):
    return 0.299 * image[i, j, 0] + 0.587 * image[i, j, 1] + 0.114 * image[i, j, 2]


@kd.kernel
def smooth(image, out, radius):
    """Average a pixel's neighbours, weighed by distance and by likeness: a bilateral filter."""
    i, j = kd.grid(2)
    n, m = image.shape[0], image.shape[1]
    total, red, green, blue = 0.0, 0.0, 0.0, 0.0
    here = grey(image, i, j)
    for di in range(-radius, radius + 1):
        for dj in range(-radius, radius + 1):
            y, x = min(max(i + di, 0), n - 1), min(max(j + dj, 0), m - 1)
            unlike = (grey(image, y, x) - here) / 28.0
            weight = math.exp(-(di * di + dj * dj) / 18.0 - unlike * unlike)
            total += weight
            red += weight * image[y, x, 0]
            green += weight * image[y, x, 1]
            blue += weight * image[y, x, 2]
    out[i, j, 0], out[i, j, 1], out[i, j, 2] = red / total, green / total, blue / total


@kd.kernel
def ink(image, out, levels):
    """Round to a few levels, and darken by the slope that Sobel's operator finds."""
    i, j = kd.grid(2)
    n, m = image.shape[0], image.shape[1]
    up, down, left, right = max(i - 1, 0), min(i + 1, n - 1), max(j - 1, 0), min(j + 1, m - 1)
    across, along = 0.0, 0.0
    for side in range(3):
        weight = 2.0 if side == 1 else 1.0
        y, x = (up, i, down)[side], (left, j, right)[side]
        across += weight * (grey(image, y, right) - grey(image, y, left))
        along += weight * (grey(image, down, x) - grey(image, up, x))
    light = 1.0 / (1.0 + math.exp(0.08 * (math.hypot(across, along) - 95.0)))
    for channel in range(3):
        level = math.floor(image[i, j, channel] / 256.0 * levels) + 0.5
        out[i, j, channel] = np.uint8(light * 255.0 * level / levels)


def draw(size: int) -> np.ndarray:
    image = photograph(size)
    smoothed = np.zeros(image.shape)
    smooth.forall(size, size)(image, smoothed, 4)
    out = np.zeros_like(image)
    ink.forall(size, size)(smoothed, out, 9)
    return out


if __name__ == "__main__":
    main(draw, __file__)
