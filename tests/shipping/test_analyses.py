"""What a package says of its kernels is what an analysis of the same kernel finds."""

from __future__ import annotations

from dataclasses import replace

import pytest

import kerneldsl as kd
from kerneldsl.placement.registry import get_target
from kerneldsl.shipping.key import unit_digest
from kerneldsl.shipping.writer import PackageWriter

VECTORS, MATRICES = "float32[::1], float32[::1]", "float32[:, ::1], float32[:, ::1]"


@kd.kernel
def twice(x, out):
    i = kd.grid(1)
    if i < out.shape[0]:
        out[i] = x[i] * 2


@pytest.mark.parametrize(("signature", "is_unchanged"), [(VECTORS, True), (MATRICES, False)])
def test_a_kernel_that_is_rewritten_is_not_listed(signature: str, is_unchanged: bool) -> None:
    compiler = get_target("cpu").compiler
    _, found = twice.specialization(signature, forall=1, target="cpu")
    arch = compiler.shipped_architectures(found.arch)[-1]
    writer = PackageWriter("mypkg")
    assert writer.add(compiler, compiler.compile(replace(found, arch=arch))) is not None
    unit = twice._dispatcher.state().unit
    listed = writer.manifest().analyses.get("unchanged", frozenset())
    assert (found.unit is unit) is is_unchanged
    assert (unit_digest(unit, found.kinds) in listed) is is_unchanged
    assert bool(writer.manifest().forms) is is_unchanged
