"""Every mapping runs the body exactly once for each index: the entries themselves, run here.

The optimized module of an entry is run on the host for every thread of a grid. A kernel adds to
each element a number that tells its index, so that an index that is left out, run twice or taken
for another one shows, and so does anything outside the extent.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.contract import ElementMapping, Promises, Specialization
from kerneldsl.contract.abi import LaunchMode
from kerneldsl.contract.promises import NARROW_THREADS
from kerneldsl.launch.arguments.binding import passed_arrays
from kerneldsl.launch.arguments.checked_promises import promises_of
from targets.cuda.compile.compiler import compile_kernel
from tests.ptx.helpers import specialize
from tests.support.extent import examples, full_beyond
from tests.support.simulated_grid import SimulatedGrid


def mark1(out):
    i = kd.grid(1)
    out[i] += 1 + i


def mark2(out):
    i, j = kd.grid(2)
    rows, columns = kd.gridsize(2)
    out[i, j] += 1 + i + rows * (j + columns)


def mark3(out):
    i, j, k = kd.grid(3)
    out[i, j, k] += 1 + i + 1000 * (j + 1000 * k)


def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


_MARKS = {1: mark1, 2: mark2, 3: mark3}


def _expected(shape: tuple[int, ...], extent: tuple[int, ...]) -> np.ndarray[Any, Any]:
    indices = np.indices(extent, dtype=np.int64)
    if len(extent) == 1:
        marks = 1 + indices[0]
    elif len(extent) == 2:
        marks = 1 + indices[0] + extent[0] * (indices[1] + extent[1])
    else:
        marks = 1 + indices[0] + 1000 * (indices[1] + 1000 * indices[2])
    expected = np.zeros(shape, np.int64)
    expected[tuple(slice(n) for n in extent)] = marks
    return expected


@cache
def _unmapped(kernel: Any, signature: str, ndim: int) -> Specialization:
    return specialize(kernel, signature, LaunchMode(ndim))


@cache
def _mapped(base: Specialization, mapping: ElementMapping, promises: Promises) -> SimulatedGrid:
    specialization = replace(base, mapping=mapping, promises=promises)
    return SimulatedGrid(compile_kernel(specialization, arch="sm_90"))


def _aligned(nbytes: int) -> np.ndarray[Any, Any]:
    """Bytes that begin at a multiple of 64."""
    room = np.zeros(nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    return room[start : start + nbytes]


def _array(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    count = math.prod(shape)
    return _aligned(count * np.dtype(dtype).itemsize).view(dtype)[:count].reshape(shape)


@st.composite
def _mappings(draw: st.DrawFn, ndim: int) -> ElementMapping:
    powers = st.sampled_from([1, 2, 4, 8, 16])
    items = [draw(powers), 1, 1]
    for axis in range(1, ndim):
        items[axis] = draw(st.sampled_from([1, 2, 4]))
    while math.prod(items) > 64:
        items[items.index(max(items))] //= 2
    vector = draw(powers.filter(lambda v: items[0] % v == 0))
    axes = draw(st.none() | st.permutations(range(ndim)).map(tuple))
    order = draw(st.sampled_from(["strided", "contiguous"]))
    walked = draw(st.sampled_from(["", "x", "yz", "xyz"]))
    return ElementMapping((items[0], items[1], items[2]), vector, order, axes, walked)


@st.composite
def _launches(draw: st.DrawFn) -> tuple[Any, ...]:
    ndim = draw(st.integers(1, 3))
    most = {1: 700, 2: 45, 3: 14}[ndim]
    extent = tuple(draw(st.integers(1, most)) for _ in range(ndim))
    slack = tuple(draw(st.sampled_from([0, 0, 1, 4])) for _ in range(ndim))
    mapping = draw(_mappings(ndim))
    block = [draw(st.sampled_from([1, 3, 8, 32])), 1, 1]
    for axis in range(1, ndim):
        block[axis] = draw(st.sampled_from([1, 2, 3]))
    return extent, slack, mapping, tuple(block), draw(st.booleans()), draw(st.integers(1, 5))


@settings(max_examples=examples(100), deadline=None)
@given(_launches())
def test_each_index_is_run_once(launch: tuple[Any, ...]) -> None:
    extent, slack, mapping, block, is_promised, most_blocks = launch
    shape = tuple(n + more for n, more in zip(extent, slack, strict=True))
    out = _array(shape, np.int64)
    signature = f"int64[{', '.join([*[':'] * (len(extent) - 1), '::1'])}]"
    values = [out.ctypes.data, *shape]
    base = _unmapped(_MARKS[len(extent)], signature, len(extent))
    found = (
        promises_of(passed_arrays(base.layout.arrays, values), extent, written={0})
        if is_promised
        else Promises()
    )
    grid = [
        min(blocks, most_blocks) if axis in mapping.grid_stride else blocks
        for axis, blocks in zip("xyz", mapping.blocks(extent, block), strict=True)
    ]
    _mapped(base, mapping, found).run(grid, block, [*values, *extent])
    np.testing.assert_array_equal(out, _expected(shape, extent))


_EVERY_1D = [
    ElementMapping((items, 1, 1), vector, order)
    for items in (1, 2, 4, 8, 16)
    for vector in (1, 2, 4, 8, 16)
    for order in ("strided", "contiguous")
    if items % vector == 0 and (order == "strided" or items > vector)
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
@pytest.mark.parametrize("mapping", full_beyond(_EVERY_1D, _EVERY_1D[::3]), ids=str)
def test_every_tail_of_every_mapping_along_x(mapping: ElementMapping, dtype: str) -> None:
    rng = np.random.default_rng(7)
    signature = f"{dtype}, {dtype}[::1], {dtype}[::1], {dtype}[::1]"
    base = _unmapped(axpy, signature, 1)
    block = (8, 1, 1)
    (tile, _, _) = mapping.tile(block)
    for n in {1, 2, 3, mapping.item_count, tile - 1, tile, tile + 1, 3 * tile + 5} - {0}:
        x, y, out = (_array((n,), dtype) for _ in range(3))
        x[:] = rng.integers(0, 5, n)
        y[:] = rng.integers(0, 5, n)
        values = [
            2 if dtype == "int8" else 2.0,
            *(v for each in (x, y, out) for v in (each.ctypes.data, n)),
        ]
        promises = promises_of(passed_arrays(base.layout.arrays, values), (n,), written={3})
        assert promises.is_disjoint
        assert all(each.alignment == 16 for each in promises.arrays)
        run = _mapped(base, mapping, promises)
        run.run(mapping.blocks((n,), block), block, [*values, n])
        np.testing.assert_array_equal(out, x * np.dtype(dtype).type(2) + y)


def increment(x):
    i = kd.grid(1)
    if i < x.size:
        x[i] = x[i] + 1


@pytest.mark.parametrize("offset", [0, 1, 2, 3, 4])
def test_the_same_index_in_place_wherever_the_array_begins(offset: int) -> None:
    n = 1001
    whole = _array((n + 8,), np.float32)
    whole[:] = np.arange(n + 8)
    expected = whole.copy()
    x = whole[offset : offset + n]
    expected[offset : offset + n] += 1
    values = [x.ctypes.data, n]
    base = _unmapped(increment, "float32[::1]", 1)
    promises = promises_of(passed_arrays(base.layout.arrays, values), (n,), written={0})
    assert promises.array(0).alignment == {0: 16, 1: 4, 2: 8, 3: 4, 4: 16}[offset]
    mapping = ElementMapping((8, 1, 1), 4)
    _mapped(base, mapping, promises).run(mapping.blocks((n,), (32, 1, 1)), (32, 1, 1), [*values, n])
    np.testing.assert_array_equal(whole, expected)


_AXPY = "float32, float32[::1], float32[::1], float32[::1]"


@pytest.mark.parametrize(
    "mapping", [ElementMapping((4, 1, 1), 4), ElementMapping((4, 1, 1))], ids=str
)
def test_an_argument_given_twice_is_one_array(mapping: ElementMapping) -> None:
    n = 999
    x, y = _array((n,), np.float32), _array((n,), np.float32)
    x[:] = np.arange(n)
    y[:] = 1
    values = [2.0, x.ctypes.data, n, y.ctypes.data, n, y.ctypes.data, n]
    base = _unmapped(axpy, _AXPY, 1)
    promises = promises_of(passed_arrays(base.layout.arrays, values), (n,), written={3})
    assert promises.is_disjoint
    assert [each.same_as for each in promises.arrays] == [None, None, 1]
    _mapped(base, mapping, promises).run(mapping.blocks((n,), (32, 1, 1)), (32, 1, 1), [*values, n])
    np.testing.assert_array_equal(y, 2 * x + 1)


def test_overlapping_arrays_are_worked_on_in_the_order_of_items() -> None:
    """No promise, so that what one item stores is what the next one of its thread loads."""
    n, items = 96, 4
    whole = _array((n + 1,), np.float32)
    whole[:] = 1
    x, out = whole[:-1], whole[1:]
    values = [1.0, x.ctypes.data, n, x.ctypes.data, n, out.ctypes.data, n]
    base = _unmapped(axpy, _AXPY, 1)
    promises = promises_of(passed_arrays(base.layout.arrays, values), (n,), written={3})
    assert not promises.is_disjoint
    mapping = ElementMapping((items, 1, 1), items)
    _mapped(base, mapping, promises).run(mapping.blocks((n,), (32, 1, 1)), (32, 1, 1), [*values, n])
    expected = np.ones(n + 1, np.float32)
    for i in range(n):  # as the threads run here: one after the other
        expected[i + 1] = expected[i] + expected[i]
    np.testing.assert_array_equal(whole, expected)


def test_rows_of_a_larger_matrix_are_read_together() -> None:
    def scale(x, out):
        i, j = kd.grid(2)
        if i < out.shape[0] and j < out.shape[1]:
            out[i, j] = x[i, j] * 2

    rows, columns = 13, 21
    pitched, out = _array((rows, 32), np.float32), _array((rows, 32), np.float32)
    pitched[:] = np.random.default_rng(3).integers(0, 9, pitched.shape)
    x, view = pitched[:, :columns], out[:, :columns]
    values = []
    for each in (x, view):
        values += [each.ctypes.data, rows, columns, *each.strides]
    base = specialize(scale, "float32[:, :], float32[:, :]", LaunchMode(2))
    promises = promises_of(passed_arrays(base.layout.arrays, values), (rows, columns), written={1})
    assert {(each.alignment, each.unit_axis, each.is_extent) for each in promises.arrays} == {
        (16, 1, True)
    }
    mapping = ElementMapping((4, 2, 1), 4)
    _mapped(base, mapping, promises).run(
        mapping.blocks((rows, columns), (4, 3, 1)), (4, 3, 1), [*values, rows, columns]
    )
    np.testing.assert_array_equal(view, x * 2)
    assert not out[:, columns:].any()


def window(start, out):
    i = kd.grid(1)
    place = i - start
    if place >= 0 and place < out.size:
        out[place] += 1


@pytest.mark.parametrize(
    "extent", [NARROW_THREADS - 3, NARROW_THREADS + 1, 2**31 - 3, 2**31 + 77, 2**33 + 5, 2**40 - 1]
)
@pytest.mark.parametrize(
    "mapping", [ElementMapping((4, 1, 1), 4), ElementMapping((8, 1, 1))], ids=str
)
def test_the_end_of_a_long_extent(mapping: ElementMapping, extent: int) -> None:
    block = (256, 1, 1)
    grid = mapping.blocks((extent,), block)
    out = _array((4096,), np.int32)
    start = extent - 4000
    values = [start, out.ctypes.data, out.size]
    base = _unmapped(window, "int64, int32[::1]", 1)
    promises = promises_of(passed_arrays(base.layout.arrays, values), (extent,), written={1})
    assert promises.is_narrow == (extent <= NARROW_THREADS)
    _mapped(base, mapping, promises).run(
        grid, block, [*values, extent], blocks=(grid[0] - 5, grid[0])
    )
    np.testing.assert_array_equal(out, np.arange(out.size) < 4000)


def between(low, high, out):
    i = kd.grid(1)
    if low <= i and i < high:
        out[i] += 1 + i


def returns(low, high, out):
    i = kd.grid(1)
    if i < low:
        return
    if not i < high:
        return
    out[i] += 1 + i


def band(low, high, out):
    i, j = kd.grid(2)
    difference = j - i
    if low <= difference < high:  # noqa: SIM102 - as people write it
        if i + j > low:
            out[i, j] += 1 + i + out.shape[0] * (j + out.shape[1])


def odd(low, high, out):
    i = kd.grid(1)
    if i % 2 == 1 and low <= i < high:
        out[i] += 1 + i


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_guards_hold_for_each_index(data: st.DataObject) -> None:
    kernel, ndim = data.draw(st.sampled_from([(between, 1), (returns, 1), (band, 2), (odd, 1)]))
    extent = tuple(data.draw(st.integers(1, {1: 300, 2: 40}[ndim])) for _ in range(ndim))
    mapping = data.draw(_mappings(ndim))
    low, high = (data.draw(st.integers(-5, max(extent) + 5)) for _ in range(2))
    out = _array(extent, np.int64)
    signature = f"int64, int64, int64[{', '.join([*[':'] * (ndim - 1), '::1'])}]"
    values = [low, high, out.ctypes.data, *extent]
    base = _unmapped(kernel, signature, ndim)
    promises = promises_of(passed_arrays(base.layout.arrays, values), extent, written={2})
    block = (8, 1, 1)
    grid = mapping.blocks(extent, block)
    _mapped(base, mapping, promises).run(grid, block, [*values, *extent])
    index = np.indices(extent)
    if kernel is band:
        difference = index[1] - index[0]
        passes = (low <= difference) & (difference < high) & (index.sum(axis=0) > low)
    else:
        passes = (low <= index[0]) & (index[0] < high)
    if kernel is odd:
        passes &= index[0] % 2 == 1
    np.testing.assert_array_equal(out, np.where(passes, _expected(extent, extent), 0))


def laplace(u, out):
    i, j = kd.grid(2)
    if 0 < i < out.shape[0] - 1 and 0 < j < out.shape[1] - 1:
        out[i, j] = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4 * u[i, j]


@pytest.mark.parametrize(
    "mapping",
    [ElementMapping((4, 1, 1), 4), ElementMapping((4, 2, 1), 4), ElementMapping((1, 4, 1))],
    ids=str,
)
@pytest.mark.parametrize("shape", [(3, 3), (2, 9), (1, 1), (17, 64), (9, 61)])
def test_the_inside_of_a_grid(mapping: ElementMapping, shape: tuple[int, int]) -> None:
    u, out = _array(shape, np.float64), _array(shape, np.float64)
    u[:] = np.random.default_rng(5).integers(0, 99, shape)
    values = [u.ctypes.data, *shape, out.ctypes.data, *shape]
    base = _unmapped(laplace, "float64[:, ::1], float64[:, ::1]", 2)
    promises = promises_of(passed_arrays(base.layout.arrays, values), shape, written={1})
    block = (4, 2, 1)
    _mapped(base, mapping, promises).run(mapping.blocks(shape, block), block, [*values, *shape])
    expected = np.zeros(shape)
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    expected[1:-1, 1:-1] = around - 4 * u[1:-1, 1:-1]
    np.testing.assert_array_equal(out, expected)
