"""Conditions on packed arguments: what native code finds, against a model."""

from __future__ import annotations

import ctypes
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir

from kerneldsl.contract import NO_PROMISES
from kerneldsl.contract.abi import LaunchMode, ParameterLayout
from kerneldsl.language.signatures import parse_signature
from kerneldsl.launch.arguments.binding import passed_arrays
from kerneldsl.launch.arguments.checked_promises import promises_of
from kerneldsl.launch.native import layout as interpreter_layout
from kerneldsl.launch.native.builder import I32, I64, POINTER, Function
from kerneldsl.launch.native.conditions import Aligned, Distinct, Few, Same, Within, pack_conditions
from kerneldsl.launch.native.emit import emit_conditions
from kerneldsl.launch.native.machine import _compile
from kerneldsl.launch.native.prepare import conditions_of
from tests.support.extent import examples

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

    def call(given, values, before=0, layout=_LAYOUT):
        packed = [c.words(before) for c in pack_conditions(given, layout)]
        words = [word for condition in packed for word in condition]
        block = (ctypes.c_int64 * max(len(words), 1))(*words)
        buffer = ctypes.create_string_buffer(b"\xa5" * before + layout.packer.pack(*values))
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


def test_a_remainder(holds):
    condition = Aligned(_NUMBER["x.data"], 16, rest=8)
    assert holds([condition], flat(x_data=24))
    for address in (0, 16, 20, 28):
        assert not holds([condition], flat(x_data=address))


@settings(max_examples=examples(100), deadline=None)
@given(extents=st.tuples(*(st.integers(0, 2**33) | st.integers(0, 2**17),) * 2))
def test_extents_and_their_product(holds, extents):
    values = flat()
    for axis, extent in enumerate(extents):
        values[_NUMBER[f"x.shape[{axis}]"]] = extent
    condition = Few(_NUMBER["x.shape[0]"], 2, 2**31 - 1)
    assert holds([condition], values) == (max(*extents, math.prod(extents)) < 2**31)
    assert holds([Few(len(_LAYOUT.parameters), 0, 1)], values)


def test_equality(holds):
    condition = Same(_NUMBER["x.data"], _NUMBER["y.data"])
    assert holds([condition], flat(x_data=2**63 + 5, y_data=2**63 + 5))
    assert not holds([condition], flat(x_data=5, y_data=2**63 + 5))


@settings(max_examples=examples(100), deadline=None)
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


@settings(max_examples=examples(500), deadline=None)
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
    is_distinct = not (set(first) & set(second))
    assert holds([Distinct(*_LAYOUT.arrays)], values) == is_distinct
    assert holds([Distinct(*reversed(_LAYOUT.arrays))], values) == is_distinct


def test_every_condition_counts(holds):
    conditions = [Aligned(_NUMBER["y.data"], 8), Within(_NUMBER["e"], 1)]
    assert holds(conditions, flat(y_data=8, e=1))
    assert not holds(conditions, flat(y_data=8, e=0))
    assert not holds(conditions, flat(y_data=4, e=1))


# --------------------------------------------------------------------------- promises

_KINDS = parse_signature("float32[::1], float32[:,:], (int32, float32[::1]), int64, float64[:,::1]")
_OF_KINDS = ParameterLayout(tuple("abcde"), _KINDS, LaunchMode(1))
_WRITTEN = frozenset({1, 2})

pointers = st.integers(0, 40).map(lambda n: (1 << 45) + 4 * n)
lengths = st.integers(0, 8) | st.sampled_from([100, 2**31 - 1, 2**31])
numbers = st.integers(-5, 5) | st.sampled_from([2**31 - 1, 2**31, 2**40])
steps = st.sampled_from([4, 8, 16, 32, 64, -4, 0])


@st.composite
def launches(draw, extent):
    """Flat values of a launch."""
    at, n, m = draw(pointers), draw(lengths), draw(lengths)
    again = draw(st.booleans())
    values = [at, n, draw(pointers), *draw(st.tuples(lengths, lengths, steps, steps))]
    values += [draw(st.integers(-5, 200)), at if again else draw(pointers), n if again else m]
    values += [
        draw(numbers),
        draw(pointers) * 2,
        *draw(st.tuples(lengths, lengths)),
    ]
    return [*values, extent]


def passed(values):
    return passed_arrays(_OF_KINDS.arrays, values)


def promises(values):
    integers = [values[number] for number in _OF_KINDS.integers]
    return promises_of(passed(values), (values[-1],), (), integers, written=_WRITTEN)


@settings(max_examples=examples(1000), deadline=None)
@given(
    data=st.data(),
    extent=st.sampled_from([1, 7, 100]),
    weaken=st.sampled_from(["not", "alignment", "arrays", "disjoint", "all"]),
)
def test_conditions_hold_where_promises_do(holds, data, extent, weaken):
    """For the arguments that code was chosen for; and for others only if they keep the promises."""
    first, second = (data.draw(launches(extent)) for _ in range(2))
    found = compiled = promises(first)
    if weaken == "alignment":
        compiled = replace(found, arrays=tuple(replace(each, alignment=1) for each in found.arrays))
    elif weaken == "arrays":
        compiled = replace(found, arrays=(), is_disjoint=False)
    elif weaken == "disjoint":
        compiled = replace(found, is_disjoint=False)
    elif weaken == "all":
        compiled = NO_PROMISES
    conditions = conditions_of(
        compiled, found, _OF_KINDS.arrays, _OF_KINDS.integers, (extent,), _WRITTEN
    )
    assert holds(conditions, first, layout=_OF_KINDS)
    if holds(conditions, second, layout=_OF_KINDS):
        assert are_kept(compiled, second)


def are_kept(promised, values):
    """Whether promises hold, as they are defined; what has no elements cannot break any."""
    arrays = passed(values)
    for array, each in zip(arrays, promised.arrays, strict=False):
        if math.prod(array.shape) == 0:
            continue
        rows = {"C": array.kind.ndim - 1, "F": 0, "A": each.unit_axis}[array.kind.layout]
        steps = [stride for axis, stride in enumerate(array.strides) if axis != rows]
        if any(number % each.alignment for number in (array.location, *steps)):
            return False
        if each.unit_axis is not None and array.strides[each.unit_axis] != array.itemsize:
            return False
        if each.same_as is not None and not arrays[each.same_as].is_same(array):
            return False
        if each.is_extent and array.shape[:1] != (values[-1],):
            return False
    found = promises(values)
    return (
        found.is_narrow >= promised.is_narrow
        and found.is_disjoint >= promised.is_disjoint
        and found.has_narrow_integers >= promised.has_narrow_integers
    )
