"""Structures, local arrays and tables."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from cuda_c.case import Arguments, Case

__all__ = ["cases"]

f32, i32, u8 = np.float32, np.int32, np.uint8
_PARTICLE = np.dtype(
    [("x", f32), ("y", f32), ("z", f32), ("vx", f32), ("vy", f32), ("vz", f32)], align=True
)


@kd.kernel
def move_particles(particles, step, gravity):
    i = kd.grid(1)
    if i < particles.size:
        particles[i].vz -= gravity * step
        particles[i].x += particles[i].vx * step
        particles[i].y += particles[i].vy * step
        particles[i].z += particles[i].vz * step
        if particles[i].z < f32(0.0):
            particles[i].z = -particles[i].z
            particles[i].vz = f32(-0.9) * particles[i].vz


@kd.kernel
def median_of_nine(image, out):
    x, y = kd.grid(2)
    height, width = image.shape
    if 0 < x < width - 1 and 0 < y < height - 1:
        values = kd.local.array(9, f32)
        for dy in range(3):
            for dx in range(3):
                values[dy * 3 + dx] = image[y + dy - 1, x + dx - 1]
        for i in range(5):
            for j in range(i + 1, 9):
                if values[j] < values[i]:
                    least = values[j]
                    values[j] = values[i]
                    values[i] = least
        out[y, x] = values[4]


@kd.kernel
def look_up(image, table, out):
    i = kd.grid(1)
    if i < image.size:
        out[i] = table[image[i]]


@kd.kernel
def gather(indices, values, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = values[indices[i]]


@kd.kernel
def bin_counts_2d(x, y, counts, low, scale):
    i = kd.grid(1)
    if i < x.size:
        column, row = i32((x[i] - low) * scale), i32((y[i] - low) * scale)
        if 0 <= column < counts.shape[1] and 0 <= row < counts.shape[0]:
            kd.atomic.add(counts, (row, column), 1)


def cases() -> list[Case]:
    """Return the cases."""
    n, side = 1 << 24, 4096

    def particles(rng: np.random.Generator) -> Arguments:
        made = rng.uniform(0, 1, (n // 4, 6)).astype(f32).view(_PARTICLE)[:, 0]
        return made, f32(0.01), f32(9.81)

    def image(rng: np.random.Generator) -> Arguments:
        picture = rng.uniform(0, 1, (side, side)).astype(f32)
        return picture, picture.copy()

    def table(rng: np.random.Generator) -> Arguments:
        return (
            rng.integers(0, 256, n).astype(u8),
            rng.uniform(0, 1, 256).astype(f32),
            np.empty(n, f32),
        )

    def places(rng: np.random.Generator) -> Arguments:
        return (
            rng.integers(0, n, n).astype(i32),
            rng.uniform(0, 1, n).astype(f32),
            np.empty(n, f32),
        )

    def points(rng: np.random.Generator) -> Arguments:
        return (
            *rng.standard_normal((2, n)).astype(f32),
            np.zeros((512, 512), i32),
            f32(-4),
            f32(64),
        )

    return [
        Case(
            move_particles,
            "records",
            grid=n // 4 // 256,
            block=256,
            make=particles,
            passed=lambda given: (*given, i32(n // 4)),
            outputs=(0,),
            tolerance=1e-6,
            extent=(n // 4,),
            moved_bytes=12 * n,
        ),
        Case(
            median_of_nine,
            "records",
            grid=(side // 32, side // 8),
            block=(32, 8),
            make=image,
            passed=lambda given: (*given, i32(side), i32(side)),
            outputs=(1,),
            moved_bytes=8 * side * side,
        ),
        Case(
            look_up,
            "records",
            grid=n // 256,
            block=256,
            make=table,
            passed=lambda given: (*given, i32(n)),
            outputs=(2,),
            extent=(n,),
            moved_bytes=5 * n,
        ),
        Case(
            gather,
            "records",
            grid=n // 256,
            block=256,
            make=places,
            passed=lambda given: (*given, i32(n)),
            outputs=(2,),
            extent=(n,),
        ),
        Case(
            bin_counts_2d,
            "records",
            grid=n // 256,
            block=256,
            make=points,
            passed=lambda given: (*given, i32(512), i32(512), i32(n)),
            outputs=(2,),
        ),
    ]
