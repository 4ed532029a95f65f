"""Stores of tiles in loops: which iterations surely write to the same places, or to others."""

from __future__ import annotations

import itertools
import linecache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from targets.cuda.compile.tiles.order import Turns
from tests.ptx.helpers import specialize
from tests.support.extent import examples
from tests.support.regions.reading import before_passes

_BODY = """
    for i in range({loop}):
        {before}
        for k in range(n):
            kd.tile.store({array}, {at}, kd.tile.zeros({width}, kd.float32))
"""
_numbers = itertools.count()


def _overlap(y: str = "float32[:, ::1]", **parts: object) -> bool:
    given = {"loop": "3", "before": "pass", "width": 8, **parts}
    text = "def kernel(y, s, n):" + _BODY.format(**given)
    filename = f"<turns {next(_numbers)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"kd": kd}
    exec(compile(text, filename, "exec"), namespace)
    signature = f"{y}, float32[::1], int64"
    specialization = specialize(namespace["kernel"], signature, block=(32, 1, 1))
    function = before_passes(specialization)
    (store,) = (each for each in function.body.walk() if each.name == "tile.store")
    return Turns(function, specialization.kinds).overlap(store)


@pytest.mark.parametrize(
    ("array", "at"),
    [
        ("y[i]", "0"),
        ("y[i * 3 + k]", "5"),
        ("y[k, :]", "s.size"),
        ("y[0]", "n + kd.blockIdx.x"),
        ("y[0]", "i * 8 + 3"),
        ("y[0]", "k * 16 - i * 24"),
        ("s", "8 * (k * n + i)"),
        ("y[:, i]", "s.shape[0]"),
        ("y[0]", "kd.uint32(n)"),
    ],
)
def test_iterations_write_to_the_same_places_or_to_others(array: str, at: str) -> None:
    assert not _overlap(array=array, at=at)


@pytest.mark.parametrize(
    ("array", "at"),
    [
        ("y[0]", "i"),
        ("y[0]", "i * 12"),
        ("s", "k * n"),
        ("y[0, i:]", "0"),
        ("s[k:]", "0"),
        ("y[i]", "k"),
        ("y[0]", "kd.int8(i * 8)"),
        ("y[0]", "min(i * 8, 5)"),
    ],
)
def test_iterations_may_write_a_part_again(array: str, at: str) -> None:
    assert _overlap(array=array, at=at)


def test_ranges_and_variables_are_followed() -> None:
    assert not _overlap(array="y[0]", at="i", loop="0, n, 16")
    assert _overlap(array="y[0]", at="i", loop="0, n, 12")
    assert not _overlap(array="row", at="first", before="row = y[i]; first = i * 8")
    assert _overlap(array="row", at="first", before="row = y[i]; first = i * 4")
    assert _overlap(array="row", at="0", before="row = y[i] if n else s")
    assert _overlap(array="s", at="n", before="n = n + 1")


def test_rows_of_an_array_with_any_strides_may_share_memory() -> None:
    assert _overlap("float32[:, :]", array="y[i]", at="0")


_ATOMS = ("i", "k", "n", "1", "2", "3", "4", "6", "8")
_expressions = st.recursive(
    st.sampled_from(_ATOMS),
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner),
    max_leaves=6,
)


@settings(max_examples=examples(300), deadline=None)
@given(
    at=_expressions,
    width=st.sampled_from((1, 2, 3, 4, 6, 8)),
    start=st.integers(0, 3),
    step=st.integers(1, 8),
)
def test_what_is_proved_is_so(at: str, width: int, start: int, step: int) -> None:
    loop = f"{start}, 20, {step}"
    if _overlap(array="s", at=at, width=width, loop=loop):
        return
    namespace: dict[str, Any] = {}
    exec(f"def place(i, k, n): return {at}", namespace)
    for n in (1, 3, 5):
        starts = {namespace["place"](i, k, n) for i in range(start, 20, step) for k in range(n)}
        for one, two in itertools.combinations(starts, 2):
            assert abs(one - two) >= width, (at, width, loop, n)
