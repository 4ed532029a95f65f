"""Stores whose function reads an array that overlaps, or does not, with what is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from tests.support.extent import examples

_COUNT = 24


def _with_mirrored(value: Any, i: Any, others: Any, last: Any) -> Any:
    return value + others[max(last - i, 0)]


@kd.kernel
def one_axis(x, others, out):  # type: ignore[no-untyped-def]
    t = kd.tile.load(x, 0, _COUNT)
    kd.tile.store(out, 0, t, _with_mirrored, others, others.shape[0] - 1)


def _of_columns(value: Any, i: Any, j: Any, others: Any) -> Any:
    return value + others[j, i]


@kd.kernel
def two_axes(x, others, out):  # type: ignore[no-untyped-def]
    t = kd.tile.load(x, (0, 0), (4, 4))
    kd.tile.store(out, (0, 0), t, _of_columns, others)


@kd.kernel
def of_another_name(x, others, out):  # type: ignore[no-untyped-def]
    t = kd.tile.load(x, 0, _COUNT)
    read = others[1:]
    kd.tile.store(out, 0, t, _with_mirrored, read, read.shape[0] - 1)


_steps = st.sampled_from([-3, -2, -1, 1, 2, 3])


def _view(memory: np.ndarray, first: int, step: int) -> np.ndarray:
    """Return `_COUNT` elements from the first on, wherever it lies."""
    whole = memory[first:] if step > 0 else memory[: len(memory) - first][::-1]
    return whole[:: abs(step)][:_COUNT]


@pytest.mark.parametrize("kernel", [one_axis, of_another_name], ids=lambda each: each.__name__)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_elements_are_computed_before_what_they_read_is_written(
    kernel: Any, data: st.DataObject
) -> None:
    memory = np.arange(160, dtype=np.float32) * 3
    firsts = st.integers(0, 80)
    read = _view(memory, data.draw(firsts), data.draw(_steps))
    out = _view(memory, data.draw(firsts), data.draw(_steps))
    x = np.random.default_rng().integers(0, 1000, _COUNT).astype(np.float32)
    others = read.copy() if kernel is one_axis else read[1:].copy()
    expected = x + others[np.maximum(len(others) - 1 - np.arange(_COUNT), 0)]
    with kd.use("cpu"):
        kernel[1, 8](x, read, out)
    assert np.array_equal(out, expected[: len(out)])


@pytest.mark.parametrize("shift", [(0, 0), (0, 1), (1, 0), (2, 3), (4, 0), (0, 4)])
def test_a_plane_is_computed_before_what_it_reads_is_written(shift: tuple[int, int]) -> None:
    memory = np.random.default_rng().integers(0, 99, (8, 8)).astype(np.float32)
    x = np.random.default_rng().integers(0, 99, (4, 4)).astype(np.float32)
    read, out = memory[:4, :4], memory[shift[0] :, shift[1] :][:4, :4]
    expected = x + read.T
    with kd.use("cpu"):
        two_axes[1, 16](x, read, out)
    assert np.array_equal(out, expected)


def test_memory_that_is_read_by_its_own_name_is_compared_at_a_launch() -> None:
    kinds = "float32[::1], float32[::1], float32[::1]"
    assert "waits=1" in one_axis.cpu_source(kinds, block=8)
    assert "waits=1" in of_another_name.cpu_source(kinds, block=8)
