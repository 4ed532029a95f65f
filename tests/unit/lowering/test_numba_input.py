"""What CPython's compiler and Numba's reader of bytecode would make of a function's text."""

from __future__ import annotations

import ast
from collections.abc import Callable

import numba
import numpy as np
import pytest

from kerneldsl.lowering.build import build_function
from kerneldsl.lowering.numba_input import name_locals_apart


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
    for length in range(40):
        lines = ["def f(s, s2, s1):", "    for k in range(3):", "        s1 += s[(s2 + k) % 24]"]
        lines += ["        a = k"] * length + ["    r = s[0]", "    return r + s1"]
        assert _built("\n".join(lines))(np.arange(24) + 5, 2, 3) == 5 + 3 + 7 + 8 + 9


def test_no_local_variable_ends_in_a_digit() -> None:
    (tree,) = ast.parse(
        "def f(x1, x1_):\n    for k2 in range(x1):\n        y9 = k2 + x1_ + z3"
    ).body
    assert isinstance(tree, ast.FunctionDef)
    name_locals_apart(tree)
    text = ast.unparse(tree)
    assert text == "def f(x1__, x1_):\n    for k2_ in range(x1__):\n        y9_ = k2_ + x1_ + z3"
