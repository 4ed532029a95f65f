"""Barriers of the grid on every target: again and again, in streams and graphs, in full grids."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd


@kd.kernel
def rotated(x, rounds):
    """Move each element on by one place in each round; every thread meets every other one."""
    i = kd.grid(1)
    for _ in range(rounds):
        value = x[(i + 1) % kd.gridsize(1)]
        kd.grid_group().sync()
        x[i] = value
        kd.grid_group().sync()


def test_launches_one_after_the_other(computing: str, rng: np.random.Generator) -> None:
    values = rng.integers(0, 1 << 40, 5 * 96)
    x = kd.to_device(values)
    for count in range(1, 41):
        rotated[5, 96](x, 3)
        if count % 8 == 0:
            np.testing.assert_array_equal(x.copy_to_host(), np.roll(values, -3 * count))


def test_streams_at_the_same_time(computing: str, rng: np.random.Generator) -> None:
    """Launches of one kernel do not meet each other's threads."""
    values = [rng.integers(0, 1 << 40, 3 * 64) for _ in range(4)]
    arrays = [kd.to_device(each) for each in values]
    streams = [kd.Stream() for _ in values]
    kd.synchronize()
    for _ in range(10):
        for array, stream in zip(arrays, streams, strict=True):
            rotated[3, 64, stream](array, 7)
    kd.synchronize()
    for array, each in zip(arrays, values, strict=True):
        np.testing.assert_array_equal(array.copy_to_host(), np.roll(each, -70))


def test_a_graph_that_is_replayed(computing: str, rng: np.random.Generator) -> None:
    values = rng.integers(0, 1 << 40, 4 * 50)
    x, stream = kd.to_device(values), kd.Stream()
    rotated[4, 50](x, 0)  # compiled before
    kd.synchronize()
    with stream.capture() as graph:
        rotated[4, 50](x, 1)
        rotated[4, 50](x, 2)
    for count in range(1, 6):
        graph.launch()
        kd.synchronize()
        np.testing.assert_array_equal(x.copy_to_host(), np.roll(values, -3 * count))


def test_as_many_blocks_as_there_is_room_for(computing: str, rng: np.random.Generator) -> None:
    """One more than a GPU holds at once is refused, with how many it holds."""
    threads, blocks, refused = 128, 1, None
    while refused is None and blocks < 1 << 10:
        blocks *= 2
        refused = _refusal(blocks, threads)
    if refused is None:  # the CPU, where blocks take turns, or a very large GPU
        values = rng.integers(0, 99, blocks * threads)
        x = kd.to_device(values)
        rotated[blocks, threads](x, 2)
        np.testing.assert_array_equal(x.copy_to_host(), np.roll(values, -2))
        return
    fits = blocks // 2
    while blocks - fits > 1:
        between = (fits + blocks) // 2
        error = _refusal(between, threads)
        fits, blocks = (between, blocks) if error is None else (fits, between)
        refused = error or refused
    assert f"holds {fits} of them at once" in str(refused)
    assert "was launched with" in str(refused)
    values = rng.integers(0, 99, fits * threads)
    x = kd.to_device(values)
    rotated[fits, threads](x, 5)
    np.testing.assert_array_equal(x.copy_to_host(), np.roll(values, -5))


def _refusal(blocks: int, threads: int) -> kd.LaunchConfigError | None:
    x = kd.zeros(blocks * threads, np.int64)
    try:
        rotated[blocks, threads](x, 1)
    except kd.LaunchConfigError as error:
        return error
    return None


@kd.kernel(debug=True)
def failing(x, out):
    i = kd.grid(1)
    kd.grid_group().sync()
    assert x[i] < 1000, "too large"
    kd.grid_group().sync()
    out[i] = 2


def test_nobody_waits_for_a_thread_that_has_failed(computing: str) -> None:
    values, out = np.zeros(96, np.int64), kd.zeros(96, np.int64)
    for place in (0, 50, 95):
        values[:] = 0
        values[place] = 1000
        with pytest.raises(AssertionError, match="too large"):
            failing[3, 32](kd.to_device(values), out)
    failing[3, 32](kd.zeros(96, np.int64), out)
    assert (out.copy_to_host() == 2).all()
