"""What the oracle says of tiles: edges, types of elements, sums, and what it does not accept."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fuzz import oracle
from tests.support.conversions import UndefinedConversionError
from tests.support.tile_words import VaryingArgumentError

_FUNCTIONS = """
def twice(v, k):
    return v * k if v > 2 else -v

def placed(v, i, k):
    return v * 10 + i + k

def above(t, k):
    v = t - t.min()
    return v if k > 1 else t

def spread(t):
    low = t.min()
    return t.max() - low
"""


def _run(body: str, out: np.ndarray, threads: int = 4, x: np.ndarray | None = None) -> list[float]:
    """What a block of threads leaves in `out`; `x` holds 0, 1, … 5 unless another is given."""
    lines = "\n    ".join(body.strip().splitlines())
    text = f"{_FUNCTIONS}\ndef kernel(out, x):\n    t = kd.threadIdx.x\n    {lines}\n"
    oracle.run(text, (1,), (threads,), (out, np.arange(6) if x is None else x))
    return out.tolist()  # type: ignore[no-any-return]


def test_edges_are_filled_and_not_written() -> None:
    out = np.full(5, 99)
    assert _run("kd.tile.store(out, -1, kd.tile.load(x, 3, 5, other=-7))", out) == [
        *(4, 5, -7, -7),
        99,
    ]
    assert _run("kd.tile.store(out, 4, kd.tile.load(x, -2, 4))", np.full(5, 9)) == [9, 9, 9, 9, 0]


def test_elements_have_the_types_of_numbers() -> None:
    """The sum of two int8 is an int64, a quotient a float64, an int8 of 200 is -56."""
    x = np.array([100, -100], np.int8)
    assert _run(
        "v = kd.tile.load(x, 0, 2)\nkd.tile.store(out, 0, v + v)", np.zeros(2, int), x=x
    ) == [
        200,
        -200,
    ]
    body = "v = kd.tile.load(x, 0, 2) / 8\nkd.tile.store(out, 0, v)"
    assert _run(body, np.zeros(2), x=x) == [12.5, -12.5]
    body = "v = kd.tile.full(2, 200).astype(kd.int8)\nkd.tile.store(out, 0, v)"
    assert _run(body, np.zeros(2)) == [-56, -56]
    with pytest.raises(UndefinedConversionError):
        _run("kd.tile.store(out, 0, kd.tile.full(2, 1e9).astype(kd.int8))", np.zeros(2))


def test_functions_of_elements() -> None:
    body = "v = kd.tile.load(x, 0, 6).map(twice, kd.tile.arange(6))\nkd.tile.store(out, 0, v)"
    assert _run(body, np.zeros(6, int)) == [0, -1, -2, 9, 16, 25]
    body = "kd.tile.store(out, 1, kd.tile.load(x, 0, 4), placed, 100)"
    assert _run(body, np.zeros(4, int)) == [0, 100, 111, 122]
    assert _run("kd.tile.store(out, 0, kd.popc(kd.tile.arange(4)))", np.zeros(4)) == [0, 1, 1, 2]


def test_functions_of_tiles() -> None:
    body = "v = above(kd.tile.arange(4) + 3, 2)\nkd.tile.store(out, 0, v)\nout[4] = spread(v)"
    assert _run(body, np.zeros(5)) == [0, 1, 2, 3, 3]


def test_numbers_and_axes() -> None:
    body = """
v = kd.tile.arange((2, 3)) + 1
kd.tile.store(out, 0, kd.tile.full(1, v.sum()))
out[1] = v.mean()
out[2] = v.max(axis=0).sum()
out[3] = v.min(axis=1).sum()
out[4] = (5 if (v > 3).any() else 3) + (50 if (v > 3).all() else 30)
"""
    assert _run(body, np.zeros(5)) == [12, 2, 6, 2, 33]


def test_a_sum_has_the_documented_order() -> None:
    """Four threads add their own elements first, a round each, then neighbours meet."""
    x = np.array([1e16, 1, -1e16, 1, 1, 1, 1, 1, 3], np.float64)
    rounds = [(x[0] + x[4]) + x[8], x[1] + x[5], x[2] + x[6], x[3] + x[7]]
    total = (rounds[0] + rounds[1]) + (rounds[2] + rounds[3])
    assert _run("out[0] = kd.tile.load(x, 0, 9).sum()", np.zeros(1), x=x) == [total]


def test_sums_up_to_an_element() -> None:
    body = "kd.tile.store(out, 0, kd.tile.load(x, 0, 6).cumsum())"
    assert _run(body, np.zeros(6)) == [0, 1, 3, 6, 10, 15]
    body = "kd.tile.store(out, 0, kd.tile.arange(4).cumsum(exclusive=True))"
    assert _run(body, np.zeros(4)) == [0, 0, 1, 3]
    body = "v = kd.tile.arange((2, 3)).cumsum({})\nkd.tile.store(out, 0, kd.tile.full(1, v.max()))"
    assert _run(body.format("axis=0"), np.zeros(1)) == [4]
    assert _run(body.format("1, exclusive=True"), np.zeros(1)) == [1]


def test_rows_are_sorted() -> None:
    x = np.array([2, np.nan, 0.0, -0.0, -np.inf, 1])
    out = _run("kd.tile.store(out, 0, kd.tile.load(x, 0, 6).sort())", np.zeros(6), x=x)
    assert str(out) == "[-inf, -0.0, 0.0, 1.0, 2.0, nan]"
    body = (
        "v = (-kd.tile.arange((2, 3))).sort()\nkd.tile.store(out, 0, v.map(placed, 0, 0).cumsum())"
    )
    assert _run(body, np.zeros(6)) == [-20, -30, -30, -50, -60, -60]


def test_elements_are_taken_at_the_nearest_places() -> None:
    x = np.array([2, np.nan, 0.0, -0.0, 2, -1])
    body = "kd.tile.store(out, 0, kd.tile.load(x, 0, 6).argsort())"
    assert _run(body, np.zeros(6, int), x=x) == [5, 3, 2, 0, 4, 1]
    body = "kd.tile.store(out, 0, kd.tile.arange(6).take(kd.tile.arange(3) * 4 - 2))"
    assert _run(body, np.zeros(3, int)) == [0, 2, 5]


def test_packed_numbers_are_loaded() -> None:
    body = "kd.tile.store(out, 0, kd.tile.load(kd.packed(x, kd.ternary), 2, 4, other=9))"
    assert _run(body, np.zeros(4, int), x=np.array([0b10010001], np.uint8)) == [0, 1, 9, 9]


def test_a_thread_gives_an_element_and_takes_its_own() -> None:
    body = "v = kd.tile.of(t * t)\nout[t] = (v - v.max()).own"
    assert _run(body, np.zeros(4, int)) == [-9, -8, -5, 0]


def test_what_varies_is_an_error() -> None:
    with pytest.raises(VaryingArgumentError):
        _run("kd.tile.store(out, t, kd.tile.zeros(2, np.int64))", np.zeros(4))
    with pytest.raises(oracle.DivergentBarrierError, match="1 threads never reach"):
        _run("if t == 3:\n    return\nout[t] = kd.tile.arange(4).sum()", np.zeros(4))
