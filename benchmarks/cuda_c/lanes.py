"""Every kernel of ``benchmarks/lanes``, at the size that fills a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from lanes import (
    fractals,
    geometry,
    grids,
    mathematics,
    random_numbers,
    rows,
    sorting_and_scans,
    sparse,
    tables,
)

from cuda_c.case import Arguments, Case

__all__ = ["cases"]

f32, i32, i64 = np.float32, np.int32, np.int64
_N = 1 << 24
_SIDE = 4096
_BLOCK = (32, 8)
_GRID = (_SIDE // 32, _SIDE // 8)


def cases() -> list[Case]:
    """Return the cases."""
    return [*_of_elements(), *_of_fields(), *_of_blocks(), *_of_rows()]


def _with(*numbers: Any) -> Callable[[Arguments], Arguments]:
    """Return what adds numbers to our arguments."""
    return lambda given: (*given, *numbers)


def _empty_like(*arrays: np.ndarray) -> Arguments:
    return (*arrays, *(np.empty_like(each) for each in arrays))


def _of_elements() -> list[Case]:
    def options(rng: np.random.Generator) -> Arguments:
        spot, strike = (rng.uniform(*limits, _N).astype(f32) for limits in ((5, 30), (1, 100)))
        years = rng.uniform(0.25, 10, _N).astype(f32)
        return spot, strike, years, *np.empty((2, _N), f32), f32(0.02), f32(0.3)

    def points(rng: np.random.Generator) -> Arguments:
        radius, angle = rng.uniform(0, 2, _N), rng.uniform(-math.pi, math.pi, _N)
        return radius.astype(f32), angle.astype(f32), *np.empty((2, _N), f32)

    def numbers(rng: np.random.Generator) -> Arguments:
        return _empty_like(rng.standard_normal(_N).astype(f32))

    element = {"grid": _N // 256, "block": 256, "source": "lanes", "extent": (_N,)}
    return [
        Case(
            mathematics.black_scholes,
            make=options,
            passed=_with(i32(_N)),
            outputs=(3, 4),
            tolerance=1e-5,
            moved_bytes=20 * _N,
            **element,
        ),
        Case(
            mathematics.gelu,
            make=numbers,
            passed=_with(i32(_N)),
            outputs=(1,),
            tolerance=1e-6,
            moved_bytes=8 * _N,
            **element,
        ),
        Case(
            mathematics.polar,
            make=points,
            passed=_with(i32(_N)),
            outputs=(2, 3),
            tolerance=1e-6,
            moved_bytes=16 * _N,
            **element,
        ),
        Case(
            mathematics.multiply_adds,
            make=lambda rng: (*numbers(rng), 64),
            passed=lambda given: (*given[:2], i32(64), i32(_N)),
            outputs=(1,),
            tolerance=1e-6,
            moved_bytes=8 * _N,
            **element,
        ),
        Case(
            random_numbers.circle,
            "lanes",
            (1 << 20) // 256,
            256,
            lambda rng: (np.empty(1 << 20, i32), 128),
            lambda given: (given[0], i32(128), i32(1 << 20)),
            (0,),
            extent=(1 << 20,),
        ),
        Case(
            random_numbers.asian_option,
            "lanes",
            (1 << 20) // 256,
            256,
            lambda rng: (np.empty(1 << 20, f32), f32(1.0), f32(0.0005), f32(0.05), 32),
            lambda given: (*given[:4], i32(32), i32(1 << 20)),
            (0,),
            1e-4,
            extent=(1 << 20,),
        ),
    ]


def _of_fields() -> list[Case]:
    def volume(rng: np.random.Generator) -> Arguments:
        a = rng.standard_normal((256,) * 3).astype(f32)
        return a, a.copy(), f32(0.4), f32(0.1)

    def image(rng: np.random.Generator) -> Arguments:
        weights = np.exp(-0.5 * (np.arange(-8, 9) / 3) ** 2)
        picture = rng.uniform(0, 1, (_SIDE, _SIDE)).astype(f32)
        return picture, (weights / weights.sum()).astype(f32), np.empty_like(picture)

    def fields(rng: np.random.Generator) -> Arguments:
        return *rng.standard_normal((3, _SIDE, _SIDE)).astype(f32), f32(1e-3)

    def distances(rng: np.random.Generator) -> Arguments:
        return rng.integers(1, 1000, (_SIDE, _SIDE)).astype(f32), 17

    sides = _with(i32(_SIDE), i32(_SIDE))
    plane = {"grid": _GRID, "block": _BLOCK, "source": "lanes"}
    cells = _SIDE * _SIDE
    return [
        Case(
            fractals.mandelbrot,
            make=lambda rng: (np.empty((_SIDE, _SIDE), i32), 200),
            passed=lambda given: (given[0], i32(200), i32(_SIDE), i32(_SIDE)),
            outputs=(0,),
            strays=0.01,
            **plane,
        ),
        Case(
            fractals.julia,
            make=lambda rng: (np.empty((_SIDE, _SIDE), i32), f32(-0.8), f32(0.156), 200),
            passed=lambda given: (*given[:3], i32(200), i32(_SIDE), i32(_SIDE)),
            outputs=(0,),
            strays=0.01,
            **plane,
        ),
        Case(
            grids.stencil,
            "lanes",
            (256 // 32, 256 // 8, 256),
            _BLOCK,
            volume,
            _with(i32(256), i32(256), i32(256)),
            (1,),
            1e-6,
            moved_bytes=8 * 256**3,
        ),
        Case(
            grids.blur_rows,
            "lanes",
            (_SIDE // 128, _SIDE),
            128,
            image,
            sides,
            (2,),
            1e-6,
            moved_bytes=8 * cells,
        ),
        Case(
            grids.blur_columns,
            make=image,
            passed=sides,
            outputs=(2,),
            tolerance=1e-6,
            moved_bytes=8 * cells,
            **plane,
        ),
        Case(
            grids.fdtd_magnetic,
            make=fields,
            passed=sides,
            outputs=(1, 2),
            tolerance=1e-6,
            moved_bytes=20 * cells,
            **plane,
        ),
        Case(
            grids.fdtd_electric,
            make=fields,
            passed=sides,
            outputs=(0,),
            tolerance=1e-6,
            moved_bytes=16 * cells,
            **plane,
        ),
        Case(
            tables.shorten_paths,
            make=distances,
            passed=lambda given: (given[0], i32(17), i32(_SIDE)),
            outputs=(0,),
            moved_bytes=4 * cells,
            **plane,
        ),
        Case(
            geometry.trace,
            "lanes",
            (1024 // 16, 1024 // 16),
            (16, 16),
            _spheres,
            _with(i32(64), i32(1024), i32(1024)),
            (1,),
            1e-3,
            1e-3,
        ),
    ]


def _spheres(rng: np.random.Generator) -> Arguments:
    places = rng.uniform((-3, -3, 4, 0.2), (3, 3, 10, 1.0), (64, 4)).astype(f32)
    return places, np.empty((1024, 1024), f32)


def _of_blocks() -> list[Case]:
    def bytes_(rng: np.random.Generator) -> Arguments:
        values = np.clip(rng.normal(128, 40, _N), 0, 255).astype(np.uint8)
        return values, np.zeros(256, i32)

    def bodies(rng: np.random.Generator) -> Arguments:
        places = rng.standard_normal((3, 1 << 15)).astype(f32)
        mass = rng.uniform(0.1, 1, 1 << 15).astype(f32)
        return *places, mass, *np.empty((3, 1 << 15), f32), f32(0.01)

    def clusters(rng: np.random.Generator) -> Arguments:
        n = 1 << 22
        points = rng.standard_normal((3, n)).astype(f32)
        centres = rng.standard_normal((16, 3)).astype(f32)
        return points, centres, np.empty(n, i32), np.zeros((16, 3), f32), np.zeros(16, i32)

    def letters(rng: np.random.Generator) -> Arguments:
        a = rng.integers(0, 4, (4096, 256)).astype(np.int8)
        b = np.where(rng.random(a.shape) < 0.7, a, rng.integers(0, 4, a.shape)).astype(np.int8)
        return a, b, np.empty(4096, i32)

    def matrices(rng: np.random.Generator) -> Arguments:
        return *rng.standard_normal((2, 1024, 1024)).astype(f32), np.empty((1024, 1024), f32)

    scanned = 1 << 22
    return [
        Case(
            sorting_and_scans.histogram,
            "lanes",
            528,
            256,
            bytes_,
            _with(i32(_N)),
            (1,),
            moved_bytes=_N,
        ),
        Case(
            sorting_and_scans.sort_rows,
            "lanes",
            4096,
            1024,
            lambda rng: _empty_like(rng.standard_normal((4096, 1024)).astype(f32)),
            lambda given: given,
            (1,),
        ),
        Case(
            sorting_and_scans.scan_blocks,
            "lanes",
            scanned // 1024,
            1024,
            lambda rng: (
                *_empty_like(rng.integers(0, 100, scanned).astype(i32)),
                np.empty(scanned // 1024, i32),
            ),
            _with(i32(scanned)),
            (1, 2),
        ),
        Case(
            sorting_and_scans.add_totals,
            "lanes",
            _N // 1024,
            1024,
            lambda rng: (
                rng.integers(0, 100, _N).astype(i32),
                rng.integers(0, 100, _N // 1024).astype(i32),
            ),
            _with(i32(_N)),
            (0,),
            moved_bytes=8 * _N,
        ),
        Case(
            geometry.attract,
            "lanes",
            (1 << 15) // 128,
            128,
            bodies,
            _with(i32(1 << 15)),
            (4, 5, 6),
            1e-4,
        ),
        Case(
            geometry.assign,
            "lanes",
            (1 << 22) // 128,
            128,
            clusters,
            _with(i32(1 << 22)),
            (2, 3, 4),
            1e-3,
            1e-4,
        ),
        Case(tables.align, "lanes", 4096, 256, letters, lambda given: given, (2,)),
        Case(
            tables.multiply,
            "lanes",
            (64, 64),
            (16, 16),
            matrices,
            _with(i32(1024)),
            (2,),
            1e-5,
        ),
    ]


def _of_rows() -> list[Case]:
    def matrix(rng: np.random.Generator) -> Arguments:
        return _empty_like(rng.standard_normal((8192, 2048)).astype(f32))

    def scaled(rng: np.random.Generator) -> Arguments:
        x, out = matrix(rng)
        return x, *rng.standard_normal((2, 2048)).astype(f32), out, f32(1e-5)

    def sparse_rows(count: int, low: int, high: int) -> Callable[[np.random.Generator], Arguments]:
        def make(rng: np.random.Generator) -> Arguments:
            starts = np.concatenate([[0], np.cumsum(rng.integers(low, high, count))]).astype(i32)
            columns = rng.integers(0, count, starts[-1]).astype(i32)
            values = rng.standard_normal(starts[-1]).astype(f32)
            vector = rng.standard_normal(count).astype(f32)
            return starts, columns, values, vector, np.empty(count, f32)

        return make

    many, fewer = 1 << 20, 1 << 17
    return [
        Case(
            rows.softmax,
            "lanes",
            8192,
            128,
            matrix,
            _with(i32(2048)),
            (1,),
            1e-5,
            moved_bytes=8 * 8192 * 2048,
        ),
        Case(
            rows.layer_norm,
            "lanes",
            8192,
            128,
            scaled,
            _with(i32(2048)),
            (3,),
            1e-5,
            moved_bytes=8 * 8192 * 2048,
            is_typed_by_numba=False,  # rsqrt has another name there
        ),
        Case(
            sparse.multiply_by_threads,
            "lanes",
            many // 128,
            128,
            sparse_rows(many, 0, 33),
            _with(i32(many)),
            (4,),
            1e-5,
        ),
        Case(
            sparse.multiply_by_warps,
            "lanes",
            fewer // 4,
            128,
            sparse_rows(fewer, 64, 385),
            _with(i32(fewer)),
            (4,),
            1e-5,
        ),
    ]
