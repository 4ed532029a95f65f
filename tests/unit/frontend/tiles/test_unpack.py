"""Tuples of tiles are taken apart, and mean what Python means by them."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.frontend.tiles.flatten import flatten_tiles
from tests.support.extent import examples
from tests.support.source import exec_source

_NAMES = "abcd"
_VALUES = st.sampled_from([*_NAMES, "a + d", "b * 2", "c - a"])


def _tuples(leaf: st.SearchStrategy[str], shape: Any) -> st.SearchStrategy[str]:
    if shape is None:
        return leaf
    return st.tuples(*(_tuples(leaf, each) for each in shape)).map(lambda p: f"({', '.join(p)})")


_SHAPES = st.sampled_from(
    [(None, None), (None, None, None), ((None, None), None), (None, (None, (None, None)))]
)
_ASSIGNMENTS = st.one_of(
    _SHAPES.flatmap(
        lambda shape: st.tuples(_tuples(st.sampled_from(_NAMES), shape), _tuples(_VALUES, shape))
    ).map(" = ".join),
    _SHAPES.flatmap(
        lambda shape: st.tuples(
            *(_tuples(st.sampled_from(_NAMES), shape),) * 2, _tuples(_VALUES, shape)
        )
    ).map(" = ".join),
    st.tuples(st.sampled_from(_NAMES), st.sampled_from(_NAMES), _VALUES).map(" = ".join),
    st.tuples(_VALUES, _VALUES, st.sampled_from(_NAMES), st.sampled_from(_NAMES)).map(
        lambda p: f"pair = {p[0]}, {p[1]}; {p[2]}, {p[3]} = pair"
    ),
    st.tuples(_VALUES, _VALUES, st.sampled_from(_NAMES), st.sampled_from(_NAMES)).map(
        lambda p: f"other = again = {p[0]}, {p[1]}; {p[3]}, {p[2]} = again; {p[2]}, {p[3]} = other"
    ),
)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(_ASSIGNMENTS, min_size=1, max_size=6))
def test_any_assignments(assignments: list[str]) -> None:
    """The flat function computes what Python does; no tuple is left in it."""
    loads = [f"{name} = kd.tile.load(x, {at}, 4)" for at, name in enumerate(_NAMES)]
    stores = [f"kd.tile.store(out, {at}, {name})" for at, name in enumerate(_NAMES)]
    body = "\n    ".join([*loads, *assignments, *stores])
    text = f"import kerneldsl as kd\n\ndef function(x, out):\n    {body}\n"
    unit = flatten_tiles(make_unit(exec_source(text, "assignments")["function"]))
    assert not any(isinstance(node, ast.Tuple) for node in ast.walk(unit.tree))
    x, expected, out = [2, 3, 5, 7], [0] * 4, [0] * 4
    known: dict[str, Any] = dict(zip(_NAMES, x, strict=True))
    exec("\n".join(assignments), {}, known)
    expected = [known[name] for name in _NAMES]
    words = {
        name: (lambda x, at, *_: x[at])
        if use.intrinsic.name == "tile.load"
        else (lambda out, at, value: out.__setitem__(at, value))
        for name, use in unit.uses.items()
    }
    exec(ast.unparse(unit.tree), words)
    words["function"](x, out)
    assert out == expected


def _taken_by_number(x):
    pair = kd.tile.load(x, 0, 4), kd.tile.load(x, 4, 4)
    kd.tile.store(x, 0, pair[1])


def _of_another_length(x):
    a, b = kd.tile.load(x, 0, 4), kd.tile.load(x, 4, 4), 3
    kd.tile.store(x, 0, a + b)


@pytest.mark.parametrize("function", [_taken_by_number, _of_another_length])
def test_refused(function: Any) -> None:
    with kd.use("cpu"), pytest.raises(UnsupportedConstructError, match=r"is a tile|no tile"):
        kd.kernel(function)[1, 32](np.zeros(8))
