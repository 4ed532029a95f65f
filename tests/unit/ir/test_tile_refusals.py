"""Expressions of tiles without a meaning, and tile operations that vary between threads."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.read_kernels import barriers_of, read_kernel_for


def _kinds_of(function: Any) -> str:
    names = signature(function).parameters
    kinds = {"n": "int64", "x": "float64[::1]", "xx": "float64[:, ::1]"}
    return ", ".join(kinds[name] for name in names)


def varying_number(x):
    t = kd.tile.load(x, 0, 64)
    kd.tile.store(x, 0, t * kd.threadIdx.x)


def varying_place(x):
    t = kd.tile.load(x, kd.grid(1), 64)
    kd.tile.store(x, 0, t)


def after_a_return(x):
    if kd.threadIdx.x > 5:
        return
    kd.tile.store(x, 0, kd.tile.load(x, 0, 64))


def taken_by_a_number(x):
    kd.tile.store(x, 0, kd.tile.load(x, 0, 64).take(3))


def taken_by_other_rows(xx):
    t = kd.tile.load(xx, (0, 0), (4, 8))
    kd.tile.store(xx, (0, 0), t.take(kd.tile.arange((3, 8))))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (taken_by_a_number, r"3 is not a tile"),
        (taken_by_other_rows, r"a tile of shape \(4, 8\) and places of shape \(3, 8\)"),
    ],
)
def test_places_are_a_tile_of_as_many_rows(function: Any, words: str) -> None:
    with pytest.raises(kd.UnsupportedConstructError, match=words):
        read_kernel_for(function, _kinds_of(function))


def in_a_branch(x):
    t = kd.tile.load(x, 0, 64)
    if kd.threadIdx.x == 0:
        x[0] = t.sum()


def varying_fill(x):
    kd.tile.store(x, 0, kd.tile.load(x, 0, 64, other=kd.threadIdx.x + 1))


def varying_place_of_a_store(x):
    kd.tile.store(x, kd.threadIdx.x * 2, kd.tile.load(x, 0, 64))


@pytest.mark.parametrize(
    ("function", "what", "remedy"),
    [
        (varying_number, "kd.tile.store, for tile,", "kd.tile.of"),
        (varying_place, "kd.tile.load, for at,", "Give what all threads"),
        (varying_place_of_a_store, "kd.tile.store, for at,", "Give what all threads"),
        (varying_fill, "kd.tile.load, for other,", "Give what all threads"),
        (after_a_return, "threads have returned before a tile operation", "in place of returning"),
        (in_a_branch, "is not reached by every thread", "out of the condition"),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_what_varies_is_refused(function: Any, what: str, remedy: str) -> None:
    problems = barriers_of(function, _kinds_of(function)).problems
    (problem, *_) = (problem for problem in problems if problem.is_provable)
    assert what in problem.what
    assert remedy in str(problem.remedy)
    assert not any("kd__" in text for text in (problem.what, *problem.chain))


@pytest.mark.parametrize("target", ["cpu", "null"])
def test_every_target_says_what_helps(target: str) -> None:
    kernel = kd.kernel(after_a_return)
    with kd.use(target), pytest.raises(kd.BarrierDivergenceError) as caught:
        kernel[1, 32](np.zeros(64))
    assert "in place of returning" in str(caught.value)
    assert "let them return first" not in str(caught.value)


def uniform(x, n):
    row = kd.blockIdx.x
    if row >= n:
        return
    t = kd.tile.load(x, row * 64, 64) * n
    kd.tile.store(x, row * 64, t - kd.tile.of(kd.threadIdx.x).sum())
    x[kd.threadIdx.x] = kd.tile.of(kd.threadIdx.x).own


def test_what_is_uniform_is_not() -> None:
    assert not barriers_of(uniform, _kinds_of(uniform)).problems


def two_shapes(x):
    t = kd.tile.load(x, 0, 64)
    t = kd.tile.load(x, 0, 32)
    kd.tile.store(x, 0, t)


def do_not_fit(x):
    kd.tile.store(x, 0, kd.tile.load(x, 0, 64) + kd.tile.load(x, 0, 32))


SIZES = (8, 4)


def other_axis(x):
    t = kd.tile.zeros(SIZES, kd.float32).cumsum(axis=2)
    kd.tile.store(x, (0, 0), t)


def axis_of_a_launch(x, n):
    kd.tile.store(x, (0, 0), kd.tile.zeros(SIZES, kd.float32).cumsum(n))


def exclusive_of_a_launch(x, n):
    kd.tile.store(x, 0, kd.tile.zeros(8, kd.float32).cumsum(exclusive=n))


def all_of_two_axes(x):
    t = kd.tile.zeros(SIZES, kd.float32)
    t = t.cumsum()
    kd.tile.store(x, 0, t)


def one_index(x):
    kd.tile.store(x, 0, kd.tile.zeros(SIZES, kd.float32))


def one_computed_index(x, n):
    row = kd.blockIdx.x * 4
    kd.tile.store(x, (0, 0), kd.tile.load(x, row, SIZES) + kd.tile.load(x, n + 1, SIZES))


def reshaped(x):
    kd.tile.store(x, (0, 0), kd.tile.load(x, 0, 8).reshape(2, 4))


def counted(x):
    x[0] = len(kd.tile.load(x, 0, 8))


def indexed(x):
    x[0] = kd.tile.load(x, 0, 8)[1]


def copied(x):
    kd.tile.copy(x, 0, 8)


def shared(x):
    t = kd.shared.tile(8, kd.float32)
    x[0] = t[0]


def of_no_word(x):
    kd.tile.qqq(x)


def misspelled(x):
    kd.tile.store(x, 0, kd.tile.zeross(8, kd.float32))


def truth(x):
    t = kd.tile.load(x, 0, 64)
    if t > 3:
        x[0] = 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (two_shapes, "holds tiles of shapes"),
        (do_not_fit, "do not fit"),
        (other_axis, "axis 2 does not exist"),
        (axis_of_a_launch, "axis is n, which is not a constant"),
        (exclusive_of_a_launch, "exclusive is n, which is not a constant"),
        (all_of_two_axes, r"tiles of shapes \(8, 4\) and \(32,\)"),
        (one_index, "at= has 1 index, and the tile has 2 axes"),
        (one_computed_index, "at= has 1 index, and the tile has 2 axes"),
        (reshaped, r"has no 'reshape'.*A tile has T, all, any"),
        (counted, r"is a tile, .*A tile has T, all, any.*t\.take\(places\)"),
        (indexed, r"is a tile, .*A tile has T, all, any.*t\.take\(places\)"),
        (copied, r"no attribute 'copy'.*kd\.tile\.store\(s, 0, t\)"),
        (shared, r"no attribute 'tile'.*kd\.shared\.array"),
        (of_no_word, r"kd\.tile has all, any, arange"),
        (misspelled, r"The closest name is kd\.tile\.zeros"),
        (truth, "is a tile"),
    ],
)
def test_what_has_no_meaning(function: Any, message: str) -> None:
    kinds = (kd.UnsupportedConstructError, kd.UndefinedAttributeError)
    with pytest.raises(kinds, match=message):
        read_kernel_for(function, _kinds_of(function))


def placed_by_an_argument(x, n):
    kd.tile.store(x, n, kd.tile.zeros(SIZES, kd.float32))


def unpacked(x):
    a, _ = kd.tile.load(x, 0, 8)
    kd.tile.store(x, 0, a)


def stored_as_a_number(x):
    x[0] = kd.tile.load(x, 0, 8)


def used_as_an_index(x):
    x[kd.tile.arange(8)] = 1


def chained(x):
    kd.tile.store(x, 0, (0 < kd.tile.load(x, 0, 8) < 3) * 1)


def truth_of_elements(x):
    t = kd.tile.load(x, 0, 8)
    kd.tile.store(x, 0, (t > 0 and t < 3) * 1)


def sometimes(x):
    t = kd.tile.load(x, 0, 8)
    x[0] = t.sum() if x[1] > 0 else 0.0


def nothing(x):
    x[0] = kd.tile.store(x, 0, kd.tile.zeros(8, kd.float64))


def number_as_a_tile(x):
    kd.tile.store(x, 0, x[0])


def reduced_wrongly(x):
    x[0] = kd.tile.load(x, 0, 8).sum(0, 1)


def converted_to_a_value(x, n):
    kd.tile.store(x, 0, kd.tile.load(x, 0, 8).astype(n))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (placed_by_an_argument, "at= has 1 index, and the tile has 2 axes"),
        (unpacked, r"kd.tile.load\(x, 0, 8\) is a tile, and a number is needed here"),
        (stored_as_a_number, r"kd.tile.load\(x, 0, 8\) is a tile, and a number is needed here"),
        (used_as_an_index, r"kd.tile.arange\(8\) is a tile, and a number is needed here"),
        (chained, "is a chain of comparisons of tiles"),
        (truth_of_elements, "t > 0 and t < 3 uses a tile as a truth value"),
        (sometimes, r"t.sum\(\) is evaluated conditionally, and works on a tile"),
        (nothing, "gives nothing"),
        (number_as_a_tile, r"x\[0\] is not a tile"),
        (reduced_wrongly, r"has wrong arguments.*Call it as t.sum\(axis\)"),
        (converted_to_a_value, "n is not a dtype that is known"),
    ],
)
def test_tiles_and_numbers(function: Any, message: str) -> None:
    with pytest.raises(kd.UnsupportedConstructError, match=message):
        read_kernel_for(function, _kinds_of(function))


@pytest.mark.parametrize(
    ("dtype", "message"),
    [
        (np.dtype([("re", "f4"), ("im", "f4")]), r"Load and store a field .*array\['re'\]"),
        (np.dtype("M8[s]"), r"array.view\(np.int64\)"),
    ],
)
def test_elements_that_are_no_numbers(dtype: Any, message: str) -> None:
    x, y = np.zeros(32, dtype), np.zeros(32, np.float32)

    @kd.kernel
    def loaded(x, out):
        kd.tile.store(out, 0, kd.tile.load(x, 0, 32))

    @kd.kernel
    def stored(x, out):
        kd.tile.store(x, 0, kd.tile.load(out, 0, 32))

    for kernel in (loaded, stored):
        with kd.use("cpu"), pytest.raises(kd.KernelTypingError, match=message) as caught:
            kernel[1, 32](x, y)
        assert "elements of a tile cannot be" in str(caught.value)
