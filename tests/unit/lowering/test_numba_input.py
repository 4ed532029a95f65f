"""What CPython's compiler and Numba's reader of bytecode would make of a function's text."""

from __future__ import annotations

import ast
import dis
from collections.abc import Callable

import numba
import numpy as np
import pytest

from kerneldsl.lowering.build import build_function
from kerneldsl.lowering.numba_input import rename_locals
from tests.support.extent import sample


def _built(text: str):
    (tree,) = ast.parse(text).body
    assert isinstance(tree, ast.FunctionDef)
    return numba.njit(build_function(tree, tree.name, {"np": np}, "<test>"))


@pytest.mark.parametrize(
    ("value", "function"),
    [
        ("-(a if c else b)", lambda v: -v),
        ("np.float64(~(a if c else b))", lambda v: float(~v)),
        ("1 - (a if c else b)", lambda v: 1 - v),
        ("abs(a if c else b)", abs),
    ],
)
def test_branches_have_their_common_type_before_anything_is_done_with_them(
    value: str, function: Callable[[int], float]
) -> None:
    a, b = np.uint32(7), np.int8(-3)
    compiled = _built(f"def f(c, a, b):\n    return {value}")
    assert compiled(True, a, b) == function(7)
    assert compiled(False, a, b) == function(-3)


def test_branches_of_statements_likewise() -> None:
    f = _built("def f(c, a, b):\n    if c:\n        v = a\n    else:\n        v = b\n    return ~v")
    assert f(True, np.uint32(0), np.int8(3)) == -1


def test_variables_that_differ_by_digits_are_two() -> None:
    """``s1`` loaded at offset 32 is not ``s`` loaded at 132: at one length both would be met."""
    for length in sample(range(40), 10):
        lines = ["def f(s, s2, s1):", "    for k in range(3):", "        s1 += s[(s2 + k) % 24]"]
        lines += ["        a = k"] * length + ["    r = s[0]", "    return r + s1"]
        assert _built("\n".join(lines))(np.arange(24) + 5, 2, 3) == 5 + 3 + 7 + 8 + 9


def test_no_local_variable_ends_in_a_digit() -> None:
    (tree,) = ast.parse(
        "def f(x1, x1_):\n    for k2 in range(x1):\n        y9 = k2 + x1_ + z3"
    ).body
    assert isinstance(tree, ast.FunctionDef)
    rename_locals(tree)
    text = ast.unparse(tree)
    assert text == "def f(x1__, x1_):\n    for k2_ in range(x1__):\n        y9_ = k2_ + x1_ + z3"


_BRANCHED = """
def f(value):
    if value > 3:
        value += 1
    else:
        value -= 1
"""


@pytest.mark.parametrize(
    "text",
    [
        "def f(value):\n    return int(value + barrier(0 < value < 9))",
        "def f(value):\n    return barrier(value > 0 and value < 9)",
        _BRANCHED + "    barrier()",
        _BRANCHED + "    barrier()\n    return",
        _BRANCHED + "    barrier()\n    return 1",
        _BRANCHED + "    barrier()\n    return value",
        _BRANCHED + "    if value:\n        barrier()\n        return\n    barrier()",
        "def f(value):\n    for k in range(9):\n        if k:\n            break\n    barrier()",
    ],
)
def test_a_call_at_the_end_is_not_copied_into_branches(text: str) -> None:
    """Threads of one warp in two copies of a barrier would wait for each other for ever."""
    (tree,) = ast.parse(text.strip()).body
    assert isinstance(tree, ast.FunctionDef)
    built = build_function(tree, tree.name, {"barrier": lambda *args: 0}, "<test>")
    calls = [i for i in dis.get_instructions(built) if i.opname == "CALL"]
    assert len(calls) == sum(isinstance(node, ast.Call) for node in ast.walk(tree))
    numba_version = numba.njit(built.__class__(built.__code__, {"barrier": _no_barrier}))
    assert numba_version(5) == built(5)


@numba.njit
def _no_barrier(*args):
    return 0
