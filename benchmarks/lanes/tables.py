"""Kernels on matrices and tables: a product by tiles, shortest paths, alignment of sequences."""

from __future__ import annotations

from collections.abc import Mapping

import numba
import numpy as np

import kerneldsl as kd
from lanes.case import Case, CompiledC, rivals_in_c

__all__ = ["SOURCE", "cases"]

#: Stored C source.
SOURCE = "tables"
f32, i32 = np.float32, np.int32
_TILE = 16
_BLOCK = (32, 8)
_LENGTH = 256
_MATCH, _MISMATCH, _GAP = 2, -1, 1


@kd.kernel
def multiply(a, b, c):
    column, row = kd.grid(2)
    tx, ty = kd.threadIdx.x, kd.threadIdx.y
    tile_a = kd.shared.array((_TILE, _TILE), f32)
    tile_b = kd.shared.array((_TILE, _TILE), f32)
    total = f32(0.0)
    for start in range(0, a.shape[1], _TILE):
        tile_a[ty, tx] = a[row, start + tx]
        tile_b[ty, tx] = b[start + ty, column]
        kd.syncthreads()
        for k in range(_TILE):
            total += tile_a[ty, k] * tile_b[k, tx]
        kd.syncthreads()
    c[row, column] = total


@numba.njit(parallel=True)
def _multiply(a, b, c):
    for i in numba.prange(c.shape[0]):
        c[i] = 0
        for k in range(a.shape[1]):
            for j in range(c.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


@kd.kernel
def shorten_paths(distance, k):
    j, i = kd.grid(2)
    if i < distance.shape[0] and j < distance.shape[1]:
        through = distance[i, k] + distance[k, j]
        if through < distance[i, j]:
            distance[i, j] = through


@numba.njit(parallel=True)
def _shortest_paths(distance):
    n = distance.shape[0]
    for k in range(n):
        for i in numba.prange(n):
            first = distance[i, k]
            for j in range(n):
                distance[i, j] = min(distance[i, j], first + distance[k, j])


@kd.kernel
def align(a, b, best):
    pair, t = kd.blockIdx.x, kd.threadIdx.x
    cells = kd.shared.array((3, _LENGTH + 1), i32)
    scores = kd.shared.array(_LENGTH, i32)
    for k in range(3):
        cells[k, t + 1] = 0
        if t == 0:
            cells[k, 0] = 0
    letter = a[pair, t]
    score = 0
    kd.syncthreads()
    for d in range(2 * _LENGTH - 1):
        column = d - t
        if 0 <= column < _LENGTH:
            now, before, earlier = d % 3, (d + 2) % 3, (d + 1) % 3
            value = cells[earlier, t] + (_MATCH if letter == b[pair, column] else _MISMATCH)
            value = max(value, max(cells[before, t], cells[before, t + 1]) - _GAP)
            value = max(value, 0)
            cells[now, t + 1] = value
            score = max(score, value)
        kd.syncthreads()
    scores[t] = score
    kd.syncthreads()
    step = kd.blockDim.x // 2
    while step > 0:
        if t < step:
            scores[t] = max(scores[t], scores[t + step])
        kd.syncthreads()
        step //= 2
    if t == 0:
        best[pair] = scores[0]


@numba.njit(parallel=True)
def _align(a, b, best):
    for pair in numba.prange(best.size):
        row = np.zeros(_LENGTH + 1, i32)
        score = 0
        for i in range(_LENGTH):
            diagonal = 0
            for j in range(_LENGTH):
                value = diagonal + (_MATCH if a[pair, i] == b[pair, j] else _MISMATCH)
                diagonal = row[j + 1]
                value = max(value, max(row[j], diagonal) - _GAP, 0)
                row[j + 1] = value
                score = max(score, value)
        best[pair] = score


def cases(libraries: Mapping[str, CompiledC]) -> list[Case]:
    """Return the comparisons; `libraries` are those of the C source, by name."""
    rng = np.random.default_rng(7)
    return [
        _multiply_case(rng, libraries),
        _shortest_paths_case(rng, libraries),
        _align_case(rng, libraries),
    ]


def _multiply_case(rng: np.random.Generator, libraries: Mapping[str, CompiledC]) -> Case:
    n = 512
    a, b = rng.standard_normal((2, n, n)).astype(f32)
    c = np.empty((n, n), f32)
    rivals = {
        "prange": lambda: _multiply(a, b, c),
        "numpy": lambda: np.matmul(a, b, out=c),
        **rivals_in_c(libraries, "multiply", a, b, c, n),
    }
    return Case(
        "matmul f32, shared tiles, 512^3",
        (c,),
        (a.astype(np.float64) @ b.astype(np.float64),),
        1e-5,
        lambda: multiply[(n // _TILE, n // _TILE), (_TILE, _TILE)](a, b, c),
        rivals,
    )


def _shortest_paths_case(rng: np.random.Generator, libraries: Mapping[str, CompiledC]) -> Case:
    n = 512
    lengths = rng.integers(1, 1000, (n, n)).astype(f32)
    lengths[rng.random((n, n)) > 0.1] = np.inf
    np.fill_diagonal(lengths, 0)
    distance = np.empty_like(lengths)
    grid = n // _BLOCK[0], n // _BLOCK[1]

    def ours():
        for k in range(n):
            shorten_paths[grid, _BLOCK](distance, k)

    def shortest(distance):
        for k in range(n):
            np.minimum(distance, distance[:, k, None] + distance[k], out=distance)
        return distance

    rivals = {
        "prange": lambda: _shortest_paths(distance),
        "numpy": lambda: shortest(distance),
        **rivals_in_c(libraries, "shortest_paths", distance, n),
    }
    return Case(
        "Floyd-Warshall f32, 512 launches, 512^2",
        (distance,),
        (shortest(lengths.astype(np.float64)),),
        0,
        ours,
        rivals,
        prepare=lambda: np.copyto(distance, lengths),
    )


def _align_case(rng: np.random.Generator, libraries: Mapping[str, CompiledC]) -> Case:
    pairs = 64
    a = rng.integers(0, 4, (pairs, _LENGTH)).astype(np.int8)
    b = np.where(rng.random(a.shape) < 0.7, a, rng.integers(0, 4, a.shape)).astype(np.int8)
    best = np.empty(pairs, i32)
    table = np.zeros((_LENGTH + 1, _LENGTH + 1, pairs), np.int64)
    for i in range(_LENGTH):
        for j in range(_LENGTH):
            value = table[i, j] + np.where(a[:, i] == b[:, j], _MATCH, _MISMATCH)
            gaps = np.maximum(table[i, j + 1], table[i + 1, j]) - _GAP
            table[i + 1, j + 1] = np.maximum(np.maximum(value, gaps), 0)
    rivals = {
        "prange": lambda: _align(a, b, best),
        **rivals_in_c(libraries, "align", a, b, best, pairs),
    }
    return Case(
        "Smith-Waterman i32, anti-diagonals, 64 x 256^2",
        (best,),
        (table.max(axis=(0, 1)),),
        0,
        lambda: align[pairs, _LENGTH](a, b, best),
        rivals,
    )
