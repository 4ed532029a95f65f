"""Atomic operations on small arrays are gathered by each worker, and nobody can tell.

In debug mode every operation is performed at once: that is the oracle. Floats that are added are
small whole numbers and halves, whose sums are exact in any order.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from tests.support.extent import examples, full_beyond

f32, i32 = np.float32, np.int32
GATHERS = "gathers=True"
#: The last one has more elements than a worker copies.
EXTENTS = (1, 2, 7, 64, 1024, 1025)


def adds(x, places, out):
    i = kd.grid(1)
    if i < x.size:
        kd.atomic.add(out, places[i], x[i])


def largest(x, places, out):
    i = kd.grid(1)
    if i < x.size:
        kd.atomic.max(out, places[i], x[i])


def smallest(x, places, out):
    i = kd.grid(1)
    if i < x.size:
        kd.atomic.min(out, places[i], x[i])


def ands(x, places, out):
    i = kd.grid(1)
    if i < x.size:
        kd.atomic.and_(out, places[i], x[i])


def ors(x, places, out):
    i = kd.grid(1)
    if i < x.size:
        kd.atomic.or_(out, places[i], x[i])


def xors(x, places, out):
    i = kd.grid(1)
    if i < x.size:
        kd.atomic.xor(out, places[i], x[i])


def adds_behind_a_barrier(x, places, out):
    """Fold in shared memory first; threads of different blocks meet in the same elements."""
    i, t = kd.grid(1), kd.threadIdx.x
    part = kd.shared.array(32, np.float64)
    part[t] = 0
    kd.syncthreads()
    if i < x.size:
        part[t] = x[i]
    kd.syncthreads()
    if t % 2 == 0 and i < x.size:
        both = part[t] + part[t + 1] if t + 1 < kd.blockDim.x else part[t]
        for k in range(2):
            kd.atomic.add(out, places[i] // (k + 1), both)


def pair(function):
    """Return a kernel, and the same with every operation at once."""
    return kd.kernel(function), kd.kernel(debug=True)(function)


FLOATS, BITS = (adds, largest, smallest), (ands, ors, xors)
PAIRS = {f.__name__: pair(f) for f in (*FLOATS, *BITS, adds_behind_a_barrier)}
DTYPES = {
    **{f.__name__: ("float32", "float64", "int32", "uint64") for f in FLOATS},
    **{f.__name__: ("int32", "uint32", "int64") for f in BITS},
    "adds_behind_a_barrier": ("float32", "float64"),
}


def source_of(function, *arguments, **options) -> str:
    with kd.use("cpu"):
        return kd.kernel(**options)(function).cpu_source(*arguments, block=32)


@pytest.mark.parametrize("name", PAIRS)
@settings(max_examples=examples(40, 2), deadline=None)
@given(data=st.data())
def test_results_are_those_of_operations_at_once(name: str, data) -> None:
    dtype = np.dtype(data.draw(st.sampled_from(DTYPES[name])))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    count, extent = (
        data.draw(st.sampled_from([1, 31, 33, 500, 3000])),
        data.draw(st.sampled_from(EXTENTS)),
    )
    halves = 0.5 if dtype.kind == "f" else 1
    low = 0 if dtype.kind == "u" else -40
    x = (rng.integers(low, 40, count) * halves).astype(dtype)
    out = (rng.integers(low, 40, 2 * extent) * halves).astype(dtype)
    if dtype.kind == "f" and name != "adds_behind_a_barrier":
        specials = np.array([np.nan, -0.0, 0.0, np.inf], dtype)
        x[rng.integers(count)] = specials[rng.integers(4)]
        out[rng.integers(2 * extent, size=extent)] = specials[rng.integers(4)]
    lowest = 0 if name == "adds_behind_a_barrier" else -extent
    places = rng.integers(lowest, extent, count)
    expected = out.copy()
    turn = data.draw(st.sampled_from([slice(None, extent), slice(None, None, 2)]))
    back = data.draw(st.sampled_from([1, -1]))
    kernel, at_once = PAIRS[name]
    grid = -(-count // 32)
    with kd.use("cpu"):
        kernel[grid, 32](x, places, out[turn][::back])
        at_once[grid, 32](x, places, expected[turn][::back])
    if dtype.kind == "f":  # an operation gives any NaN, and of zeros alike either is the larger
        np.testing.assert_array_equal(out, expected)
        if name == "adds":
            found = ~np.isnan(out)
            np.testing.assert_array_equal(np.signbit(out[found]), np.signbit(expected[found]))
    else:
        np.testing.assert_array_equal(out, expected)


def test_gathering_is_for_what_the_kernel_does_not_look_at() -> None:
    x, places, out = np.zeros(4, f32), np.zeros(4, np.int64), np.zeros(4, f32)

    def reads(x, places, out):
        i = kd.grid(1)
        kd.atomic.add(out, places[i], x[i] + out[0])

    def asks(x, places, out):
        i = kd.grid(1)
        x[i] = kd.atomic.add(out, places[i], f32(1))

    def two_kinds(x, places, out):
        i = kd.grid(1)
        kd.atomic.add(out, places[i], x[i])
        kd.atomic.max(out, places[i], x[i])

    def orders(x, places, out):
        i = kd.grid(1)
        kd.atomic.add(out, places[i], x[i])
        kd.threadfence()
        x[i] = 0

    @kd.func
    def looks(array):
        return array[0]

    def passes(x, places, out):
        i = kd.grid(1)
        kd.atomic.add(out, places[i], looks(out))

    def shape_alone(x, places, out):
        i = kd.grid(1)
        kd.atomic.add(out, i % out.size, x[i] * out.shape[0])

    for function in (reads, asks, two_kinds, orders, passes):
        assert GATHERS not in source_of(function, x, places, out)
    for function in (shape_alone, adds):
        assert GATHERS in source_of(function, x, places, out)
    assert GATHERS not in source_of(adds, x, places, out, debug=True)


def test_arrays_that_share_memory_are_updated_at_once() -> None:
    @kd.kernel
    def counts_and_reads(x, out, seen):
        i = kd.grid(1)
        kd.atomic.add(out, 0, 1)
        seen[i] = x[0]

    memory, seen = np.zeros(1, i32), np.full(64, -1, i32)
    with kd.use("cpu"):
        counts_and_reads[1, 64](memory, memory, seen)
    assert memory[0] == 64
    np.testing.assert_array_equal(np.sort(seen), np.arange(1, 65))


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 4), (0, 3), (40, 40)])
@pytest.mark.parametrize("order", full_beyond(["C", "F"], ["F"]))
def test_copies_have_the_shape_of_the_array(shape: tuple[int, ...], order: str) -> None:
    two, three = (kd.kernel(each) for each in (_adds_to_two_axes, _adds_to_three_axes))
    out = np.asarray(np.arange(np.prod(shape)).reshape(shape), np.int64, order=order)
    expected = out + 0
    count = 300 if out.size else 0
    rng = np.random.default_rng()
    at = tuple(rng.integers(0, max(extent, 1), count) for extent in shape)
    np.add.at(expected, at, 3)
    with kd.use("cpu"):
        if len(shape) == 2:
            two.forall(count)(*at, out)
        else:
            three.forall(count)(*at, out)
    np.testing.assert_array_equal(out, expected)


def _adds_to_two_axes(rows, columns, out):
    i = kd.grid(1)
    if i < rows.size:
        kd.atomic.add(out, (rows[i], columns[i]), 3)


def _adds_to_three_axes(planes, rows, columns, out):
    i = kd.grid(1)
    if i < rows.size:
        kd.atomic.add(out, (planes[i], rows[i], columns[i]), 3)


def test_untouched_elements_stay_as_they_are() -> None:
    kernel = kd.kernel(adds)
    out = np.array([-0.0, np.nan, 5, -0.0, -0.0], f32)
    payload = np.array([0x7F800123], np.uint32).view(f32)  # a signalling NaN
    out[1:2] = payload
    x, places = np.array([-0.0, 0.0], f32), np.array([3, 4])
    with kd.use("cpu"):
        kernel[1, 32](x, places, out)
    assert out.view(np.uint32)[1] == 0x7F800123
    np.testing.assert_array_equal(np.signbit(out[[0, 3, 4]]), [True, True, False])
