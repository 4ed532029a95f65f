"""Kernels that multiply matrices, and their code for arrays that are aligned and apart."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import kerneldsl as kd
from kerneldsl.contract import ArrayPromises, Promises, Specialization
from kerneldsl.contract.abi import EXPLICIT
from kerneldsl.language.kinds import array_kinds
from targets.cuda.compile.artifact import CudaArtifact
from targets.cuda.compile.compiler import compile_kernel
from targets.cuda.compile.ptx_compiler import PtxCompiler

__all__ = ["compile_product", "product", "shared_product", "specialize_product"]


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
