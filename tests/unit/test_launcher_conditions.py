"""Conditions on packed arguments: what native code finds, against a model."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir

from kerneldsl.abi import LaunchMode, ParameterLayout
from kerneldsl.language.kinds import parse_signature
from kerneldsl.launcher import layout as interpreter_layout
from kerneldsl.launcher.builder import I32, I64, POINTER, Function
from kerneldsl.launcher.conditions import (
    Aligned,
    ArrayAt,
    Condition,
    Distinct,
    Same,
    Within,
    pack_conditions,
)
from kerneldsl.launcher.emit_conditions import emit_conditions
from kerneldsl.launcher.machine import _compile

_SIGNATURE = "int8, uint8, int32, uint32, int64, float64[:,:], float32[::1]"
_NAMES = ("a", "b", "c", "d", "e", "x", "y")
_LAYOUT = ParameterLayout(_NAMES, parse_signature(_SIGNATURE), LaunchMode(1))
_NUMBER = {parameter.name: i for i, parameter in enumerate(_LAYOUT.parameters)}


@pytest.fixture(scope="module")
def holds():
    """A function that asks native code whether conditions hold for flat values."""
    try:
        interpreter_layout._check_interpreter()
    except interpreter_layout.UnknownLayout as error:
        pytest.skip(f"no native code here: {error}")
    module = ir.Module("conditions")
    conditions = emit_conditions(module)
    f = Function(module, "ask", I32, [POINTER, I64, POINTER])
    f.b.ret(f.b.call(conditions, f.args))
    engine = _compile(str(module))
    ask = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(
        engine.get_function_address("ask")
    )

    def call(given: list[Condition], values: list[int], before: int = 0) -> bool:
        packed = [c.words(before) for c in pack_conditions(given, _LAYOUT)]
        words = [word for condition in packed for word in condition]
        block = (ctypes.c_int64 * max(len(words), 1))(*words)
        buffer = ctypes.create_string_buffer(b"\xa5" * before + _LAYOUT.packer.pack(*values))
        return bool(ask(ctypes.addressof(block), len(packed), ctypes.addressof(buffer)))

    call.engine = engine
    return call


def flat(**named: int) -> list[int]:
    """Values of every parameter, 0 where none is named."""
    given = {name.replace("_", "."): value for name, value in named.items()}
    return [given.get(parameter.name, 0) for parameter in _LAYOUT.parameters]


def test_nothing_asked_holds(holds):
    assert holds([], flat())


@pytest.mark.parametrize("before", [0, 96])
def test_alignment(holds, before):
    condition = Aligned(_NUMBER["x.data"], 16)
    for address in (0, 16, 4096, 2**63 + 16):
        assert holds([condition], flat(x_data=address), before)
    for address in (1, 8, 15, 17, 2**64 - 1):
        assert not holds([condition], flat(x_data=address), before)


def test_equality(holds):
    condition = Same(_NUMBER["x.data"], _NUMBER["y.data"])
    assert holds([condition], flat(x_data=2**63 + 5, y_data=2**63 + 5))
    assert not holds([condition], flat(x_data=5, y_data=2**63 + 5))


@settings(deadline=None)
@given(
    name=st.sampled_from(["a", "b", "c", "d", "e"]),
    value=st.integers(0, 2**64 - 1),
    low=st.integers(-300, 300),
    high=st.integers(-300, 2**40),
)
def test_integers_of_every_width(holds, name, value, low, high):
    dtype = np.dtype(_LAYOUT.parameters[_NUMBER[name]].dtype)
    number = int(np.uint64(value).astype(dtype))
    found = holds([Within(_NUMBER[name], low, high)], flat(**{name: number}))
    assert found == (low <= number <= high)


strides = st.integers(-5, 5).map(lambda n: 8 * n)


@settings(max_examples=500, deadline=None)
@given(
    x=st.tuples(st.integers(0, 400), *(st.integers(0, 5),) * 2, strides, strides),
    y=st.tuples(st.integers(0, 400), st.integers(0, 20)),
)
def test_what_two_arrays_have_in_common(holds, x, y):
    base = 1 << 20
    start, rows, columns, row_stride, column_stride = x
    values = flat()
    for name, value in (
        ("x.data", base + start),
        ("x.shape[0]", rows),
        ("x.shape[1]", columns),
        ("x.strides[0]", row_stride),
        ("x.strides[1]", column_stride),
        ("y.data", base + y[0]),
        ("y.shape[0]", y[1]),
    ):
        values[_NUMBER[name]] = value
    corners = [
        start + i * row_stride + j * column_stride for i in range(rows) for j in range(columns)
    ]
    first = range(min(corners), max(corners) + 8) if corners else range(0)
    second = range(y[0], y[0] + 4 * y[1])
    arrays = ArrayAt(_NUMBER["x.data"], 2, 8, True), ArrayAt(_NUMBER["y.data"], 1, 4, False)
    is_distinct = not (set(first) & set(second))
    assert holds([Distinct(*arrays)], values) == is_distinct
    assert holds([Distinct(*reversed(arrays))], values) == is_distinct


def test_every_condition_counts(holds):
    conditions = [Aligned(_NUMBER["y.data"], 8), Within(_NUMBER["e"], 1)]
    assert holds(conditions, flat(y_data=8, e=1))
    assert not holds(conditions, flat(y_data=8, e=0))
    assert not holds(conditions, flat(y_data=4, e=1))
