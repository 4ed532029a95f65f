"""Threads wait around operations on tiles if memory may be met again, and not elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract import NO_PROMISES, Promises
from targets.cuda.compile.tiles.order import order_tiles
from tests.ptx import test_tile_order as kernels
from tests.ptx.helpers import specialize
from tests.support.device_threads import simulate_device
from tests.support.regions.reading import before_passes

_TWO, _ROWS = kernels.TWO, kernels.ROWS
_APART, _SAME = kernels.APART, kernels.SAME


def exchanged(x: Any, y: Any) -> None:
    y[kd.blockDim.x - 1 - kd.threadIdx.x] = x[kd.threadIdx.x]
    t = kd.tile.of(y[kd.threadIdx.x])
    kd.tile.store(x, 0, t)


def _waits(
    function: Callable[..., Any], signature: str, promises: Promises
) -> tuple[list[str], int]:
    """Return the names of tile operations, with a mark where threads wait."""
    specialization = specialize(function, signature, block=(128, 1, 1), promises=promises)
    read = before_passes(specialization)
    order_tiles(read, specialization.kinds, promises)
    names = [each.name for each in read.body.walk() if each.name.startswith("tile.")]
    between = sum("waits" in each.attributes for each in read.body.walk())
    return [name.removeprefix("tile.") for name in names], between


@pytest.mark.parametrize(
    ("function", "apart", "maybe"),
    [
        (kernels.shifted, 0, 2),
        (kernels.weighted, 0, 3),
        (kernels.scaled_itself, 1, 1),
        (kernels.with_thread_code, 0, 2),
    ],
)
def test_arguments_that_may_be_one_are_taken_for_it(
    function: Callable[..., Any], apart: int, maybe: int
) -> None:
    for promises, expected in ((_APART, apart), (_SAME, maybe), (NO_PROMISES, maybe)):
        names, between = _waits(function, _TWO, promises)
        assert names.count("wait") + between == expected


def test_a_function_reads_all_before_a_store_writes() -> None:
    assert _waits(kernels.scaled_itself, _TWO, _APART) == (["store"], 1)


def test_iterations_wait_if_they_may_write_a_part_again() -> None:
    assert "wait" not in _waits(kernels.rows, _ROWS, _APART)[0]
    assert "wait" in _waits(kernels.smeared, _TWO, _APART)[0]


def test_what_is_published_by_a_fence_is_written_by_all_threads() -> None:
    assert _waits(kernels.published, _TWO, _APART) == (["wait", "store", "wait"], 0)


def test_threads_wait_before_they_read_what_others_gave() -> None:
    assert _waits(exchanged, _TWO, _APART)[0] == ["wait", "of", "wait", "wait", "store", "wait"]
    specialization = specialize(exchanged, _TWO, block=(128, 1, 1), promises=_APART)
    for is_reversed in (False, True):
        x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
        simulate_device(specialization, (1,), (x, y), is_reversed=is_reversed)
        np.testing.assert_array_equal(x, np.arange(128)[::-1])


def test_one_kernel_is_read_for_each_way_of_overlapping() -> None:
    one = specialize(kernels.shifted, _TWO, block=(128, 1, 1), promises=_APART)
    for promises, expected in ((_APART, 0), (_SAME, 2), (_APART, 0)):
        read = before_passes(replace(one, promises=promises))
        order_tiles(read, one.kinds, promises)
        assert sum(each.name == "tile.wait" for each in read.body.walk()) == expected
