"""Expressions of tiles mean what Python means by them, also in tuples and device functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.ir.operations import Function, Region
from tests.support.extent import examples
from tests.support.read_kernels import read_kernel_for
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
    st.tuples(_VALUES, _VALUES, st.sampled_from(_NAMES)).map(
        lambda p: f"pair = {p[0]}, {p[1]}; {p[2]} = pair[1]"
    ),
    st.tuples(_VALUES, _VALUES, st.sampled_from(_NAMES), st.sampled_from(_NAMES)).map(
        lambda p: f"other = again = {p[0]}, {p[1]}; {p[3]}, {p[2]} = again; {p[2]}, {p[3]} = other"
    ),
)


def _stored(function: Function, x: list[int]) -> list[int]:
    """Return what a kernel stores of the first element of each tile, at the index of its store."""
    known: dict[Any, Any] = {}
    out = [0] * len(x)

    def run(region: Region) -> list[Any]:
        for operation in region.operations:
            given = [known.get(each) for each in operation.operands]
            attributes = operation.attributes
            first = attributes.get("first", 0)
            for body in operation.regions:
                known.update(zip(body.arguments, given[first:], strict=True))
            match operation.name:
                case "const":
                    found = attributes["value"]
                case "cast":
                    (found,) = given
                case "tile.load":
                    found = x[given[2]]
                case "tile.map":
                    (found,) = run(operation.regions[0])
                case "tile.store":
                    (out[given[1]],) = run(operation.regions[0])
                    continue
                case "numba":
                    found = attributes["function"](*given)
                case "yield":
                    return given
            known[operation.result] = found
        raise AssertionError("a region has no end")

    run(function.body)
    return out


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(_ASSIGNMENTS, min_size=1, max_size=6))
def test_any_assignments(assignments: list[str]) -> None:
    loads = [f"{name} = kd.tile.load(x, {at}, 4)" for at, name in enumerate(_NAMES)]
    stores = [f"kd.tile.store(out, {at}, {name})" for at, name in enumerate(_NAMES)]
    body = "\n    ".join([*loads, *assignments, *stores])
    text = f"import kerneldsl as kd\n\ndef function(x, out):\n    {body}\n"
    function = exec_source(text, "assignments")["function"]
    read, _ = read_kernel_for(function, "int64[::1], int64[::1]")
    x = [2, 3, 5, 7]
    known: dict[str, Any] = dict(zip(_NAMES, x, strict=True))
    exec("\n".join(assignments), {}, known)
    assert _stored(read, x) == [known[name] for name in _NAMES]


@kd.func
def _both(x, at):
    t = kd.tile.load(x, at, 4)
    return t, t.sum()


@kd.func
def _limited(t, most):
    if most > 3:
        return t
    return t * most


@kd.kernel
def _of_functions(x, out):
    t, total = _both(x, 0)
    u, other = _both(x, 4)
    kd.tile.store(out, 0, _limited(t, 2) * other + _limited(u, 5) * total)


def test_functions_load_and_return_tiles() -> None:
    x, out = np.arange(8.0), np.zeros(4)
    with kd.use("cpu"):
        _of_functions[1, 32](x, out)
    assert out.tolist() == (x[:4] * 2 * x[4:].sum() + x[4:] * x[:4].sum()).tolist()


@kd.func
def _first_stored(x, t):
    kd.tile.store(x, 0, t * 10)
    return t.sum()


@kd.kernel
def _in_order(x, out):
    t = kd.tile.load(x, 0, 4)
    kd.tile.store(out, 0, t * x[1] + _first_stored(x, t) * kd.tile.load(x, 0, 4) + x[1])


def test_parts_are_computed_from_the_left() -> None:
    """A function that stores is called after what is on its left, and before what is on its right.

    Each thread reads an element for itself, so the block has one thread.
    """
    x, out = np.arange(1.0, 5.0), np.zeros(4)
    t = x.copy()
    with kd.use("cpu"):
        _in_order[1, 1](x, out)
    assert out.tolist() == (t * t[1] + t.sum() * t * 10 + t[1] * 10).tolist()


def test_an_expression_is_one_operation() -> None:
    def kernel(x, a):
        t = kd.tile.load(x, 0, 4)
        u = (t * a + x[0]).astype(kd.float32) if a > 2 else -t
        kd.tile.store(x, 0, u.T + 1)

    read, _ = read_kernel_for(kernel, "float64[::1], float64")
    names = [each.name for each in read.body.walk() if each.name.startswith("tile.")]
    assert names == ["tile.load", "tile.map", "tile.store"]
