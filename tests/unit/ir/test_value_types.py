"""Numba's types in the language's words."""

from __future__ import annotations

import math
from typing import Any

import numba
import pytest
from numba import types

from kerneldsl.ir.frontend.written import value_type
from kerneldsl.language.element_types import DTYPE_NAMES
from kerneldsl.language.kinds import ArrayKind, ScalarKind
from kerneldsl.language.types import (
    BOOL,
    NONE,
    STRING,
    DtypeType,
    FunctionType,
    OtherType,
    RangeType,
    SliceType,
    TupleType,
    Type,
)
from kerneldsl.lowering.numba_internals.compiling import global_compiler_lock
from kerneldsl.lowering.numba_internals.host_code import host_contexts
from kerneldsl.lowering.types import element_type, numba_type

I64 = ScalarKind("int64")


def context() -> Any:
    with global_compiler_lock:
        return host_contexts().typing_context


@numba.njit
def compiled(x):
    return x


@pytest.mark.parametrize("name", DTYPE_NAMES)
def test_elements(name: str) -> None:
    assert value_type(element_type(name)) == ScalarKind(name)
    for kind in (ArrayKind(name, 0), ArrayKind(name, 1, "A"), ArrayKind(name, 2, "F")):
        assert value_type(numba_type(kind)) == kind


@pytest.mark.parametrize(
    ("found", "expected", "text"),
    [
        (types.literal(3), I64, "int64"),
        (types.literal(True), BOOL, "bool"),
        (types.literal("a"), STRING, "str"),
        (types.none, NONE, "none"),
        (types.slice2_type, SliceType(), "slice<a:b>"),
        (types.slice3_type, SliceType(has_step=True), "slice<a:b:c>"),
        (types.range_state64_type, RangeType("int64"), "range(int64)"),
        (types.UniTuple(types.int64, 2), TupleType((I64, I64)), "(int64, int64)"),
        (types.Tuple([types.literal(1)]), TupleType((I64,)), "(int64,)"),
        (types.Tuple([]), TupleType(()), "()"),
        (types.NumberClass(types.float32), DtypeType("float32"), "dtype(float32)"),
        (types.DType(types.float32), DtypeType("float32"), "dtype(float32)"),
        (
            context().resolve_value_type(math.sin),
            FunctionType("sin"),
            "function(sin)",
        ),
        (numba.typeof(compiled), FunctionType("compiled"), "function(compiled)"),
        (
            types.Array(types.float32, 1, "C", readonly=True),
            ArrayKind("float32", 1, "C"),
            "float32[::1]",
        ),
    ],
    # Numba's own words may have an address in them, another one in each process.
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_other_types(found: types.Type, expected: Type, text: str) -> None:
    assert value_type(found) == expected
    assert str(value_type(found)) == text


@pytest.mark.parametrize(
    "found",
    [types.Integer("int128"), types.Optional(types.int64), types.NPDatetime("s")],
    ids=str,
)
def test_what_the_language_has_no_word_for(found: types.Type) -> None:
    assert value_type(found) == OtherType(str(found))
