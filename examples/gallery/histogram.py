"""Histogram of a photograph: atomics in shared memory, then on the counts of all blocks.

Run it: python examples/gallery/histogram.py (needs pip install "kerneldsl[demo]")
"""

from __future__ import annotations

import numpy as np
from picture import main, photograph

import kerneldsl as kd

BINS = 256


@kd.kernel
def count_levels(pixels, counts):
    block_counts = kd.shared.array((3, BINS), kd.int32)
    t = kd.threadIdx.x
    for channel in range(3):
        block_counts[channel, t] = 0
    kd.syncthreads()
    for i in range(kd.grid(1), pixels.shape[0], kd.gridsize(1)):
        for channel in range(3):
            kd.atomic.add(block_counts, (channel, pixels[i, channel]), 1)
    kd.syncthreads()
    for channel in range(3):
        kd.atomic.add(counts, (channel, t), block_counts[channel, t])


@kd.kernel
def bars(counts, image, out, scale):
    i, j = kd.grid(2)
    level = j * BINS // out.shape[1]
    height = out.shape[0] - i
    for channel in range(3):
        is_under = counts[channel, level] * scale > height
        out[i, j, channel] = 225 if is_under else image[i, j, channel] // 4


def draw(size: int) -> np.ndarray:
    image = photograph(size)
    counts = np.zeros((3, BINS), np.int32)
    count_levels[16, BINS](image.reshape(-1, 3), counts)
    out = np.zeros_like(image)
    bars.forall(size, size)(counts, image, out, 0.9 * size / np.percentile(counts, 99.5))
    return out


if __name__ == "__main__":
    main(draw, __file__)
