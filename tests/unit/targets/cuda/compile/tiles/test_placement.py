"""Which tiles share memory: those that are not alive at the same time."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.ir.tiles.handing_on import drop_casts, drop_unread, hand_on_by_copies
from kerneldsl.ir.tiles.placement import Place, Placement
from tests.ptx.helpers import specialize
from tests.support.device_threads import simulate_device
from tests.support.regions.reading import before_passes

_BLOCK = (32, 1, 1)


def accumulated(x: Any, out: Any) -> None:
    t = kd.tile.zeros((8, 16), kd.float64)
    for i in range(3):
        t = t + kd.tile.load(x, (i, 0), (8, 16))
    kd.tile.store(out, (0, 0), t)


def swapped(x: Any, out: Any) -> None:
    a = kd.tile.load(x, (0, 0), (8, 16))
    b = kd.tile.load(x, (1, 0), (8, 16))
    for _ in range(3):
        a, b = b + 1, a
    kd.tile.store(out, (0, 0), a * 2 + b)


def turned(x: Any, out: Any) -> None:
    t = kd.tile.load(x, (0, 0), (8, 8))
    for _ in range(3):
        t = t.T + 1
    kd.tile.store(out, (0, 0), t.T)


def turned_in_turn(x: Any, out: Any) -> None:
    t = kd.tile.load(x, (0, 0), (8, 8))
    t = t.T + 1
    t = t.T * 2
    t = t.T - 3
    kd.tile.store(out, (0, 0), t)


def chosen(x: Any, out: Any) -> None:
    t = kd.tile.load(x, (0, 0), (8, 16))
    s = t + 5
    for i in range(4):
        if i == 2:
            continue
        if i % 2:
            t = t - t.mean(axis=0)
        else:
            s, t = t * 2, s
        if i == 3:
            break
    kd.tile.store(out, (0, 0), t + s)


def branched(x: Any, out: Any) -> None:
    t = kd.tile.load(x, (0, 0), (8, 16))
    for i in range(5):
        if i % 2:
            t = t + 1
        elif i:
            s = t * 2
            if i == 2:
                s = s - t
            t = s - 7
        if i == 3:
            t = t * 3
    kd.tile.store(out, (0, 0), t)


def _expected(kernel: Any, x: np.ndarray) -> Any:
    """Return what a kernel stores, by NumPy."""

    def load(row: int, columns: int = 16) -> Any:
        return x[row : row + 8, :columns].astype(np.float64)

    if kernel is accumulated:
        return sum((load(i) for i in range(3)), np.zeros((8, 16), np.float64))
    if kernel is swapped:
        a, b = load(0), load(1)
        for _ in range(3):
            a, b = b + 1, a
        return a * 2 + b
    if kernel is turned:
        t = load(0, 8)
        for _ in range(3):
            t = t.T + 1
        return t.T
    if kernel is turned_in_turn:
        return ((load(0, 8).T + 1).T * 2).T - 3
    t = load(0)
    if kernel is branched:
        return ((t + 1 - 7 + 1) * 3) * 2 - 7
    s = t + 5
    for i in range(4):
        if i == 2:
            continue
        if i % 2:
            t = t - t.mean(axis=0, keepdims=True)
        else:
            s, t = t * 2, s
    return t + s


_KERNELS = (accumulated, swapped, turned, turned_in_turn, chosen, branched)


@pytest.mark.parametrize("kernel", _KERNELS)
@pytest.mark.parametrize("threads", [7, 32, 40])
def test_tiles_keep_their_elements(kernel: Any, threads: int) -> None:
    x = np.random.default_rng(1).integers(-8, 9, (16, 16)).astype(np.float64)
    expected = _expected(kernel, x)
    specialization = specialize(kernel, "float64[:, ::1], float64[:, ::1]", block=(threads, 1, 1))
    for is_reversed in (False, True):
        out = np.full(expected.shape, np.nan, np.float64)
        simulate_device(specialization, (1,), (x, out), is_reversed=is_reversed)
        np.testing.assert_array_equal(out, expected)


def _places(kernel: Any) -> tuple[list[Place], int]:
    """Return the places of a kernel's tiles, and how many copies hand them on."""
    specialization = specialize(kernel, "float64[:, ::1], float64[:, ::1]", block=_BLOCK)
    function = before_passes(specialization)
    drop_casts(function)
    drop_unread(function)
    placement = Placement(function, 32)
    values = [
        value
        for each in function.body.walk()
        for value in each.results
        if each.name.startswith("tile.") and hasattr(value.type, "shape")
    ]
    places = {placement[value] for value in values}
    hand_on_by_copies(function, placement)
    copies = sum(each.name == "tile.copy" for each in function.body.walk())
    return sorted(places, key=lambda place: place.number), copies


def test_a_sum_stays_in_its_registers() -> None:
    places, copies = _places(accumulated)
    assert len(places) == 2  # the sum and what is added
    assert copies == 0


def test_tiles_that_are_exchanged_are_copied() -> None:
    _, copies = _places(swapped)
    assert copies == 1


def test_a_branch_writes_what_the_other_one_hands_on() -> None:
    places, copies = _places(branched)
    assert len(places) == 2  # one of them for what the second branch computes from the other
    assert copies == 0


def test_shared_memory_is_used_again() -> None:
    places, _ = _places(turned_in_turn)
    shared = [place for place in places if place.is_shared]
    assert len(shared) == 2  # one is read while the other one is written
    assert all(place.columns == 8 for place in shared)


def test_places_are_of_one_shape_and_dtype() -> None:
    for kernel in _KERNELS:
        for one, two in itertools.combinations(_places(kernel)[0], 2):
            assert one.number != two.number
