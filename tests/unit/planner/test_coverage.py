"""How a grid fills a device, against blocks that are handed out one by one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneldsl.errors import ArgumentValueError, LaunchConfigError, ResourceLimitError
from kerneldsl.planner import (
    DeviceOccupancyLimits,
    KernelResources,
    Occupancy,
    bytes_to_saturate,
    coverage,
    occupancy,
)


def _held(multiprocessors: int, block_threads: int, registers: int = 32) -> Occupancy:
    device = DeviceOccupancyLimits.for_compute_capability(
        (9, 0), multiprocessor_count=multiprocessors
    )
    return occupancy(device, KernelResources(registers), block_threads)


held = st.builds(
    _held, st.integers(1, 40), st.sampled_from([32, 96, 256, 512, 1024]), st.sampled_from([16, 64])
)


def _handed_out(found: Occupancy, grid_blocks: int) -> tuple[list[int], int]:
    """Blocks of each multiprocessor and the number of waves, by handing blocks out one by one."""
    count = found.device.multiprocessor_count
    ran, waves, left = [0] * count, 0, grid_blocks
    while left:
        waves += 1
        for _ in range(found.active_blocks):
            for multiprocessor in range(count):
                if left:
                    ran[multiprocessor] += 1
                    left -= 1
    return ran, waves


@given(held, st.integers(0, 5000))
def test_blocks_are_handed_out(found: Occupancy, grid_blocks: int) -> None:
    grid = coverage(found, grid_blocks)
    ran, waves = _handed_out(found, grid_blocks)
    count = found.device.multiprocessor_count
    assert math.ceil(grid.waves) == waves == grid.full_waves + bool(grid.tail_blocks)
    assert grid.full_waves * grid.resident_blocks + grid.tail_blocks == grid_blocks
    assert grid.busiest_blocks == max(ran)
    assert grid.busy_multiprocessors == sum(map(bool, ran))
    assert 0 < grid.tail_efficiency <= grid.balance <= 1
    if grid_blocks:
        assert grid.balance == pytest.approx(sum(ran) / count / max(ran))
        places = waves * count * found.active_blocks
        assert grid.tail_efficiency == pytest.approx(grid_blocks / places)
    assert grid.threads_in_flight <= count * found.active_threads
    assert grid.bytes_in_flight(16) == 16 * grid.threads_in_flight
    assert grid.explain()


@given(held, st.integers(1, 10**30))
def test_grids_beyond_every_machine(found: Occupancy, grid_blocks: int) -> None:
    grid = coverage(found, grid_blocks)
    assert grid.full_waves * grid.resident_blocks + grid.tail_blocks == grid_blocks
    assert 0 < grid.tail_efficiency <= 1
    if grid_blocks > 1000 * grid.resident_blocks:
        assert grid.tail_efficiency > 0.999


@given(held, st.integers(1, 50))
def test_whole_waves_leave_nothing_idle(found: Occupancy, waves: int) -> None:
    grid = coverage(found, waves * found.active_blocks * found.device.multiprocessor_count)
    assert (grid.waves, grid.tail_efficiency, grid.balance) == (waves, 1.0, 1.0)
    assert "each of them full" in grid.explain()


def test_a_grid_of_nothing() -> None:
    grid = coverage(_held(132, 256), 0)
    assert (grid.waves, grid.tail_efficiency, grid.balance) == (0, 1.0, 1.0)
    assert grid.bytes_in_flight(64) == 0
    assert "nothing runs" in grid.explain()


def test_a_grid_smaller_than_the_device() -> None:
    grid = coverage(_held(132, 256), 100)
    assert grid.busy_multiprocessors == 100
    assert grid.balance == pytest.approx(100 / 132)
    assert "32 multiprocessors get none and the busiest gets 1 (balance 76 %)" in grid.explain()


def test_one_block_more_than_a_wave() -> None:
    grid = coverage(_held(132, 1024), 265)
    assert (grid.full_waves, grid.tail_blocks, grid.busiest_blocks) == (1, 1, 3)
    assert grid.tail_efficiency == pytest.approx(265 / 528)
    assert grid.balance == pytest.approx(265 / 396)


@given(st.floats(1e3, 1e14), st.floats(1e-3, 1e6))
def test_littles_law(bandwidth: float, latency_ns: float) -> None:
    nbytes = bytes_to_saturate(bandwidth, latency_ns)
    assert nbytes >= 1
    assert nbytes == pytest.approx(bandwidth * latency_ns * 1e-9, abs=1)


def test_refusals() -> None:
    found = _held(132, 256)
    with pytest.raises(LaunchConfigError, match="-1 blocks"):
        coverage(found, -1)
    with pytest.raises(ResourceLimitError, match=r"cannot run.*because of registers"):
        coverage(_held(132, 1024, 128), 1)
    with pytest.raises(ArgumentValueError, match="bytes_per_thread is -1"):
        coverage(found, 1).bytes_in_flight(-1)
    for bandwidth, latency in ((0.0, 1.0), (1.0, -1.0), (float("nan"), 1.0)):
        with pytest.raises(ArgumentValueError, match="greater than 0"):
            bytes_to_saturate(bandwidth, latency)
