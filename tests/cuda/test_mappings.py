"""Mapped element kernels on a device: every mapping, tail and alignment, against NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.analysis.analyze import analyze
from kerneldsl.contract import (
    NO_PROMISES,
    ONE_EACH,
    CompileOptions,
    Dim3,
    ElementMapping,
    Executable,
    LaunchConfig,
    Promises,
    Specialization,
)
from kerneldsl.contract.abi import LaunchMode
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.language.kinds import Kind
from kerneldsl.launch.arguments.arguments import bind
from kerneldsl.launch.arguments.binding import kinds_of
from kerneldsl.launch.arguments.checked_promises import promises_of


def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


def increment(x):
    i = kd.grid(1)
    if i < x.size:
        x[i] = x[i] + 1


def mark1(out):
    i = kd.grid(1)
    out[i] += 1 + i


def mark2(out):
    i, j = kd.grid(2)
    out[i, j] += 1 + i + 1000 * j


def mark3(out):
    i, j, k = kd.grid(3)
    out[i, j, k] += 1 + i + 1000 * (j + 1000 * k)


@cache
def _base(kernel: Any, kinds: tuple[Kind, ...], ndim: int) -> Specialization:
    unit = make_unit(kernel)
    options = CompileOptions(launch_bounds=(1024,))  # as many registers as leave room for any block
    return Specialization(unit, analyze(unit), kinds, mode=LaunchMode(ndim), options=options)


@cache
def _loaded(base: Specialization, mapping: ElementMapping, promises: Promises) -> Executable:
    from kerneldsl.placement.registry import get_target

    device = get_target("cuda").devices()[0]
    specialization = replace(base, mapping=mapping, promises=promises, arch=device.arch)
    return device.load(device.compiler.compile(specialization))


def _launch(
    kernel: Any,
    arguments: Sequence[Any],
    extent: tuple[int, ...],
    mapping: ElementMapping,
    block: Dim3,
    *,
    is_promised: bool = True,
    most_blocks: int | None = None,
) -> Promises:
    """Launch for a mapping, with all that can be promised or nothing; returns the promises."""
    names = tuple(make_unit(kernel).parameters)
    binding = bind(names, tuple(arguments))
    base = _base(kernel, kinds_of(binding.codes), len(extent))
    promises = NO_PROMISES
    if is_promised:
        promises = promises_of(binding.passed_arrays(), extent, written=base.traits.written)
    executable = _loaded(base, mapping, promises)
    x, y, z = mapping.blocks(extent, block)
    if most_blocks is not None:
        x, y, z = (
            min(n, most_blocks) if axis in mapping.grid_stride else n
            for axis, n in zip("xyz", (x, y, z), strict=True)
        )
    parameters = base.layout.packer.pack(*binding.values, *extent)
    executable.launch(LaunchConfig((x, y, z), block, extent), parameters)
    return promises


_EVERY_1D = [
    ElementMapping((items, 1, 1), vector, order)
    for items in (1, 2, 4, 8, 16)
    for vector in (1, 2, 4, 8, 16)
    for order in ("strided", "contiguous")
    if items % vector == 0 and (order == "strided" or items > vector)
]


_WIDEST = [
    pytest.param(ElementMapping((items, 1, 1), items), dtype, id=dtype)
    for dtype, items in (("int8", 16), ("bool", 16), ("int16", 8), ("float64", 2), ("complex64", 2))
]


@pytest.mark.parametrize(
    ("mapping", "dtype"), [*((each, "float32") for each in _EVERY_1D), *_WIDEST], ids=str
)
def test_every_tail_of_every_mapping(mapping: ElementMapping, dtype: str) -> None:
    kernel = _copy if dtype == "bool" else axpy
    (tile, _, _) = mapping.tile((64, 1, 1))
    rng = np.random.default_rng()
    scalar = np.dtype(dtype).type(2)
    for n in (1, mapping.item_count + 1, tile - 1, tile, tile + 1, 5 * tile + 3):
        x, y = (rng.integers(0, 2 if dtype == "bool" else 5, n).astype(dtype) for _ in range(2))
        whole = kd.full(n + 16, scalar)
        out = whole[:n]
        inputs = [kd.to_device(x)] if dtype == "bool" else [scalar, *map(kd.to_device, (x, y))]
        promises = _launch(kernel, [*inputs, out], (n,), mapping, (64, 1, 1))
        assert promises.is_disjoint
        found = whole.copy_to_host()
        np.testing.assert_array_equal(found[:n], x if dtype == "bool" else scalar * x + y)
        np.testing.assert_array_equal(found[n:], np.full(16, scalar))


def _copy(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i]


@st.composite
def _launches(draw: st.DrawFn) -> tuple[Any, ...]:
    ndim = draw(st.integers(1, 3))
    extent = tuple(draw(st.integers(1, {1: 100_000, 2: 400, 3: 60}[ndim])) for _ in range(ndim))
    items = [draw(st.sampled_from([1, 2, 4, 8, 16])), 1, 1]
    for axis in range(1, ndim):
        items[axis] = draw(st.sampled_from([1, 2, 4]))
    while math.prod(items) > 64:
        items[items.index(max(items))] //= 2
    vector = draw(st.sampled_from([v for v in (1, 2, 4, 8, 16) if items[0] % v == 0]))
    mapping = ElementMapping(
        (items[0], items[1], items[2]),
        vector,
        draw(st.sampled_from(["strided", "contiguous"])),
        draw(st.none() | st.permutations(range(ndim)).map(tuple)),
        draw(st.sampled_from(["", "yz", "xyz"])),
    )
    block = [draw(st.sampled_from([1, 32, 100, 256])), 1, 1]
    for axis in range(1, ndim):
        block[axis] = draw(st.sampled_from([1, 2]))
    return extent, mapping, tuple(block), draw(st.booleans()), draw(st.integers(1, 9))


@settings(max_examples=60, deadline=None)
@given(_launches())
def test_each_index_is_run_once(launch: tuple[Any, ...]) -> None:
    extent, mapping, block, is_promised, most_blocks = launch
    out = kd.zeros(extent, np.int64)
    kernel = {1: mark1, 2: mark2, 3: mark3}[len(extent)]
    _launch(kernel, [out], extent, mapping, block, is_promised=is_promised, most_blocks=most_blocks)
    indices = np.indices(extent, dtype=np.int64)
    factors = (1, 1000, 1_000_000)
    expected = 1 + sum(f * i for f, i in zip(factors, indices, strict=False))
    np.testing.assert_array_equal(out.copy_to_host(), expected)


@pytest.mark.parametrize(
    "mapping", [ElementMapping((4, 1, 1), 4), ElementMapping((8, 1, 1), 4)], ids=str
)
@pytest.mark.parametrize("offset", [0, 1, 2, 3, 4])
def test_arrays_that_begin_anywhere(mapping: ElementMapping, offset: int) -> None:
    n = 100_003
    rng = np.random.default_rng()
    x, y = (rng.standard_normal(n + 8).astype(np.float32) for _ in range(2))
    on_device = [kd.to_device(each)[offset : offset + n] for each in (x, y)]
    out = kd.zeros(n + 8, np.float32)
    promises = _launch(
        axpy,
        [np.float32(1), *on_device, out[offset : offset + n]],
        (n,),
        mapping,
        (256, 1, 1),
    )
    assert promises.array(0).alignment == {0: 16, 1: 4, 2: 8, 3: 4, 4: 16}[offset]
    found = out.copy_to_host()
    here = slice(offset, offset + n)
    np.testing.assert_array_equal(found[here], x[here] + y[here])
    assert not found[:offset].any()
    assert not found[offset + n :].any()


@pytest.mark.parametrize("is_promised", [True, False])
@pytest.mark.parametrize("offset", [0, 1])
def test_in_place(offset: int, is_promised: bool) -> None:
    n = 70_001
    x = np.random.default_rng().integers(0, 100, n + 1).astype(np.float32)
    whole = kd.to_device(x)
    view = whole[offset : offset + n]
    mapping = ElementMapping((8, 1, 1), 4)
    _launch(increment, [view], (n,), mapping, (128, 1, 1), is_promised=is_promised)
    _launch(axpy, [np.float32(1), view, view, view], (n,), mapping, (128, 1, 1))
    x[offset : offset + n] = 2 * (x[offset : offset + n] + 1)
    np.testing.assert_array_equal(whole.copy_to_host(), x)


def test_views_that_overlap_where_nothing_is_written_twice() -> None:
    """Halves of one array, and a broadcast and a reversed view of it."""
    n = 4096
    x = np.random.default_rng().standard_normal(2 * n).astype(np.float32)
    whole = kd.to_device(x)
    mapping = ElementMapping((4, 1, 1), 4)
    promises = _launch(
        axpy, [np.float32(0), whole[:n], whole[:n][::-1], whole[n:]], (n,), mapping, (64, 1, 1)
    )
    assert promises.is_disjoint
    assert promises.array(1).unit_axis is None
    np.testing.assert_array_equal(whole.copy_to_host()[n:], x[:n] * np.float32(0) + x[:n][::-1])
    touching = _launch(
        axpy,
        [np.float32(0), whole[:n], whole[:n], whole[n - 1 : 2 * n - 1]],
        (n,),
        mapping,
        (64, 1, 1),
    )
    assert not touching.is_disjoint


@pytest.mark.parametrize("order", ["C", "F"])
def test_matrices_of_both_orders(order: Any) -> None:
    def scale(x, out):
        i, j = kd.grid(2)
        if i < out.shape[0] and j < out.shape[1]:
            out[i, j] = x[i, j] * 2

    x = np.random.default_rng().standard_normal((131, 204)).astype(np.float32, order=order)
    axes = None if order == "C" else (0, 1)
    for mapping in (ElementMapping((4, 2, 1), 4, axes=axes), ElementMapping((2, 4, 1), 1)):
        out = kd.empty(x.shape, np.float32, order=order)
        _launch(scale, [kd.to_device(x), out], x.shape, mapping, (32, 4, 1))
        np.testing.assert_array_equal(out.copy_to_host(), x * 2)


def test_more_than_two_to_the_31_indices() -> None:
    def sparse(start, out):
        i = kd.grid(1)
        if i >= start:
            out[i - start] += 1

    extent = 2**31 + 1_000_003
    out = kd.zeros(1000, np.int32)
    for mapping in (ElementMapping((16, 1, 1), 16), ElementMapping((16, 1, 1), grid_stride="x")):
        out.fill(0)
        _launch(sparse, [extent - 1000, out], (extent,), mapping, (512, 1, 1), most_blocks=5000)
        assert (out.copy_to_host() == 1).all()


def test_one_element_a_thread_with_promises() -> None:
    n = 1001
    x, y = (np.random.default_rng().standard_normal(n).astype(np.float32) for _ in range(2))
    out = kd.empty(n, np.float32)
    _launch(
        axpy, [np.float32(1), kd.to_device(x), kd.to_device(y), out], (n,), ONE_EACH, (256, 1, 1)
    )
    np.testing.assert_array_equal(out.copy_to_host(), x + y)


# ------------------------------------------------------- as the planner decides


@kd.kernel
def planned_axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@kd.kernel
def planned_laplace(u, out):
    i, j = kd.grid(2)
    if 0 < i < out.shape[0] - 1 and 0 < j < out.shape[1] - 1:
        out[i, j] = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4 * u[i, j]


@kd.kernel
def planned_scale(x, out):
    i, j, k = kd.grid(3)
    out[i, j, k] = 2 * x[i, j, k]


@pytest.mark.parametrize("n", [1, 1000, 100_003, (1 << 22) + 5])
def test_planned_vectors_of_every_kind(n: int) -> None:
    rng = np.random.default_rng()
    x, y = (rng.integers(0, 100, 2 * n + 3).astype(np.float32) for _ in range(2))
    for cut in (slice(0, n), slice(1, n + 1), slice(3, n + 3), slice(0, 2 * n, 2), slice(n, 0, -1)):
        on_device = [kd.to_device(each) for each in (x, y)]
        out = kd.zeros(2 * n + 3, np.float32)
        planned_axpy.forall(n)(np.float32(2), *(each[cut] for each in on_device), out[cut])
        wanted = np.zeros_like(x)
        wanted[cut] = 2 * x[cut] + y[cut]
        np.testing.assert_array_equal(out.copy_to_host(), wanted)
        planned_axpy.forall(n)(np.float32(2), on_device[0][cut], out[cut], out[cut])
        wanted[cut] += 2 * x[cut]
        np.testing.assert_array_equal(out.copy_to_host(), wanted)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 700), (700, 3), (513, 1027), (1024, 2048)])
def test_planned_stencils(shape: tuple[int, int], order: Any) -> None:
    u = np.asarray(np.random.default_rng().integers(0, 99, shape), np.float32, order=order)
    out = kd.zeros(shape, np.float32, order=order)
    planned_laplace.forall(*shape)(kd.to_device(u), out)
    wanted = np.zeros(shape, np.float32)
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    wanted[1:-1, 1:-1] = around - 4 * u[1:-1, 1:-1]
    np.testing.assert_array_equal(out.copy_to_host(), wanted)


@pytest.mark.parametrize("order", ["C", "F"])
def test_planned_volumes(order: Any) -> None:
    for shape in ((7, 5, 301), (301, 5, 7), (64, 64, 64)):
        x = np.asarray(np.random.default_rng().integers(0, 99, shape), np.float64, order=order)
        out = kd.empty(shape, np.float64, order=order)
        planned_scale.forall(*shape)(kd.to_device(x), out)
        np.testing.assert_array_equal(out.copy_to_host(), 2 * x)
