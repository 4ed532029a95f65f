"""Kernels of neighbours in two and three dimensions."""

from __future__ import annotations

import math

import numpy as np

import kerneldsl as kd
from cuda_c.case import Arguments, Case

__all__ = ["cases"]

f32, i32 = np.float32, np.int32
_SIDE = 4096
_CUBE = 512
_HALO = 3


@kd.kernel
def heat(u, out, factor):
    x, y, z = kd.grid(3)
    depth, height, width = u.shape
    if 0 < x < width - 1 and 0 < y < height - 1 and 0 < z < depth - 1:
        middle = u[z, y, x]
        around = u[z, y, x - 1] + u[z, y, x + 1] + u[z, y - 1, x] + u[z, y + 1, x]
        around += u[z - 1, y, x] + u[z + 1, y, x]
        out[z, y, x] = middle + factor * (around - f32(6.0) * middle)


@kd.kernel
def jacobi_f64(u, source, out):
    x, y = kd.grid(2)
    if 0 < x < u.shape[1] - 1 and 0 < y < u.shape[0] - 1:
        total = u[y - 1, x] + u[y + 1, x] + u[y, x - 1] + u[y, x + 1]
        out[y, x] = 0.25 * (total - source[y, x])


@kd.kernel
def hot_spots(temperature, power, out, step, along_x, along_y, up, ambient):
    x, y = kd.grid(2)
    height, width = temperature.shape
    if x < width and y < height:
        here = temperature[y, x]
        north = temperature[max(y - 1, 0), x]
        south = temperature[min(y + 1, height - 1), x]
        west = temperature[y, max(x - 1, 0)]
        east = temperature[y, min(x + 1, width - 1)]
        change = (
            power[y, x]
            + (north + south - f32(2.0) * here) * along_y
            + (east + west - f32(2.0) * here) * along_x
            + (ambient - here) * up
        )
        out[y, x] = here + step * change


@kd.kernel
def bilateral(image, out, space, colour):
    x, y = kd.grid(2)
    height, width = image.shape
    if x < width and y < height:
        centre = image[y, x]
        total = f32(0.0)
        weights = f32(0.0)
        for dy in range(-_HALO, _HALO + 1):
            for dx in range(-_HALO, _HALO + 1):
                value = image[min(max(y + dy, 0), height - 1), min(max(x + dx, 0), width - 1)]
                difference = value - centre
                distance = f32(dx * dx + dy * dy)
                weight = math.exp(-distance * space - difference * difference * colour)
                total += weight * value
                weights += weight
        out[y, x] = total / weights


@kd.kernel
def lattice_boltzmann(f, out, omega):
    x, y = kd.grid(2)
    height, width = f.shape[1], f.shape[2]
    if 0 < x < width - 1 and 0 < y < height - 1:
        f0, f1, f2 = f[0, y, x], f[1, y, x - 1], f[2, y - 1, x]
        f3, f4 = f[3, y, x + 1], f[4, y + 1, x]
        f5, f6 = f[5, y - 1, x - 1], f[6, y - 1, x + 1]
        f7, f8 = f[7, y + 1, x + 1], f[8, y + 1, x - 1]
        density = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8
        vx = (f1 + f5 + f8 - f3 - f6 - f7) / density
        vy = (f2 + f5 + f6 - f4 - f7 - f8) / density
        square = f32(1.0) - f32(1.5) * (vx * vx + vy * vy)
        rest, straight = f32(4.0 / 9.0) * density, f32(1.0 / 9.0) * density
        diagonal = f32(1.0 / 36.0) * density
        out[0, y, x] = f0 + omega * (rest * square - f0)
        out[1, y, x] = f1 + omega * (relaxed(straight, vx, square) - f1)
        out[2, y, x] = f2 + omega * (relaxed(straight, vy, square) - f2)
        out[3, y, x] = f3 + omega * (relaxed(straight, -vx, square) - f3)
        out[4, y, x] = f4 + omega * (relaxed(straight, -vy, square) - f4)
        out[5, y, x] = f5 + omega * (relaxed(diagonal, vx + vy, square) - f5)
        out[6, y, x] = f6 + omega * (relaxed(diagonal, vy - vx, square) - f6)
        out[7, y, x] = f7 + omega * (relaxed(diagonal, -vx - vy, square) - f7)
        out[8, y, x] = f8 + omega * (relaxed(diagonal, vx - vy, square) - f8)


@kd.func
def relaxed(weight, velocity, square):
    return weight * (square + f32(3.0) * velocity + f32(4.5) * velocity * velocity)


def cases() -> list[Case]:
    """Return the cases."""
    cells = _SIDE * _SIDE
    plane = {"source": "fields", "grid": (_SIDE // 32, _SIDE // 8), "block": (32, 8)}

    def volume(rng: np.random.Generator) -> Arguments:
        u = rng.standard_normal((_CUBE,) * 3, f32)
        return u, u.copy(), f32(0.1)

    def field(rng: np.random.Generator) -> Arguments:
        u, source = rng.standard_normal((2, _SIDE, _SIDE))
        return u, source, u.copy()

    def chip(rng: np.random.Generator) -> Arguments:
        temperature, power = rng.uniform(0, 1, (2, _SIDE, _SIDE)).astype(f32)
        factors = f32(0.001), f32(0.1), f32(0.1), f32(0.0005), f32(80.0)
        return temperature, power, np.empty_like(temperature), *factors

    def image(rng: np.random.Generator) -> Arguments:
        picture = rng.uniform(0, 1, (2048, 2048)).astype(f32)
        return picture, np.empty_like(picture), f32(0.1), f32(20.0)

    def populations(rng: np.random.Generator) -> Arguments:
        f = rng.uniform(0.9, 1.1, (9, 2048, 2048)).astype(f32)
        return f, f.copy(), f32(1.2)

    return [
        Case(
            heat,
            "fields",
            grid=(_CUBE // 32, _CUBE // 8, _CUBE),
            block=(32, 8),
            make=volume,
            passed=lambda given: (*given, i32(_CUBE), i32(_CUBE), i32(_CUBE)),
            outputs=(1,),
            tolerance=1e-6,
            moved_bytes=8 * _CUBE**3,
        ),
        Case(
            jacobi_f64,
            make=field,
            passed=lambda given: (*given, i32(_SIDE), i32(_SIDE)),
            outputs=(2,),
            tolerance=1e-15,
            moved_bytes=24 * cells,
            **plane,
        ),
        Case(
            hot_spots,
            make=chip,
            passed=lambda given: (*given, i32(_SIDE), i32(_SIDE)),
            outputs=(2,),
            tolerance=1e-6,
            moved_bytes=12 * cells,
            **plane,
        ),
        Case(
            bilateral,
            "fields",
            grid=(2048 // 16, 2048 // 16),
            block=(16, 16),
            make=image,
            passed=lambda given: (*given, i32(2048), i32(2048)),
            outputs=(1,),
            tolerance=1e-5,
        ),
        Case(
            lattice_boltzmann,
            "fields",
            grid=(2048 // 64, 2048 // 4),
            block=(64, 4),
            make=populations,
            passed=lambda given: (*given, i32(2048), i32(2048)),
            outputs=(1,),
            tolerance=1e-5,
            moved_bytes=72 * 2048 * 2048,
        ),
    ]
