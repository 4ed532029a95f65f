"""Kernels that multiply matrices, and their code for arrays that are aligned and apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.contract import ArrayPromises, Promises, Specialization
from kerneldsl.contract.abi import EXPLICIT
from kerneldsl.language.kinds import array_kinds
from targets.cuda.compile.artifact import CudaArtifact
from targets.cuda.compile.compiler import compile_kernel
from targets.cuda.compile.ptx_compiler import PtxCompiler

__all__ = [
    "compile_product",
    "grouped_product",
    "product",
    "rows_of_groups",
    "shared_product",
    "specialize_product",
]


def product(
    rows: int,
    columns: int,
    depth: int,
    *,
    sums: Any = kd.float32,
    is_a_turned: bool = False,
    is_b_turned: bool = True,
    precision: str = "ieee",
    promote: int | None = 128,
    stages: int | None = None,
) -> Any:
    """Return a kernel that multiplies matrices by tiles; turned ones are stored transposed."""
    bm, bn, bk = rows, columns, depth

    @kd.kernel
    def multiply(a, b, c):
        for m, n in kd.tiles(c.shape, (bm, bn)):
            total = kd.tile.zeros((bm, bn), sums)
            for k in kd.pipelined(range(0, a.shape[0 if is_a_turned else 1], bk), stages=stages):
                if is_a_turned:
                    x = kd.tile.load(a, (k, m), (bk, bm)).T
                else:
                    x = kd.tile.load(a, (m, k), (bm, bk))
                if is_b_turned:
                    y = kd.tile.load(b, (n, k), (bn, bk)).T
                else:
                    y = kd.tile.load(b, (k, n), (bk, bn))
                total = kd.mma(x, y, total, promote=promote, precision=precision)
            kd.tile.store(c, (m, n), total)

    return multiply


@cache
def grouped_product(rows: int, columns: int, depth: int) -> Any:
    """Return a kernel that multiplies groups of rows by matrices of their own."""

    @kd.kernel
    def multiply_groups(a, weights, tiles, c):
        for t in kd.tiles(tiles.shape[0], 1):
            m, n, group, end = tiles[t, 0], tiles[t, 1], tiles[t, 2], tiles[t, 3]
            acc = kd.tile.zeros((rows, columns), kd.float32)
            for k in kd.pipelined(range(0, a.shape[1], depth), stages=2):
                x = kd.tile.load(a[:end], (m, k), (rows, depth))
                acc = kd.mma(x, kd.tile.load(weights[group], (n, k), (columns, depth)).T, acc)
            kd.tile.store(c[:end], (m, n), acc)

    return multiply_groups


def rows_of_groups(groups: Sequence[int], width: int, tile: tuple[int, ...]) -> np.ndarray:
    """Return the table of tiles of groups of so many rows: row, column, group and its end."""
    rows, columns = tile
    ends = list(accumulate(groups))
    found = [
        (m, n, group, end)
        for group, (end, count) in enumerate(zip(ends, groups, strict=True))
        for m in range(end - count, end, rows)
        for n in range(0, width, columns)
    ]
    return np.array(found, np.uint32)


#: A kernel of :func:`product` that tests share, if they do not launch it.
shared_product = cache(product)


def specialize_product(
    kernel: Any,
    signature: str,
    *,
    threads: int = 256,
    arch: str = "sm_90a",
    alignment: int = 16,
    is_disjoint: bool = True,
) -> Specialization:
    """Return what a kernel is compiled for, with arguments of which promises hold."""
    compiler = PtxCompiler("cuda")
    block_dim = (threads, 1, 1)
    _, found = kernel._dispatcher.specialize(compiler, (signature,), EXPLICIT, block_dim, arch)
    arrays = tuple(ArrayPromises(alignment) for _ in array_kinds(found.kinds))
    return replace(found, promises=Promises(arrays, is_disjoint, is_narrow=True))


@cache
def compile_product(
    kernel: Any, signature: str, *, arch: str = "sm_90a", **options: Any
) -> CudaArtifact:
    """Compile a kernel for what :func:`specialize_product` returns, once for all tests."""
    return compile_kernel(specialize_product(kernel, signature, arch=arch, **options), arch=arch)
