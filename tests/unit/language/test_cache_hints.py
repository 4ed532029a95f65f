"""Accesses with hints for caches are checked, and seen by analyses, as any other access."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.frontend.effects.effects import written_parameters
from kerneldsl.frontend.normalize import make_unit


def shifted(x, out, distance):
    i = kd.grid(1)
    if i < out.size:
        kd.store(out, i, kd.load(x, i + distance, "streaming"), "streaming")


def test_what_is_written_is_known() -> None:
    assert written_parameters(make_unit(shifted)) == {1}


@pytest.mark.parametrize("distance", [0, 3, -2])
def test_an_index_is_checked_in_debug_mode(distance: int) -> None:
    x, out = np.arange(40.0), np.full(37, np.nan)
    kernel = kd.kernel(debug=True)(shifted)
    with kd.use("cpu"):
        kernel.forall(37)(x, out, distance)
        np.testing.assert_array_equal(out, x[(np.arange(37) + distance) % 40])
        with pytest.raises(IndexError, match="Index 40"):
            kernel.forall(37)(x, out, 4)


def test_a_read_only_array_is_read_and_not_written() -> None:
    x = np.arange(8.0)
    x.flags.writeable = False
    kernel = kd.kernel(shifted)
    with kd.use("cpu"):
        out = np.empty(8)
        kernel.forall(8)(x, out, 0)
        np.testing.assert_array_equal(out, x)
        with pytest.raises(ValueError, match="read-only"):
            kernel.forall(8)(out, x, 0)


def test_the_index_of_a_store_is_computed_before_its_value() -> None:
    @kd.kernel
    def kernel(count, out):  # type: ignore[no-untyped-def]
        kd.store(out, kd.atomic.add(count, 0, 1), kd.atomic.add(count, 0, 1))

    count, out = np.zeros(1, np.int32), np.full(2, -1)
    with kd.use("cpu"):
        kernel[1, 1](count, out)
    assert (count.tolist(), out.tolist()) == ([2], [1, -1])
