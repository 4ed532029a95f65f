"""Operations of warps and blocks against NumPy: any operation, dtype, size of block and company.

What NumPy computes has no order of its own here: floats that are added are small whole numbers, of
which every sum is exact, and the order of sums is what ``tests/conformance`` checks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.language.intrinsics.table import INTRINSICS
from tests.support.arrays import assert_same_bits, poisoned
from tests.support.extent import examples, full_beyond
from tests.support.source import exec_source

_WARP = 32
#: A block's threads that take part leave the others behind by a return; a warp's meet in a branch.
_SOURCES = {
    "block": """
import kerneldsl as kd

@kd.func
def last(a, b):
    return b

@kd.func
def least(a, b):
    return b if b < a else a

@kd.kernel
def kernel(x, y, source, here, out, second):
    i = kd.grid(1)
    if here[i] == 0:
        return
    {statement}
""",
    "warp": """
import kerneldsl as kd

@kd.func
def last(a, b):
    return b

@kd.func
def least(a, b):
    return b if b < a else a

@kd.kernel
def kernel(x, y, source, here, out, second):
    i = kd.grid(1)
    if here[i]:
        {statement}
""",
}
_Values = tuple[np.ndarray, np.ndarray, np.ndarray]


def _wide(x: np.ndarray) -> np.dtype:
    """The dtype of a sum."""
    if x.dtype.kind in "iub" and x.dtype.itemsize < 4:
        return np.dtype(np.uint32 if x.dtype.kind == "u" else np.int32)
    return x.dtype


def _total(x: np.ndarray) -> Any:
    return np.add.reduce(x.astype(_wide(x)), dtype=_wide(x))


def _running(x: np.ndarray) -> np.ndarray:
    return np.add.accumulate(x.astype(_wide(x)), dtype=_wide(x))


def _before(x: np.ndarray, first: Any) -> np.ndarray:
    return np.concatenate([[np.asarray(first, x.dtype)], x[:-1]]).astype(x.dtype)


def _exchanged(values: _Values, threads: np.ndarray) -> np.ndarray:
    """What threads get from others, which take part or not."""
    x, _, source = values
    places = {thread: place for place, thread in enumerate(threads)}
    return x[[places.get(wanted, own) for own, wanted in enumerate(source)]]


_Answer = Callable[[_Values, np.ndarray], Any]
#: Call and what NumPy gives for the values of who takes part, and which threads those are.
_WORDS: dict[str, tuple[str, str, _Answer]] = {
    "sum": ("sum", "x[i]", lambda v, t: _total(v[0])),
    "max": ("max", "x[i]", lambda v, t: np.fmax.reduce(v[0])),
    "min": ("min", "x[i]", lambda v, t: np.fmin.reduce(v[0])),
    "any": ("any", "x[i] > y[i]", lambda v, t: (v[0] > v[1]).any()),
    "all": ("all", "x[i] > y[i]", lambda v, t: (v[0] > v[1]).all()),
    "count": ("count", "x[i] > y[i]", lambda v, t: np.int32((v[0] > v[1]).sum())),
    "last": ("reduce", "x[i], last", lambda v, t: v[0][-1]),
    "least": ("reduce", "x[i], least", lambda v, t: v[0].min()),
    "first": ("reduce", "x[i], lambda a, b: a", lambda v, t: v[0][0]),
    "running sum": ("inclusive_scan", "x[i]", lambda v, t: _running(v[0])),
    "sum before": ("exclusive_scan", "x[i]", lambda v, t: _before(_running(v[0]), 0)),
    "running least": ("inclusive_scan", "x[i], least", lambda v, t: np.minimum.accumulate(v[0])),
    "least before": (
        "exclusive_scan",
        "x[i], least, 7",
        lambda v, t: _before(np.minimum.accumulate(np.minimum(v[0], v[0].dtype.type(7))), 7),
    ),
    "exchange": ("exchange", "x[i], source[i]", _exchanged),
    "sort": ("sort", "x[i]", lambda v, t: np.sort(v[0], kind="stable")),
}
#: Those whose functions compare, or begin with a number, which is no truth value.
_NUMBERS = ("least", "running least", "least before")
#: Those in which a NaN has its place.
_WITH_NAN = ("max", "min", "last", "first", "exchange", "sort", "any", "all", "count")
_DTYPES = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "bool"),
)


@cache
def _kernel(group: str, name: str) -> Any:
    word, args, _ = _WORDS[name]
    statement = f"out[i] = kd.{group}.{word}({args})"
    return exec_source(_SOURCES[group].format(statement=statement), f"{group}_{name}")["kernel"]


def _numbers(rng: np.random.Generator, dtype: str, size: int, *, has_nan: bool) -> np.ndarray:
    """Small whole numbers, of integers as well large ones; NaN and infinities, if wanted."""
    if dtype == "bool":
        return rng.integers(0, 2, size).astype(bool)
    kind = np.dtype(dtype)
    low = 0 if kind.kind == "u" else -9
    x = rng.integers(low, 10, size).astype(kind)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        extreme = rng.integers(limits.min, limits.max, size, kind, endpoint=True)
        return np.where(rng.random(size) < 0.3, extreme, x)
    if has_nan:
        odd = rng.choice(np.array([np.nan, np.inf, -np.inf], kind), size)
        x = np.where(rng.random(size) < 0.2, odd, x)
    # One zero has no place before the other: of both, NumPy keeps another one.
    return np.where(x == 0, kind.type(0), x).astype(kind)


def _members(rng: np.random.Generator, size: int, company: str) -> np.ndarray:
    here = np.ones(size, np.uint8)
    if company == "some":
        here[rng.random(size) < 0.4] = 0
    elif company == "few":
        here[:] = 0
        here[rng.integers(0, size, 3)] = 1
    elif company == "front":
        here[rng.integers(0, size + 1) :] = 0
    return here


def _groups(group: str, here: np.ndarray, block: int) -> list[np.ndarray]:
    """The threads of each group that take part, as indices of the grid."""
    width = _WARP if group == "warp" else block
    found = [
        np.arange(start, min(start + width, first + block))
        for first in range(0, here.size, block)
        for start in range(first, first + block, width)
    ]
    return [threads[here[threads] > 0] for threads in found]


@pytest.mark.parametrize("name", full_beyond(_WORDS, list(_WORDS)[::5]))
@pytest.mark.parametrize("group", ["warp", "block"])
def test_a_group_computes_what_numpy_does(group: str, name: str) -> None:
    """Of any threads that take part; those that do not keep what they have."""
    word = f"{group}.{_WORDS[name][0]}"
    of_numbers = name in _NUMBERS or not INTRINSICS[word].dtypes
    known = [d for d in _DTYPES if of_numbers or d in INTRINSICS[word].dtypes]

    @settings(max_examples=examples(5), deadline=None)
    @given(
        dtype=st.sampled_from([d for d in known if not (of_numbers and d == "bool")]),
        block=st.one_of(st.integers(1, 100), st.sampled_from([1, 7, 33, 96, 100, 256, 1024])),
        blocks=st.integers(1, 3),
        company=st.sampled_from(["all", "all", "some", "few", "front"]),
        seed=st.integers(0, 2**32 - 1),
    )
    def check(dtype: str, block: int, blocks: int, company: str, seed: int) -> None:
        rng = np.random.default_rng(seed)
        size = block * blocks
        x, y = (_numbers(rng, dtype, size, has_nan=name in _WITH_NAN) for _ in range(2))
        source = rng.integers(0, _WARP if group == "warp" else block, size).astype(np.int32)
        here = _members(rng, size, company)
        answers = {}
        with np.errstate(all="ignore"):
            for threads in _groups(group, here, block):
                if threads.size:
                    inside = threads % block
                    own = inside % _WARP if group == "warp" else inside
                    values = (x[threads], y[threads], source[threads])
                    answers[tuple(threads)] = _WORDS[name][2](values, own)
        result = next((np.asarray(a).dtype for a in answers.values()), x.dtype)
        out = poisoned(size, result)
        expected = out.copy()
        for members, answer in answers.items():
            expected[list(members)] = answer
        with kd.use("cpu"):
            _kernel(group, name)[blocks, block](x, y, source, here, out, out)
        assert_same_bits(out, expected, f"{word} of {dtype} in {blocks} blocks of {block}")

    check()


@pytest.mark.parametrize("group", ["warp", "block"])
def test_values_come_with_their_keys(group: str) -> None:
    """Equal keys keep their order, which their values show."""
    statement = f"out[i], second[i] = kd.{group}.sort(x[i], y[i])"
    kernel = exec_source(_SOURCES[group].format(statement=statement), f"{group}_values")["kernel"]

    @settings(max_examples=examples(5), deadline=None)
    @given(
        dtype=st.sampled_from([d for d in _DTYPES if d != "bool"]),
        block=st.one_of(st.integers(1, 100), st.sampled_from([256, 1024])),
        company=st.sampled_from(["all", "some", "few", "front"]),
        seed=st.integers(0, 2**32 - 1),
    )
    def check(dtype: str, block: int, company: str, seed: int) -> None:
        rng = np.random.default_rng(seed)
        x = _numbers(rng, dtype, block, has_nan=True)
        y = np.arange(block, dtype=np.int16)
        here = _members(rng, block, company)
        out, second = poisoned(block, dtype), poisoned(block, np.int16)
        keys, values = out.copy(), second.copy()
        for threads in _groups(group, here, block):
            order = threads[np.argsort(x[threads], kind="stable")]
            keys[threads], values[threads] = x[order], y[order]
        with kd.use("cpu"):
            kernel[1, block](x, y, here.astype(np.int32), here, out, second)
        assert_same_bits(out, keys, "keys")
        assert_same_bits(second, values, "values")

    check()
