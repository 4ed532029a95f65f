"""What an explanation follows through functions, tuples and loops over other things than ranges."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

import kerneldsl as kd
from kerneldsl.contract import Compiler
from kerneldsl.errors import ArgumentValueError
from kerneldsl.ir.frontend.written import WrittenReader
from kerneldsl.placement.registry import get_target
from tests.support.regions.reading import specialized
from tests.unit.explain.test_accesses import _agree


def _symbol(name):
    return sympy.Symbol(name, integer=True, nonnegative=True)


@kd.func
def at(x, i):
    return x[i]


@kd.kernel
def neighbours(x, out):
    i = kd.grid(1)
    if 0 < i < out.size:
        out[i] = at(x, i) + at(x, i - 1)


@kd.kernel
def called_once(x, out, n):
    i = kd.grid(1)
    if i < n:
        out[i] = at(x, 2 * i + n)


@kd.kernel
def halves(x, out):
    t = kd.threadIdx.x
    s = kd.shared.array(64, np.float32)
    s[t] = x[kd.grid(1)]
    kd.syncthreads()
    r = 0
    for offset in (32, 16, 8):
        r += 1  # noqa: SIM113 -- rounds, for what records them
        if t < offset:
            s[t] = s[t] + s[t + offset]
        kd.syncthreads()
    if t == 0:
        out[kd.blockIdx.x] = s[0]


@kd.kernel
def over_elements(x, w, out):
    i = kd.grid(1)
    total = np.float32(0)
    for k, v in enumerate(w):
        if i + k < x.size:
            total += v * x[i + k]
    for one, two in zip(w, (1, 2, 5)):  # noqa: B905 -- a kernel has no such keyword
        total += one + x[two]
    out[i] = total


@kd.kernel
def members(pair, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = pair[0][i, 1] + pair[1][0]


def explained(kernel, *args, **options):
    return kernel.explain(*args, arch="sm_90", occupancy=False, **options)


def test_an_index_is_followed_through_a_call():
    signature = "float32[::1], float32[::1], int64"
    found = explained(called_once, signature, block=64, sizes={"x": 300, "n": 100})
    (load,) = (each for each in found.accesses if each.operation == "load")
    i = _symbol("blockIdx.x") * _symbol("blockDim.x") + _symbol("threadIdx.x")
    assert load.index == (2 * i + sympy.Symbol("n", integer=True),)
    assert load.where.function == "at"


def test_indices_of_several_calls_are_as_the_function_writes_them():
    found = explained(neighbours, "float32[::1], float32[::1]", block=64)
    (load,) = (each for each in found.accesses if each.operation == "load")
    assert [str(each) for each in load.index] == ["i"]
    assert load.offset is None
    assert load.threads == 2 * (1024 - 1)


def test_loops_over_constants_are_exact():
    x, out = np.zeros(192, np.float32), np.zeros(3, np.float32)
    found = _agree(halves, (x, out), 64, 3)
    (loop,) = (each for each in found.branches if each.is_loop)
    assert not loop.depends_on_data
    assert loop.warps == 3 * 2 * 3
    assert found.formulas.evaluate(found.formulas.flops["float32"]) == found.flops() == 3 * 56


def test_loops_over_arrays_read_them():
    x, w, out = (np.zeros(n, np.float32) for n in (70, 3, 64))
    found = explained(over_elements, x, w, out, block=32, grid=2)
    threads = [(each.array, each.threads) for each in found.accesses]
    assert threads == [("w", 64 * 3), ("x", 64 * 3), ("w", 64 * 3), ("x", 64 * 3), ("out", 64)]
    assert {each.certainty for each in found.accesses} == {"exact"}
    assert not any(each.is_loop and each.depends_on_data for each in found.branches)


def test_arrays_in_tuples_have_the_names_of_their_members():
    found = explained(members, "(float32[:, ::1], float32[::1]), float32[::1]", block=64)
    indices = {each.array: each.offset for each in found.accesses}
    i = _symbol("blockIdx.x") * _symbol("blockDim.x") + _symbol("threadIdx.x")
    assert indices["pair.0"] == sympy.expand(_symbol("pair.0.shape[1]") * i + 1)
    assert indices["pair.1"] == 0


@pytest.mark.parametrize("target", ["cpu", "cuda", "null"])
def test_targets_read_kernels_as_they_are_written(target):
    @kd.kernel
    def early(x, n):
        i = kd.grid(1)
        if i >= n:
            return
        x[i] += 1

    spec = specialized(early, ("float32[::1], int64",), forall=1)
    function = get_target(target).compiler.typed_regions(spec.unit, spec.kinds, WrittenReader)
    operations = list(function.body.walk())
    assert [each.name for each in operations if each.name == "leave"] == ["leave"]
    texts = {each.name: each.source.node for each in operations if each.source is not None}
    assert [type(texts[name]).__name__ for name in ("array.load", "array.store", "numba")] == [
        *("Subscript", "Subscript", "AugAssign"),
    ]  # fmt: skip
    assert sum(each.name == "statement" for each in operations) == 3


def test_a_target_without_types_says_so():
    with pytest.raises(ArgumentValueError, match="infers no types"):
        Compiler.typed_regions(get_target("cpu").compiler, None, (), WrittenReader)
