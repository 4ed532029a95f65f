"""Debug mode in the region IR, and calls of other code."""

from __future__ import annotations

import re
from typing import Any

import numba
import pytest
from numba import errors

import kerneldsl as kd
from kerneldsl.ir.frontend.read import read_function
from kerneldsl.ir.operations import Effect, Function
from kerneldsl.ir.simplify import simplify
from kerneldsl.lowering.numba_internals.compiling import global_compiler_lock, target_override
from kerneldsl.lowering.types import numba_types
from targets.cuda.compile.numba_device import TARGET_NAME, descriptor
from targets.cuda.compile.region_code import device_texts
from tests.support.cuda_regions import compile_regions
from tests.support.verifier import verify

_F = "float32[::1]"


def _read(kernel: Any, arrays: int | str, **options: bool) -> Function:
    spec = _specialization(kernel, arrays)
    kinds = numba_types(spec.kinds)
    with global_compiler_lock, target_override(TARGET_NAME):
        function = read_function(spec.unit, kinds, descriptor().typing_context, **options)
    verify(function)
    simplify(function.body)
    return function


@kd.func
def put(values, i, value):
    assert value > 0, "positive"
    values[i] = value


@kd.kernel
def faults(x, out):
    i = kd.grid(1)
    if x[i] > 3:
        raise ValueError("large")
    pair = (1.0, 2.0)
    put(out, i, x[i] * pair[i])
    put(out, i + 1, pair[-1])


def test_checks_and_faults_name_their_places() -> None:
    function = _read(faults, 2, debug=True)
    checks = [each for each in function.body.walk() if each.name == "fault.check"]
    raised = [each for each in function.body.walk() if each.name == "fault"]
    sites = function.fault_sites
    arrays = [sites[each.attributes["site"]].array for each in checks]
    assert arrays == ["x", "x", "pair", "values", "values"]
    kinds = [sites[each.attributes["site"]].kind for each in raised]
    assert kinds == [ValueError, AssertionError, AssertionError]
    # A function that is called twice has its places once. A constant index of a tuple has none.
    assert len(sites) == 6


@kd.kernel
def indexed(a, out):
    pair = kd.grid(2)
    out[0] = a[1:, pair[1]].size + a[..., 2].size
    out[pair[0]] += out[kd.atomic.add(out, pair[0], a[pair[0], 1])]
    while out[1] > a.shape[pair[0]]:
        out[1] -= a[pair]
    assert a[2, 3] > 0


def test_each_part_of_an_index_is_checked_with_its_axis() -> None:
    function = _read(indexed, "float32[:, ::1], int64[::1]", debug=True)
    sites = function.fault_sites
    checks = [each.attributes for each in function.body.walk() if each.name == "fault.check"]
    assert [(sites[each["site"]].array, each["axis"]) for each in checks] == [
        *(("a", 1), ("out", 0)),
        *(("out", 0), ("out", 0), ("a", 0), ("a", 1), ("out", 0)),
        *(("out", 0), ("a.shape", 0), ("out", 0), ("a", 0), ("a", 1)),
        *(("a", 0), ("a", 1)),
    ]
    # An ``assert`` is numbered before what it reads.
    assert [each.kind for each in sites][-2:] == [AssertionError, IndexError]


def test_without_debug_mode_there_are_none() -> None:
    function = _read(faults, 2)
    assert not any(each.name.startswith("fault") for each in function.body.walk())
    assert function.fault_sites == ()


@kd.kernel
def beyond(x, out):
    out[0] = (1, 2)[2]  # noqa: PLE0643


def test_a_constant_index_beyond_a_tuple() -> None:
    with pytest.raises(errors.TypingError, match="beyond its elements"):
        _read(beyond, 2, debug=True)


_PTX = b""".version 7.0
.target sm_75
.address_size 64
.visible .func (.param .b32 result) twice(.param .b32 value) {
    .reg .f32 %f<3>;
    ld.param.f32 %f1, [value];
    add.f32 %f2, %f1, %f1;
    st.param.f32 [result], %f2;
    ret;
}
"""


@kd.func(link=_PTX, signature="float32(float32)")
def twice(value):
    return value + value


@numba.njit
def plain(value):
    return value * 3 if value > 1 else value


@kd.kernel
def calling(x, out):
    i = kd.grid(1)
    out[i] = twice(x[i]) + plain(x[i])


def test_linked_functions_are_calls_where_there_is_other_code() -> None:
    called = _read(calling, 2, calls_linked=True)
    (made,) = (each for each in called.body.walk() if each.name == "linked")
    assert made.effect & Effect.WRITE
    read = _read(calling, 2)
    assert not any(each.name == "linked" for each in read.body.walk())
    assert "the code of twice" in _compiled(calling, 2).ptx


def _compiled(kernel: Any, arrays: int) -> Any:
    return compile_regions(_specialization(kernel, arrays), arch="sm_90")


def _specialization(kernel: Any, arrays: int | str) -> Any:
    """A signature, or a number of arrays of float32."""
    signature = arrays if isinstance(arrays, str) else ", ".join([_F] * arrays)
    asked = kernel._asked_for((signature,), None, None, None, "null", None)
    return kernel._dispatcher.specialize(*asked)[1]


@kd.func
def misspelled(value):
    return value.nothing


@kd.kernel
def wrong(x, out):
    if out.size > 1:
        out[0] = misspelled(x[0])


@kd.kernel
def unpacked(x, out):
    a, b = (1, 2, 3)
    out[0] = a + b


@kd.kernel
def whole(x, out):
    out = x + 1  # noqa: F841


@pytest.mark.parametrize(
    ("kernel", "what", "function"),
    [
        (wrong, "has no attribute 'nothing'", misspelled.__wrapped__),
        (unpacked, "3 values are unpacked into 2 names", unpacked.function),
        (whole, "needs memory", whole.function),
    ],
)
def test_errors_have_the_users_line(kernel: Any, what: str, function: Any) -> None:
    with pytest.raises(kd.KernelTypingError, match=what) as caught:
        _compiled(kernel, 2)
    assert caught.value.where.lineno == function.__code__.co_firstlineno + 2


@kd.func
def scaled(value):
    if value < 0:
        return -value
    return value * 3


@kd.kernel(lineinfo=True)
def lined(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = scaled(x[i] * x[0])


def test_lines_are_those_of_the_kernel_and_of_called_functions() -> None:
    artifact = _compiled(lined, 2)
    lines = {int(found) for found in re.findall(r"\.loc\s+\d+ (\d+) ", artifact.ptx)}
    first, called = (f.__code__.co_firstlineno for f in (lined.function, scaled.__wrapped__))
    assert {first + 3, first + 4, called + 2} <= lines
    assert "inlinedAt" in device_texts(_specialization(lined, 2), "lined")[0]
