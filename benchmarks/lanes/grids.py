"""Kernels whose threads read their neighbours in a grid of two or three dimensions."""

from __future__ import annotations

from collections.abc import Mapping

import numba
import numpy as np

import kerneldsl as kd
from lanes.case import Case, CompiledC, rivals_in_c

__all__ = ["SOURCE", "cases"]

#: Stored C source.
SOURCE = "grids"
f32 = np.float32
_THREADS = 128
_BLOCK = (32, 8)
_RADIUS = 8


@kd.kernel
def stencil(a, out, centre, side):
    x, y, z = kd.grid(3)
    if 0 < x < a.shape[2] - 1 and 0 < y < a.shape[1] - 1 and 0 < z < a.shape[0] - 1:
        out[z, y, x] = centre * a[z, y, x] + side * (
            a[z, y, x - 1]
            + a[z, y, x + 1]
            + a[z, y - 1, x]
            + a[z, y + 1, x]
            + a[z - 1, y, x]
            + a[z + 1, y, x]
        )


@numba.njit(parallel=True, error_model="numpy")
def _stencil(a, out, centre, side):
    for z in numba.prange(1, a.shape[0] - 1):
        for y in range(1, a.shape[1] - 1):
            for x in range(1, a.shape[2] - 1):
                out[z, y, x] = centre * a[z, y, x] + side * (
                    a[z, y, x - 1]
                    + a[z, y, x + 1]
                    + a[z, y - 1, x]
                    + a[z, y + 1, x]
                    + a[z - 1, y, x]
                    + a[z + 1, y, x]
                )


@kd.kernel
def blur_rows(image, weights, out):
    x, y = kd.grid(2)
    t = kd.threadIdx.x
    width = image.shape[1]
    tile = kd.shared.array(_THREADS + 2 * _RADIUS, f32)
    start = kd.blockIdx.x * kd.blockDim.x - _RADIUS
    for k in range(t, kd.blockDim.x + 2 * _RADIUS, kd.blockDim.x):
        tile[k] = image[y, min(max(start + k, 0), width - 1)]
    kd.syncthreads()
    if x < width:
        total = f32(0.0)
        for k in range(2 * _RADIUS + 1):
            total += weights[k] * tile[t + k]
        out[y, x] = total


@kd.kernel
def blur_columns(image, weights, out):
    x, y = kd.grid(2)
    tx, ty = kd.threadIdx.x, kd.threadIdx.y
    height, width = image.shape
    tile = kd.shared.array((_BLOCK[1] + 2 * _RADIUS, _BLOCK[0]), f32)
    start = kd.blockIdx.y * kd.blockDim.y - _RADIUS
    for k in range(ty, kd.blockDim.y + 2 * _RADIUS, kd.blockDim.y):
        tile[k, tx] = image[min(max(start + k, 0), height - 1), min(x, width - 1)]
    kd.syncthreads()
    if x < width and y < height:
        total = f32(0.0)
        for k in range(2 * _RADIUS + 1):
            total += weights[k] * tile[ty + k, tx]
        out[y, x] = total


@numba.njit(parallel=True, error_model="numpy")
def _blur(image, weights, between, out):
    height, width = image.shape
    for y in numba.prange(height):
        for x in range(width):
            total = f32(0.0)
            for k in range(2 * _RADIUS + 1):
                total += weights[k] * image[y, min(max(x + k - _RADIUS, 0), width - 1)]
            between[y, x] = total
    for y in numba.prange(height):
        for x in range(width):
            total = f32(0.0)
            for k in range(2 * _RADIUS + 1):
                total += weights[k] * between[min(max(y + k - _RADIUS, 0), height - 1), x]
            out[y, x] = total


@kd.kernel
def fdtd_magnetic(ez, hx, hy, factor):
    x, y = kd.grid(2)
    if x < ez.shape[1] - 1 and y < ez.shape[0] - 1:
        hx[y, x] -= factor * (ez[y + 1, x] - ez[y, x])
        hy[y, x] += factor * (ez[y, x + 1] - ez[y, x])


@kd.kernel
def fdtd_electric(ez, hx, hy, factor):
    x, y = kd.grid(2)
    if 0 < x < ez.shape[1] - 1 and 0 < y < ez.shape[0] - 1:
        ez[y, x] += factor * (hy[y, x] - hy[y, x - 1] - hx[y, x] + hx[y - 1, x])


@numba.njit(parallel=True, error_model="numpy")
def _fdtd(ez, hx, hy, factor, steps):
    height, width = ez.shape
    for _ in range(steps):
        for y in numba.prange(height - 1):
            for x in range(width - 1):
                hx[y, x] -= factor * (ez[y + 1, x] - ez[y, x])
                hy[y, x] += factor * (ez[y, x + 1] - ez[y, x])
        for y in numba.prange(1, height - 1):
            for x in range(1, width - 1):
                ez[y, x] += factor * (hy[y, x] - hy[y, x - 1] - hx[y, x] + hx[y - 1, x])


def cases(libraries: Mapping[str, CompiledC]) -> list[Case]:
    """Return the comparisons; `libraries` are those of the C source, by name."""
    rng = np.random.default_rng(7)
    return [
        _stencil_case(rng, libraries),
        _blur_case(rng, libraries),
        _fdtd_case(rng, libraries),
    ]


def _stencil_case(rng: np.random.Generator, libraries: Mapping[str, CompiledC]) -> Case:
    size, centre, side = 160, f32(0.4), f32(0.1)
    a = rng.standard_normal((size,) * 3).astype(f32)
    out = np.empty_like(a)

    def applied(a, centre, side):
        inner = a[1:-1, 1:-1]
        return centre * inner[..., 1:-1] + side * (
            inner[..., :-2]
            + inner[..., 2:]
            + a[1:-1, :-2, 1:-1]
            + a[1:-1, 2:, 1:-1]
            + a[:-2, 1:-1, 1:-1]
            + a[2:, 1:-1, 1:-1]
        )

    inside = out[1:-1, 1:-1, 1:-1]

    def with_numpy():
        inside[:] = applied(a, centre, side)

    rivals = {
        "prange": lambda: _stencil(a, out, centre, side),
        "numpy": with_numpy,
        **rivals_in_c(libraries, "stencil", a, out, centre, side, size),
    }
    grid = (size // _BLOCK[0], size // _BLOCK[1], size)
    return Case(
        "7-point stencil f32, 160^3",
        (inside,),
        (applied(a.astype(np.float64), float(centre), float(side)),),
        1e-6,
        lambda: stencil[grid, _BLOCK](a, out, centre, side),
        rivals,
    )


def _blur_case(rng: np.random.Generator, libraries: Mapping[str, CompiledC]) -> Case:
    size = 1024
    image = rng.uniform(0, 1, (size, size)).astype(f32)
    weights = np.exp(-0.5 * (np.arange(-_RADIUS, _RADIUS + 1) / 3) ** 2)
    weights = (weights / weights.sum()).astype(f32)
    between, out = np.empty_like(image), np.empty_like(image)

    def blurred(image, weights):
        padded = np.pad(image, ((0, 0), (_RADIUS, _RADIUS)), "edge")
        rows = sum(w * padded[:, k : k + size] for k, w in enumerate(weights))
        padded = np.pad(rows, ((_RADIUS, _RADIUS), (0, 0)), "edge")
        return sum(w * padded[k : k + size] for k, w in enumerate(weights))

    def ours():
        blur_rows[(size // _THREADS, size), _THREADS](image, weights, between)
        grid = size // _BLOCK[0], size // _BLOCK[1]
        blur_columns[grid, _BLOCK](between, weights, out)

    def with_numpy():
        out[:] = blurred(image, weights)

    rivals = {
        "prange": lambda: _blur(image, weights, between, out),
        "numpy": with_numpy,
        **rivals_in_c(libraries, "blur", image, weights, between, out, size),
    }
    return Case(
        "separable blur f32, radius 8, 1024^2",
        (out,),
        (blurred(image.astype(np.float64), weights.astype(np.float64)),),
        1e-6,
        ours,
        rivals,
        prepare=lambda: between.fill(np.nan),
    )


def _fdtd_case(rng: np.random.Generator, libraries: Mapping[str, CompiledC]) -> Case:
    size, steps, factor = 512, 16, f32(0.5)
    first = rng.standard_normal((3, size, size)).astype(f32)
    fields = np.empty_like(first)
    ez, hx, hy = fields
    grid = size // _BLOCK[0], size // _BLOCK[1]

    def stepped(ez, hx, hy, factor):
        for _ in range(steps):
            hx[:-1, :-1] -= factor * (ez[1:, :-1] - ez[:-1, :-1])
            hy[:-1, :-1] += factor * (ez[:-1, 1:] - ez[:-1, :-1])
            curl = hy[1:-1, 1:-1] - hy[1:-1, :-2] - hx[1:-1, 1:-1] + hx[:-2, 1:-1]
            ez[1:-1, 1:-1] += factor * curl

    def ours():
        for _ in range(steps):
            fdtd_magnetic[grid, _BLOCK](ez, hx, hy, factor)
            fdtd_electric[grid, _BLOCK](ez, hx, hy, factor)

    exact = first.astype(np.float64)
    stepped(*exact, float(factor))
    rivals = {
        "prange": lambda: _fdtd(ez, hx, hy, factor, steps),
        "numpy": lambda: stepped(ez, hx, hy, factor),
        **rivals_in_c(libraries, "fdtd", ez, hx, hy, factor, steps, size),
    }
    return Case(
        "FDTD f32, 16 steps, 512^2",
        (fields,),
        (exact,),
        1e-5,
        ours,
        rivals,
        prepare=lambda: np.copyto(fields, first),
    )
