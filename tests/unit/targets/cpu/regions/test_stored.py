"""Code of the region IR that another process or machine runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract import UnusableCodeError
from targets.cpu.codegen.levels import LEVELS
from targets.cpu.regions.compile import compile_kernel
from targets.cpu.runtime.linking import undefined_symbols
from targets.cpu.runtime.native_tables import RUNNER

_ARRAYS = "float32[::1], float32[::1]"
TABLE = np.arange(40_000, dtype=np.float64)


@kd.kernel
def halves(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i] / kd.float32(2)


@kd.kernel
def block_sums(x, out):
    part = kd.shared.array(64, kd.float32)
    t = kd.threadIdx.x
    part[t] = x[kd.grid(1)]
    kd.syncthreads()
    if t == 0:
        total = kd.float32(0)
        for k in range(64):
            total += part[k]
        out[kd.blockIdx.x] = total


@kd.kernel
def looked_up(index, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = TABLE[index[i]]


def _specialized(kernel, signature=_ARRAYS, **options):
    return kernel.specialization(signature, target="cpu", **options)


@pytest.mark.parametrize(
    ("kernel", "options"), [(halves, {"forall": 1}), (block_sums, {"block": 64})]
)
def test_it_is_kept_and_restored(kernel, options) -> None:
    compiler, spec = _specialized(kernel, **options)
    made = compile_kernel(spec)
    sections = compiler.dump(made)
    assert sections is not None
    found = compiler.restore(spec, sections)
    assert found.text("source") == made.text("source")
    assert found.text("source").startswith(f"kernel {kernel.__name__}(%x: float32[::1]")
    assert found.rows_along == made.rows_along
    with pytest.raises(UnusableCodeError):
        compiler.restore(spec, {**sections, "object": sections["object"][:100]})


@pytest.mark.parametrize("level", sorted(LEVELS))
def test_shipped_code_is_the_same_from_each_build(level) -> None:
    compiler, spec = _specialized(halves, forall=1)
    one, two = (compile_kernel(replace(spec, arch=level)) for _ in range(2))
    shipped = compiler.ship(one)
    assert shipped is not None
    assert shipped["object"] == one.compiled.library.object_code()
    assert shipped["object"] == two.compiled.library.object_code()
    assert not set(undefined_symbols(shipped["object"])) & {RUNNER}
    assert one.entry_name.encode() in shipped["object"]


def test_large_captured_arrays_are_symbols() -> None:
    compiler, spec = _specialized(looked_up, "int64[::1], float64[::1]", forall=1)
    sections = compiler.dump(compile_kernel(spec))
    assert sections is not None
    assert len(sections["object"]) < TABLE.nbytes
    index, out = np.array([3, 39_999]), np.zeros(2)
    looked_up.forall(2)(index, out)
    assert out.tolist() == [3.0, 39_999.0]
