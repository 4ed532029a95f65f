"""Assignments of several values are split, and mean what Python means by them."""

from __future__ import annotations

import ast
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.frontend.tiles.split_assignments import split_assignments
from tests.support.extent import examples
from tests.support.source import exec_source

_NAMES = "ij"
_TARGETS = st.sampled_from([*_NAMES, "x[i]", "x[j]", "x[x[i]]"])
_VALUES = st.sampled_from([*_NAMES, "(i + j) % 4", "3 - j", "x[i]", "x[3 - x[j]]", "0", "pair[0]"])


def _tuples(leaf: st.SearchStrategy[str], shape: Any) -> st.SearchStrategy[str]:
    if shape is None:
        return leaf
    return st.tuples(*(_tuples(leaf, each) for each in shape)).map(lambda p: f"({', '.join(p)},)")


_SHAPES = st.sampled_from(
    [(None,), (None,) * 2, (None,) * 3, ((None, None), None), (None, (None, (None, None)))]
)
_ASSIGNMENTS = st.one_of(
    _SHAPES.flatmap(lambda shape: st.tuples(_tuples(_TARGETS, shape), _tuples(_VALUES, shape))).map(
        " = ".join
    ),
    st.tuples(_TARGETS, _TARGETS, _VALUES).map(lambda p: f"{p[0]}, {p[1]} = pair = {p[2]}, j"),
    st.tuples(_TARGETS, _TARGETS).map(lambda p: f"{p[0]}, {p[1]} = pair"),
)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(_ASSIGNMENTS, min_size=1, max_size=6))
def test_any_assignments(assignments: list[str]) -> None:
    body = "\n    ".join(["i, j = 1, 2", "pair = 0, 1", *assignments, "x[4], x[5] = i, j"])
    text = f"def function(x):\n    {body}\n"
    function = exec_source(text, "assignments")["function"]
    unit = make_unit(function)
    tree = split_assignments(unit).tree
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            assert len(node.targets) > 1 or not isinstance(node.value, ast.Tuple)
    namespace: dict[str, Any] = {}
    exec(ast.unparse(tree), namespace)
    expected, found = [3, 0, 2, 1, 0, 0], [3, 0, 2, 1, 0, 0]
    function(expected)
    namespace["function"](found)
    assert found == expected


def test_variables_between_are_few() -> None:
    def kernel(x, y):
        a, b = x[0], y[0]
        a, b = b, a
        c, d = a, b
        x[0], y[0] = c, d

    unit = make_unit(kernel)
    lines = ast.unparse(split_assignments(unit).tree).split("\n    ")[1:]
    assert lines == [
        *("a = x[0]", "b = y[0]"),
        *("kd__value = b", "b = a", "a = kd__value"),
        *("c = a", "d = b"),
        *("kd__value_2 = c", "kd__value_3 = d", "x[0] = kd__value_2", "y[0] = kd__value_3"),
    ]
    statements = split_assignments(unit).tree.body
    first = statements[0].lineno
    assert [each.lineno - first for each in statements] == [0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 3]


@kd.func
def sorted_pair(a, b):
    low, high = min(a, b), max(a, b)
    return low, high


@kd.func
def lower(a, b):
    return sorted_pair(a, b)[0]


def test_functions_that_are_called() -> None:
    def kernel(x):
        x[0] = lower(x[1], x[2])

    def nothing(x):
        x[0] = abs(x[1])

    split = split_assignments(make_unit(kernel))
    (called,) = (each for each in split.reachable() if each.name == "sorted_pair")
    assert ast.unparse(called.tree.body[0]) == "low = min(a, b)"
    assert split_assignments(split) is split
    unit = make_unit(nothing)
    assert split_assignments(unit) is unit
