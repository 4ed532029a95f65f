"""What a launch may promise of its arguments, against a slow look at every byte."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerneldsl.contract import NO_PROMISES, ONE_EACH, ArrayPromises, ElementMapping, Promises
from kerneldsl.contract.abi import array_parameters
from kerneldsl.contract.promises import NARROW_THREADS
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind, TupleKind
from kerneldsl.language.signatures import parse_signature
from kerneldsl.launch.arguments import checked_promises
from kerneldsl.launch.arguments.arguments import bind
from kerneldsl.launch.arguments.binding import passed_arrays
from kerneldsl.launch.arguments.checked_promises import PromiseTable, promises_of
from kerneldsl.launch.shape import LaunchShape
from kerneldsl.memory.strided import layout_of
from tests.support.extent import examples

_BASE = 1 << 20
_traits_of_nothing: Any = SimpleNamespace(written=frozenset(), uses_products=False)


def _promises(
    kinds: Sequence[Kind],
    values: Sequence[Any],
    extent: tuple[int, ...] = (),
    *,
    written: Collection[int],
) -> Promises:
    """Find the promises of a launch with flat values."""
    return promises_of(passed_arrays(array_parameters(kinds), values), extent, written=written)


@st.composite
def _views(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    """A view of one buffer of 96 bytes: any offset, shape and strides, also 0 and negative."""
    dtype = np.dtype(draw(st.sampled_from(["int8", "float32", "complex64"])))
    ndim = draw(st.integers(0, 3))
    shape = tuple(draw(st.integers(0, 3)) for _ in range(ndim))
    strides = tuple(draw(st.sampled_from([0, 1, -1, 2, 4, -4, 3])) for _ in range(ndim))
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True) if n]
    low = -sum(min(r, 0) for r in reach)
    high = sum(max(r, 0) for r in reach)
    room = 96 // dtype.itemsize - low - high - 1
    if room < 0:
        return _buffer(dtype)[:0]
    start = low + draw(st.integers(0, room))
    return np.lib.stride_tricks.as_strided(
        _buffer(dtype)[start:], shape, tuple(s * dtype.itemsize for s in strides)
    )


_memory = np.zeros(96 + 64, np.uint8)
_memory = _memory[-_memory.ctypes.data % 64 :][:96]


def _buffer(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    return _memory[: 96 // dtype.itemsize * dtype.itemsize].view(dtype)


def _argument(view: np.ndarray[Any, Any]) -> tuple[ArrayKind, list[int]]:
    layout = layout_of(view.shape, view.strides, view.itemsize)
    values = [view.ctypes.data, *view.shape]
    if layout == "A":
        values += view.strides
    return ArrayKind(view.dtype.name, view.ndim, layout), values


def _bytes_of(view: np.ndarray[Any, Any]) -> set[int]:
    """The address of every byte of every element."""
    found = set()
    for index in np.ndindex(view.shape):
        at = view.ctypes.data + sum(i * s for i, s in zip(index, view.strides, strict=True))
        found |= set(range(at, at + view.itemsize))
    return found


@settings(max_examples=examples(600), deadline=None)
@given(st.lists(_views(), min_size=1, max_size=4), st.data())
def test_what_is_promised_holds_of_every_byte(
    views: list[np.ndarray[Any, Any]], data: st.DataObject
) -> None:
    if data.draw(st.booleans()):
        views.append(views[data.draw(st.integers(0, len(views) - 1))])
    arguments = [_argument(view) for view in views]
    kinds = [kind for kind, _ in arguments]
    values = [value for _, flat in arguments for value in flat]
    written = data.draw(st.sets(st.integers(0, len(views) - 1)))
    extent = data.draw(
        st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple)
        | st.sampled_from(views).map(lambda view: view.shape)
    )
    promises = _promises(kinds, values, extent, written=written)
    assert len(promises.arrays) == len(views)
    for number, (view, promise) in enumerate(zip(views, promises.arrays, strict=True)):
        _check_array(view, kinds[number], promise, extent)
        if promise.same_as is not None:
            other = views[promise.same_as]
            assert promise.same_as < number
            assert promises.array(promise.same_as).same_as is None
            assert kinds[promise.same_as] == kinds[number]
            assert (other.ctypes.data, other.shape) == (view.ctypes.data, view.shape)
            assert kinds[number].layout != "A" or other.strides == view.strides
    if promises.is_disjoint:
        for w in written:
            for number, view in enumerate(views):
                one = promises.array(w).same_as
                group = w if one is None else one
                same = promises.array(number).same_as
                if (number if same is None else same) != group:
                    assert not _bytes_of(views[w]) & _bytes_of(view)
    elif all(view.ndim == 0 or kind.layout != "A" for view, kind in zip(views, kinds, strict=True)):
        # Arrays without gaps that are not disjoint do share bytes.
        assert any(
            _bytes_of(views[w]) & _bytes_of(view)
            for w in written
            for number, view in enumerate(views)
            if number != w
        )


def _check_array(
    view: np.ndarray[Any, Any], kind: ArrayKind, promise: ArrayPromises, extent: tuple[int, ...]
) -> None:
    assert promise.alignment in (1, 2, 4, 8, 16)
    assert view.ctypes.data % promise.alignment == 0
    unit = promise.unit_axis
    if kind.layout != "A":
        assert unit is None
        unit = kind.ndim - 1 if kind.layout == "C" else 0
    elif unit is not None:
        assert view.strides[unit] == view.itemsize
    for index in np.ndindex(view.shape):  # every row begins as is promised
        if unit is None or view.ndim == 0 or index[unit] == 0:
            at = sum(i * s for i, s in zip(index, view.strides, strict=True))
            assert (view.ctypes.data + at) % promise.alignment == 0
    assert promise.is_extent == (extent != () and view.shape[: len(extent)] == extent)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(_views(), min_size=2, max_size=3), st.data())
def test_covering_is_a_partial_order_that_no_promises_end(
    views: list[np.ndarray[Any, Any]], data: st.DataObject
) -> None:
    arguments = [_argument(view) for view in views]
    kinds = [kind for kind, _ in arguments]
    values = [value for _, flat in arguments for value in flat]
    written = data.draw(st.sets(st.integers(0, len(views) - 1)))
    found = _promises(kinds, values, (3,), written=written)
    assert found.cover(found)
    assert found.cover(NO_PROMISES)
    for mapping in (ONE_EACH, ElementMapping((4, 1, 1)), ElementMapping((4, 1, 1), 4)):
        weaker = found.for_mapping(mapping)
        assert found.cover(weaker)
        assert weaker.cover(weaker)
        assert weaker.for_mapping(mapping) == weaker
        tested = found.for_mapping(mapping, tests_extent=True)
        assert found.cover(tested)
        assert tested.cover(weaker)
        if weaker.arrays and mapping != ONE_EACH:
            assert weaker.cover(found) == (weaker == found)


def test_disjoint_but_for_what_is_the_same_is_no_promise_for_other_arrays() -> None:
    once = Promises((ArrayPromises(), ArrayPromises()), is_disjoint=True)
    twice = Promises((ArrayPromises(), ArrayPromises(same_as=0)), is_disjoint=True)
    assert not twice.cover(once)
    assert not once.cover(twice)
    assert twice.cover(Promises(twice.arrays))


def test_one_element_a_thread_comes_in_few_forms() -> None:
    kinds = parse_signature("f4[::1], f4[::1], f4[::1]")
    forms = {
        _promises(kinds, values, (100,), written={2}).for_mapping(ONE_EACH)
        for values in (
            [_BASE, 100, _BASE + 400, 100, _BASE + 800, 100],
            [_BASE + 4, 100, _BASE + 404, 101, _BASE + 808, 999],
        )
    }
    assert forms == {Promises(is_disjoint=True, is_narrow=True)}
    twice = _promises(kinds, [_BASE, 100, _BASE + 400, 100, _BASE, 100], (100,), written={2})
    assert twice.is_disjoint
    assert twice.for_mapping(ONE_EACH) == Promises(is_narrow=True)
    assert twice.for_mapping(ElementMapping((4, 1, 1))).array(2).same_as == 0


def test_one_element_a_thread_uses_lengths_that_are_the_extent() -> None:
    kinds = parse_signature("f4[:, ::1], f4[::1], f4[::1]")
    values = [_BASE, 100, 3, _BASE + 1200, 5, _BASE + 1600, 100]
    found = _promises(kinds, values, (100,), written={2})
    assert found.for_mapping(ONE_EACH) == Promises(is_disjoint=True, is_narrow=True)
    kept = found.for_mapping(ONE_EACH, tests_extent=True)
    assert [each.is_extent for each in kept.arrays] == [True, False, True]
    assert kept.for_mapping(ONE_EACH, tests_extent=True) == kept


def test_tiles_are_told_of_the_widest_alignment_alone() -> None:
    kinds = parse_signature("f4[::1], f4[::1], f4[::1]")
    found = _promises(kinds, [_BASE, 96, _BASE + 400, 96, _BASE + 808, 96], (), written={2})
    assert [each.alignment for each in found.arrays] == [16, 16, 8]
    kept = found.for_mapping(ONE_EACH, is_wide=True)
    assert [each.alignment for each in kept.arrays] == [16, 16, 1]
    assert kept.is_disjoint
    assert found.cover(kept)


def _find(signature: str, *values: Any) -> Promises:
    return _promises(parse_signature(signature), values, written={0})


@pytest.mark.parametrize(
    ("distance", "is_disjoint"), [(0, True), (4, False), (396, False), (400, True), (-400, True)]
)
def test_shifted_views_overlap(distance: int, is_disjoint: bool) -> None:
    found = _find("f4[::1], f4[::1]", _BASE, 100, _BASE + distance, 100)
    assert found.is_disjoint == is_disjoint
    assert found.array(1).same_as == (0 if distance == 0 else None)


def test_the_same_address_in_another_shape_overlaps() -> None:
    assert not _find("f4[::1], f4[::1]", _BASE, 100, _BASE, 99).is_disjoint
    assert not _find("f4[::1], i4[::1]", _BASE, 100, _BASE, 100).is_disjoint


def test_empty_arrays_share_nothing() -> None:
    assert _find("f4[::1], f4[::1]", _BASE, 100, _BASE + 4, 0).is_disjoint


def test_what_is_only_read_may_overlap() -> None:
    kinds = parse_signature("f4[::1], f4[::1], f4[::1]")
    values = [_BASE, 8, _BASE + 4, 8, _BASE + 64, 8]
    assert _promises(kinds, values, written={2}).is_disjoint
    assert not _promises(kinds, values, written={1}).is_disjoint


def test_broadcast_and_reversed_views_promise_no_unit_stride() -> None:
    found = _find("f4[:], f4[:]", _BASE, 8, 0, _BASE + 1024, 8, -4)
    assert [each.unit_axis for each in found.arrays] == [None, None]
    assert [each.alignment for each in found.arrays] == [16, 4]
    assert found.is_disjoint
    assert not _find("f4[:], f4[:]", _BASE, 8, 0, _BASE + 16, 8, -4).is_disjoint


def test_rows_count_for_alignment() -> None:
    assert _find("f4[:, ::1]", _BASE, 5, 12).array(0).alignment == 16
    assert _find("f4[:, ::1]", _BASE, 5, 14).array(0).alignment == 8
    assert _find("f4[:, ::1]", _BASE, 5, 13).array(0).alignment == 4
    assert _find("f4[::1, :]", _BASE, 13, 12).array(0).alignment == 4
    assert _find("f4[:, :]", _BASE, 5, 12, 64, 4).array(0) == ArrayPromises(16, 1)
    assert _find("f4[:, :]", _BASE, 5, 12, 4, 64).array(0) == ArrayPromises(16, 0)


def test_arrays_in_tuples_are_counted_too() -> None:
    kinds: list[Kind] = [
        ScalarKind("int32"),
        TupleKind((ArrayKind("float32", 1), ScalarKind("complex64"), ArrayKind("int8", 0))),
        ArrayKind("float32", 1),
    ]
    values = [3, _BASE, 8, 1.0, 2.0, _BASE + 33, _BASE, 8]
    found = _promises(kinds, values, (8,), written={2})
    assert [each.alignment for each in found.arrays] == [16, 1, 16]
    assert [each.is_extent for each in found.arrays] == [True, False, True]
    assert [each.same_as for each in found.arrays] == [None, None, 0]
    assert found.is_disjoint


@pytest.mark.parametrize(
    ("shape", "extent", "is_narrow"),
    [
        ((2**31 - 1,), (5,), True),
        ((2**31,), (5,), False),
        ((2**16, 2**15), (5,), False),
        ((2**40, 0), (5,), False),
        ((5,), (2**31,), False),
        ((5,), (NARROW_THREADS,), True),
        ((5,), (7, NARROW_THREADS + 1), False),
    ],
)
def test_narrow_means_below_2_31(
    shape: tuple[int, ...], extent: tuple[int, ...], is_narrow: bool
) -> None:
    kinds = [ArrayKind("int8", len(shape))]
    assert math.prod(shape) >= 0
    assert _promises(kinds, [_BASE, *shape], extent, written=()).is_narrow == is_narrow


@pytest.mark.parametrize(
    ("grid", "block", "is_narrow"),
    [
        ((2**21 - 64, 1, 1), (1024, 1, 1), True),
        ((2**21 - 63, 1, 1), (1024, 1, 1), False),
        ((2**31 - 1, 1, 1), (1, 1, 1), False),
        ((1, 65535, 65535), (1, 1024, 1), True),
    ],
)
def test_threads_of_a_narrow_grid_have_indices_below_2_31(
    grid: tuple[int, int, int], block: tuple[int, int, int], is_narrow: bool
) -> None:
    shape = LaunchShape(grid, block, None, None, 0)
    assert (max(g * b for g, b in zip(grid, block, strict=True)) <= NARROW_THREADS) == is_narrow
    kinds = parse_signature("f4[::1]")
    arrays = passed_arrays(array_parameters(kinds), [_BASE, 100])
    assert promises_of(arrays, (), shape.threads, written=()).is_narrow == is_narrow
    table = PromiseTable(_traits_of_nothing)
    binding = bind(("x",), (np.zeros(8, np.float32),))
    number = table.number_of(binding, None, shape.threads)
    assert table[number].is_narrow == is_narrow
    assert table[table.number_of(binding, None, (1, 1, 1))].is_narrow


def test_only_what_is_passed_of_arrays_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Promises] = []

    def counted(*args: Any, **kwargs: Any) -> Promises:
        found.append(promises_of(*args, **kwargs))
        return found[-1]

    monkeypatch.setattr(checked_promises, "promises_of", counted)
    traits: Any = SimpleNamespace(written=frozenset({1}), uses_products=False)
    table = PromiseTable(traits)
    vector, strided = np.zeros(8, np.float32), np.zeros(8, np.float32)[::2]

    def number_of(array: np.ndarray[Any, Any], number: float) -> int:
        return table.number_of(bind(("a", "b"), (number, ((number, array), number))), (8,))

    assert number_of(vector, 1.0) == number_of(vector, 2.0)
    assert len(found) == 1
    assert number_of(strided, 2.0) != number_of(vector, 2.0)
    assert number_of(vector[:4], 2.0) != number_of(vector, 2.0)
    assert len(found) == 3


@pytest.mark.parametrize(
    ("values", "alignment"),
    [
        ((16, 4, 8, 64, 4), 16),
        ((16, 4, 8, 0, 4), 1),
        ((16, 4, 8, -64, 4), 1),
        ((16, 4, 8, 64, 8), 1),
        ((16, 0, 8, 64, 4), 1),
    ],
)
def test_arrays_for_tensor_maps_are_aligned_only_if_there_is_one_of_them(values, alignment):
    arrays = passed_arrays(array_parameters(parse_signature("float32[:, :]")), list(values))
    found = promises_of(arrays, written=(), are_mapped=True)
    assert found.array(0).alignment == alignment
