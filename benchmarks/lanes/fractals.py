"""Kernels whose threads leave a loop in different rounds."""

from __future__ import annotations

from collections.abc import Mapping

import numba
import numpy as np

import kerneldsl as kd
from lanes.case import Case, CompiledC, rivals_in_c

__all__ = ["SOURCE", "cases"]

#: Stored C source.
SOURCE = "fractals"
f32 = np.float32
_BLOCK = (32, 8)


@kd.kernel
def mandelbrot(out, rounds):
    column, row = kd.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        c_re = f32(-2.0) + f32(3.0) / f32(out.shape[1]) * f32(column)
        c_im = f32(-1.5) + f32(3.0) / f32(out.shape[0]) * f32(row)
        x = f32(0.0)
        y = f32(0.0)
        count = 0
        while count < rounds and x * x + y * y <= f32(4.0):
            x, y = x * x - y * y + c_re, f32(2.0) * x * y + c_im
            count += 1
        out[row, column] = count


@numba.njit(parallel=True, error_model="numpy")
def _mandelbrot(out, rounds):
    for row in numba.prange(out.shape[0]):
        c_im = f32(-1.5) + f32(3.0) / f32(out.shape[0]) * f32(row)
        for column in range(out.shape[1]):
            c_re = f32(-2.0) + f32(3.0) / f32(out.shape[1]) * f32(column)
            x = f32(0.0)
            y = f32(0.0)
            count = 0
            while count < rounds and x * x + y * y <= f32(4.0):
                x, y = x * x - y * y + c_re, f32(2.0) * x * y + c_im
                count += 1
            out[row, column] = count


@kd.kernel
def julia(out, c_re, c_im, rounds):
    column, row = kd.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        x = f32(-1.5) + f32(3.0) / f32(out.shape[1]) * f32(column)
        y = f32(-1.5) + f32(3.0) / f32(out.shape[0]) * f32(row)
        count = rounds
        for k in range(rounds):
            xx = x * x
            yy = y * y
            if xx + yy > f32(4.0):
                count = k
                break
            y = f32(2.0) * x * y + c_im
            x = xx - yy + c_re
        out[row, column] = count


@numba.njit(parallel=True, error_model="numpy")
def _julia(out, c_re, c_im, rounds):
    for row in numba.prange(out.shape[0]):
        for column in range(out.shape[1]):
            x = f32(-1.5) + f32(3.0) / f32(out.shape[1]) * f32(column)
            y = f32(-1.5) + f32(3.0) / f32(out.shape[0]) * f32(row)
            count = rounds
            for k in range(rounds):
                xx = x * x
                yy = y * y
                if xx + yy > f32(4.0):
                    count = k
                    break
                y = f32(2.0) * x * y + c_im
                x = xx - yy + c_re
            out[row, column] = count


def cases(libraries: Mapping[str, CompiledC]) -> list[Case]:
    """Return the comparisons; `libraries` are those of the C source, by name."""
    return [_mandelbrot_case(libraries), _julia_case(libraries)]


def _escapes(z: np.ndarray, c: np.ndarray | complex, rounds: int) -> np.ndarray:
    """Return how many rounds each point stays within 2 of the origin, in float64."""
    z, count = z.copy(), np.zeros(z.shape, np.int32)
    for _ in range(rounds):
        inside = z.real**2 + z.imag**2 <= 4.0
        count += inside
        z = np.where(inside, z * z + c, z)
    return count


def _points(size: int, left: float, top: float) -> np.ndarray:
    steps = 3.0 / size * np.arange(size)
    return (left + steps) + 1j * (top + steps[:, None])


def _mandelbrot_case(libraries: Mapping[str, CompiledC]) -> Case:
    size, rounds = 1024, 200
    out = np.empty((size, size), np.int32)
    points = _points(size, -2.0, -1.5)
    rivals = {
        "prange": lambda: _mandelbrot(out, rounds),
        **rivals_in_c(libraries, "mandelbrot", out, rounds, size),
    }
    return Case(
        "mandelbrot f32, 200 rounds, 1024^2",
        (out,),
        (_escapes(np.zeros_like(points), points, rounds),),
        0.01,
        lambda: mandelbrot[(size // _BLOCK[0], size // _BLOCK[1]), _BLOCK](out, rounds),
        rivals,
        strays=0.01,
    )


def _julia_case(libraries: Mapping[str, CompiledC]) -> Case:
    size, rounds = 1024, 200
    c_re, c_im = f32(-0.8), f32(0.156)
    out = np.empty((size, size), np.int32)
    rivals = {
        "prange": lambda: _julia(out, c_re, c_im, rounds),
        **rivals_in_c(libraries, "julia", out, c_re, c_im, rounds, size),
    }
    return Case(
        "julia f32, 200 rounds with break, 1024^2",
        (out,),
        (_escapes(_points(size, -1.5, -1.5), complex(c_re, c_im), rounds),),
        0.01,
        lambda: julia[(size // _BLOCK[0], size // _BLOCK[1]), _BLOCK](out, c_re, c_im, rounds),
        rivals,
        strays=0.01,
    )
