"""The rules of numeric promotion are those of every target's typing, for all types."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from numba.core.errors import NumbaError

from kerneldsl.language.element_types import DTYPE_NAMES, ELEMENT_TYPES, numpy_dtype
from kerneldsl.lowering import math_functions as _registers  # noqa: F401
from kerneldsl.lowering.numba_internals.compiling import global_compiler_lock, target_override
from kerneldsl.lowering.numba_internals.host_code import host_contexts
from kerneldsl.lowering.types import element_type
from targets.cuda.compile.numba_device import TARGET_NAME, descriptor
from tests.support import promotion
from tests.support.extent import sample

TARGETS = ("cpu", "cuda")
OPERATORS: dict[str, tuple[Any, Any]] = {
    "+": (operator.add, operator.iadd),
    "-": (operator.sub, operator.isub),
    "*": (operator.mul, operator.imul),
    "/": (operator.truediv, operator.itruediv),
    "//": (operator.floordiv, operator.ifloordiv),
    "%": (operator.mod, operator.imod),
    "**": (operator.pow, operator.ipow),
    "<<": (operator.lshift, operator.ilshift),
    ">>": (operator.rshift, operator.irshift),
    "&": (operator.and_, operator.iand),
    "|": (operator.or_, operator.ior),
    "^": (operator.xor, operator.ixor),
}
UNARY = {"-": operator.neg, "+": operator.pos, "~": operator.invert, "not": operator.not_}
BUILTINS: dict[str, Any] = {f.__name__: f for f in (abs, bool, float, int, round, max, min)}
#: A narrow and a wide type of each kind.
_EACH_SORT = ("bool", "int8", "int64", "uint16", "uint64", "bfloat16", "float32", "complex64")


@pytest.fixture(params=TARGETS)
def numbas(request: pytest.FixtureRequest) -> Any:
    """Ask one target's typing context what a function gives."""
    for name in ("bfloat16", "int8x4"):  # registers narrow floats and vectors
        element_type(name)
    name = TARGET_NAME if request.param == "cuda" else "cpu"
    with global_compiler_lock, target_override(name):
        contexts = descriptor() if request.param == "cuda" else host_contexts()
        context = contexts.typing_context
        context.refresh()

        def ask(function: Callable[..., Any], types: Sequence[str]) -> str | None:
            given = tuple(element_type(name) for name in types)
            try:
                known = context.resolve_value_type(function)
                signature = context.resolve_function_type(known, given, {})
            except (NumbaError, TypeError, NotImplementedError):  # NumPy has no code of bfloat16
                return None
            return None if signature is None else str(signature.return_type)

        ask.context = context  # type: ignore[attr-defined]
        yield ask


def test_operators(numbas: Any) -> None:
    """Also those in place. What has no rule is what Numba refuses."""
    assert OPERATORS.keys() == promotion._OPERATORS.keys()
    for op, left, right in sample([*product(OPERATORS, DTYPE_NAMES, DTYPE_NAMES)], 1000):
        said = promotion.result_of_operator(op, left, right)
        for function in OPERATORS[op]:
            found = numbas(function, [left, right])
            assert said == found, (op, left, right)


def test_operators_of_vectors(numbas: Any) -> None:
    vectors = ("int8x4", "int8x2", "uint64x2", "float32x4", "float64x2")
    pairs = [*product(vectors, (*vectors, *DTYPE_NAMES)), *product(DTYPE_NAMES, vectors)]
    for op, (left, right) in sample([*product(OPERATORS, pairs)], 600):
        said = promotion.result_of_operator(op, left, right)
        if any(ELEMENT_TYPES[name].is_narrow for name in (left, right)):
            assert said is None  # what Numba makes of it follows no rule
        else:
            assert said == numbas(OPERATORS[op][0], [left, right]), (op, left, right)
    for op, name in product(UNARY, vectors):
        if op != "not":
            assert promotion.result_of_unary(op, name) == numbas(UNARY[op], [name]), (op, name)


def test_unary_operators(numbas: Any) -> None:
    for op, name in product(UNARY, DTYPE_NAMES):
        assert promotion.result_of_unary(op, name) == numbas(UNARY[op], [name]), (op, name)


def _function(name: str) -> Any:
    library, _, last = name.rpartition(".")
    return getattr({"math": math, "numpy": np}[library], last) if library else BUILTINS[name]


@pytest.mark.parametrize("name", sorted(promotion._FUNCTIONS))
def test_functions(name: str, numbas: Any) -> None:
    count, _ = promotion._FUNCTIONS[name]
    function, known = _function(name), 0
    for types in sample(list(product(DTYPE_NAMES, repeat=abs(count))), 20):
        said = promotion.result_of_function(name, types)
        if said is not None:
            known += 1
            assert said == numbas(function, types), types
    reals = [n for n in DTYPE_NAMES if ELEMENT_TYPES[n].is_float]
    for each in reals:
        assert promotion.result_of_function(name, [each] * abs(count)) is not None, each
    assert known


@pytest.mark.parametrize("name", DTYPE_NAMES)
def test_conversions(name: str, numbas: Any) -> None:
    function = numpy_dtype(name).type
    for each in DTYPE_NAMES:
        said = promotion.result_of_function(f"numpy.{name}", [each])
        assert said == name
        assert numbas(function, [each]) in (said, None), each


@pytest.mark.parametrize("count", [1, 2, 3])
def test_ranges(count: int, numbas: Any) -> None:
    integers = [n for n in DTYPE_NAMES if ELEMENT_TYPES[n].is_integer]
    for types in product(integers, repeat=count):
        said = promotion.result_of_range(types)
        assert said is None or f"range_state_{said}" == numbas(range, types), types
        is_mixed = len({ELEMENT_TYPES[n].is_signed for n in types}) > 1
        assert (said is None) == is_mixed, types


def test_variables_of_two_types(numbas: Any) -> None:
    """There is no answer where Numba has none, and for a narrow float with an integer."""
    for one, two in product(DTYPE_NAMES, repeat=2):
        said = promotion.unified([one, two])
        if said is None:
            rows = [ELEMENT_TYPES[one], ELEMENT_TYPES[two]]
            assert any(row.is_narrow for row in rows), (one, two)
            assert any(row.is_integer or row.name == "bool" for row in rows), (one, two)
        else:
            found = numbas.context.unify_types(element_type(one), element_type(two))
            assert said == str(found), (one, two)


def test_three_types(numbas: Any) -> None:
    """Of variables and of ``min``: what is said holds for every order of them."""
    for types in sample(list(product(_EACH_SORT, repeat=3)), 45):
        said = promotion.unified(types)
        if said is not None:
            assert said == str(numbas.context.unify_types(*map(element_type, types))), types
        said = promotion.result_of_function("min", types)
        assert said is None or said == numbas(min, types), types
