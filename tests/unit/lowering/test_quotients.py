"""Quotients and remainders of 64 bits for a GPU: the functions themselves, run on this machine."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import llvmlite.binding as llvm
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneldsl.lowering.quotients import division_definitions, simplify_divisions

_LEAST = -(2**63)
_EDGES = [0, 1, -1, 2, -2, 3, 7, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**62, 2**63 - 1, _LEAST]
_NUMBERS = st.one_of(
    st.sampled_from([*_EDGES, *(-edge for edge in _EDGES if edge != _LEAST)]),
    st.integers(-100, 100),
    st.integers(_LEAST, 2**63 - 1),
)
_BINARY = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
_engines = []


@cache
def function_of(symbol: str, *, is_simplified: bool) -> Callable[[int, int], int]:
    """Return a compiled function of a definition."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    (definition,) = division_definitions([symbol])
    if is_simplified:
        (definition,) = simplify_divisions([definition], {})
    module = llvm.parse_assembly(definition)
    (name,) = (f.name for f in module.functions if not f.is_declaration)
    module.get_function(name).linkage = "external"
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    _engines.append(engine)
    return _BINARY(engine.get_function_address(name))


def of_python(operation: str, a: int, b: int) -> int:
    """Return what Python has; by 0 nothing, and of the least integer by -1 what Numba has."""
    if b == 0 or (a, b) == (_LEAST, -1):
        return 0
    return a // b if operation == "div" else a % b


@pytest.mark.parametrize("is_simplified", [True, False])
@pytest.mark.parametrize("operation", ["div", "rem"])
@given(a=_NUMBERS, b=_NUMBERS)
def test_signed_results_are_pythons(operation: str, is_simplified: bool, a: int, b: int) -> None:
    function = function_of(f"kerneldsl.{operation}.s64", is_simplified=is_simplified)
    assert function(a, b) == of_python(operation, a, b)


@pytest.mark.parametrize("operation", ["div", "rem"])
@given(a=_NUMBERS, b=_NUMBERS)
def test_unsigned_results_are_pythons(operation: str, a: int, b: int) -> None:
    found = function_of(f"kerneldsl.{operation}.u64", is_simplified=True)(a, b)
    assert found % 2**64 == of_python(operation, a % 2**64, b % 2**64)


@pytest.mark.parametrize("is_simplified", [True, False])
@pytest.mark.parametrize("operation", ["div", "rem"])
@given(a=_NUMBERS, b=st.integers(1, 2**32 - 1))
def test_results_by_constants_are_pythons(
    operation: str, is_simplified: bool, a: int, b: int
) -> None:
    function = function_of(f"kerneldsl.{operation}_by.s64", is_simplified=is_simplified)
    assert function(a, b) == of_python(operation, a, b)


@pytest.mark.parametrize("symbol", ["kerneldsl.rem_by.s64", "kerneldsl.div.s64"])
def test_signed_divisions_are_simplified(symbol: str) -> None:
    definitions = division_definitions([symbol])
    assert simplify_divisions(definitions, {}) != definitions


def test_other_symbols_have_no_definition() -> None:
    assert division_definitions(["kerneldsl.shl.i64", "kerneldsl.div.s32", "main"]) == []
