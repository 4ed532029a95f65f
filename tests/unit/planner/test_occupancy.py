"""The occupancy model by itself: known answers, properties, explanations and refusals."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneldsl import planner
from kerneldsl.contract import Resources
from kerneldsl.errors import ArgumentValueError, LaunchConfigError, ResourceLimitError
from kerneldsl.placement.registry import get_target
from kerneldsl.planner import (
    COMPUTE_CAPABILITIES,
    DeviceOccupancyLimits,
    KernelResources,
    available_dynamic_shared_bytes,
    max_potential_block_size,
    occupancy,
)
from tests.occupancy.configurations import limits_like_a_driver
from tests.support.source import exec_source

KB = 1024
TABLED = [each for each in COMPUTE_CAPABILITIES if each != (10, 7)]
HOPPER = DeviceOccupancyLimits.for_compute_capability((9, 0), multiprocessor_count=132)
AMPERE = DeviceOccupancyLimits.for_compute_capability((8, 0))

devices = st.sampled_from(TABLED).map(DeviceOccupancyLimits.for_compute_capability)
threads = st.integers(1, 1024)


@st.composite
def kernels(draw: st.DrawFn) -> KernelResources:
    return KernelResources(
        registers=draw(st.integers(0, 255)),
        static_shared_bytes=draw(st.integers(0, 48 * KB)),
        max_threads_per_block=draw(st.integers(1, 1024)),
        max_dynamic_shared_bytes=draw(st.none() | st.integers(0, 227 * KB)),
        carveout_percent=draw(st.none() | st.integers(0, 100)),
        barriers=draw(st.integers(0, 16)),
        virtual_resources=draw(st.integers(0, 4)),
    )


# ------------------------------------------------------------------------------ known answers


def test_registers_are_divided_into_partitions() -> None:
    # 65536 / (160 * 80) would be 5.
    assert occupancy(HOPPER, KernelResources(registers=80), 160).active_blocks == 4


def test_a_block_is_checked_with_its_warps_rounded_up() -> None:
    # 65536 / (544 * 120) would be 1.
    found = occupancy(HOPPER, KernelResources(registers=120), 544)
    assert (found.active_blocks, found.limiters) == (0, ("registers",))
    assert "17 warps counts as 20: 76800, where a block can have 65536" in found.explain()


def test_shared_memory_counts_what_the_driver_reserves() -> None:
    found = occupancy(AMPERE, KernelResources(registers=32), 256, 48 * KB)
    assert (found.active_blocks, found.limiters) == (3, ("shared_memory",))
    assert found.shared_bytes_per_block == 49 * KB


def test_the_block_of_a_light_kernel_is_the_largest() -> None:
    assert max_potential_block_size(HOPPER, KernelResources(registers=32)).block_threads == 1024


def test_full_occupancy() -> None:
    found = occupancy(HOPPER, KernelResources(registers=32), 256)
    assert (found.active_blocks, found.active_warps, found.active_threads) == (8, 64, 2048)
    assert found.fraction == 1.0
    assert found.limiters == ("warps", "registers")


def test_opting_in() -> None:
    plain = KernelResources(registers=32)
    assert occupancy(HOPPER, plain, 256, 48 * KB).active_blocks == 4
    assert occupancy(HOPPER, plain, 256, 48 * KB + 1).active_blocks == 0
    opted_in = replace(plain, max_dynamic_shared_bytes=100 * KB)
    assert occupancy(HOPPER, opted_in, 256, 100 * KB).active_blocks == 2
    refused = occupancy(HOPPER, opted_in, 256, 100 * KB + 1)
    assert refused.active_blocks == 0
    assert f"opted in to {100 * KB} dynamic" in refused.explain()


def test_a_small_carveout_limits_and_grows_for_one_block() -> None:
    kernel = KernelResources(registers=32, carveout_percent=10)
    assert occupancy(HOPPER, kernel, 128, 7 * KB).active_blocks == 4  # 32 KB
    assert occupancy(HOPPER, kernel, 128, 40 * KB).active_blocks == 1  # 64 KB
    assert occupancy(HOPPER, kernel, 128, 40 * KB).sufficient_carveout_bytes == 64 * KB


def test_shared_memory_as_a_function_of_the_block() -> None:
    kernel = KernelResources(registers=40, max_dynamic_shared_bytes=227 * KB)
    seen = []

    def nbytes(block_threads: int) -> int:
        seen.append(block_threads)
        return 128 * block_threads

    best = max_potential_block_size(HOPPER, kernel, nbytes, max_block_threads=1000)
    assert seen[:3] == [1000, 992, 960]
    assert best.dynamic_shared_bytes == 128 * best.block_threads
    assert best.min_grid_blocks % 132 == 0


# ---------------------------------------------------------------------------------- properties


@given(devices, kernels(), threads, st.integers(0, 230 * KB))
def test_what_is_held_fits(
    device: DeviceOccupancyLimits, kernel: KernelResources, block: int, nbytes: int
) -> None:
    found = occupancy(device, kernel, block, nbytes)
    held = found.active_blocks
    assert found.active_warps <= device.max_warps_per_multiprocessor
    assert held <= device.max_blocks_per_multiprocessor
    assert held * found.registers_per_block <= device.max_registers_per_multiprocessor
    assert 0 <= found.fraction <= 1
    assert found.limiters
    if held:
        room = device.max_shared_memory_per_multiprocessor
        assert held * found.shared_bytes_per_block <= found.sufficient_carveout_bytes <= room
    assert hash(found) == hash(occupancy(device, kernel, block, nbytes))


@given(devices, kernels(), threads, st.integers(0, 230 * KB), st.integers(1, 4096))
def test_taking_more_never_lets_more_in(
    device: DeviceOccupancyLimits, kernel: KernelResources, block: int, nbytes: int, more: int
) -> None:
    found = occupancy(device, kernel, block, nbytes).active_blocks
    hungry = replace(kernel, registers=kernel.registers + more)
    assert occupancy(device, hungry, block, nbytes).active_blocks <= found
    if kernel.carveout_percent is None:
        assert occupancy(device, kernel, block, nbytes + more).active_blocks <= found


@given(devices, kernels(), threads, st.integers(1, 32))
def test_available_shared_memory_is_all_that_keeps_the_blocks(
    device: DeviceOccupancyLimits, kernel: KernelResources, block: int, wanted: int
) -> None:
    try:
        nbytes = available_dynamic_shared_bytes(device, kernel, wanted, block)
    except ResourceLimitError:
        assert occupancy(device, kernel, block).active_blocks < wanted
        return
    assert nbytes >= 0
    assert occupancy(device, kernel, block, nbytes).active_blocks >= wanted
    if nbytes != kernel.max_dynamic_shared_bytes:
        assert occupancy(device, kernel, block, nbytes + 1).active_blocks < wanted


@given(devices, kernels(), st.integers(0, 300))
def test_no_block_holds_more_threads_than_the_best(
    device: DeviceOccupancyLimits, kernel: KernelResources, per_thread: int
) -> None:
    try:
        best = max_potential_block_size(device, kernel, lambda block: per_thread * block)
    except ResourceLimitError:
        best = None
    held = {
        block: occupancy(device, kernel, block, per_thread * block).active_threads
        for block in range(32, kernel.max_threads_per_block + 1, 32)
    }
    if best is None:
        assert not any(held.values())
    else:
        found = occupancy(device, kernel, best.block_threads, best.dynamic_shared_bytes)
        assert found.active_blocks
        assert best.block_threads <= kernel.max_threads_per_block
        assert max(held.values(), default=0) <= found.active_threads


@pytest.mark.parametrize("capability", TABLED, ids=lambda c: f"{c[0]}.{c[1]}")
def test_a_preference_gives_the_carveout_it_was_made_for(capability: tuple[int, int]) -> None:
    device = DeviceOccupancyLimits.for_compute_capability(capability)
    for size in device.shared_memory_carveouts:
        percent = device.carveout_percent(size)
        preferred = percent * device.max_shared_memory_per_multiprocessor // 100
        assert device.carveout_for(preferred) == size
        assert device.carveout_for(max(0, size - 1)) <= size


# --------------------------------------------------------------------------------- the device


def test_values_can_be_written_out_and_read_back() -> None:
    kernel = KernelResources(registers=80)
    names = {name: getattr(planner, name) for name in planner.__all__}
    for value in (
        HOPPER,
        kernel,
        max_potential_block_size(HOPPER, kernel),
        occupancy(HOPPER, kernel, 160),
    ):
        assert eval(repr(value), dict(names)) == value  # noqa: S307 - our own repr


def test_limits_of_a_device_that_is_there() -> None:
    device = limits_like_a_driver((9, 0), multiprocessors=132, shared=228 * KB, blocks=32)
    assert DeviceOccupancyLimits.from_device(device) == HOPPER


def test_a_device_newer_than_the_table() -> None:
    device = limits_like_a_driver((13, 0), shared=512 * KB)
    limits = DeviceOccupancyLimits.from_device(device)
    assert limits.rules_of == (12, 1)
    assert limits.shared_memory_carveouts[-1] == 512 * KB
    text = occupancy(limits, KernelResources(registers=32), 256).explain()
    assert "Compute capability 13.0 is newer than the model; it is taken to allocate like 12.1" in (
        text
    )


def test_a_device_older_than_the_model() -> None:
    with pytest.raises(ArgumentValueError, match=r"6\.1.*begins with 7\.5"):
        DeviceOccupancyLimits.from_device(limits_like_a_driver((6, 1)))


def test_a_device_that_tells_no_limits() -> None:
    with pytest.raises(
        ArgumentValueError, match=r"does not report .*max_blocks_per_multiprocessor"
    ):
        DeviceOccupancyLimits.from_device(get_target("cpu").devices()[0])


@pytest.mark.parametrize("capability", [(7, 0), (10, 7), (13, 0), (9, 1)])
def test_a_compute_capability_that_is_not_known(capability: tuple[int, int]) -> None:
    with pytest.raises(ArgumentValueError, match=re.escape("12.0, 12.1")):
        DeviceOccupancyLimits.for_compute_capability(capability)


@pytest.mark.parametrize(
    "change",
    [
        {"warp_size": 0},
        {"multiprocessor_count": -1},
        {"reserved_shared_memory_per_block": -1},
        {"shared_memory_carveouts": ()},
        {"shared_memory_carveouts": (0, 64 * KB)},
        {"shared_memory_carveouts": (228 * KB, 0)},
        {"max_barriers_per_multiprocessor": 0},
    ],
    ids=str,
)
def test_impossible_limits(change: dict[str, object]) -> None:
    with pytest.raises(ArgumentValueError, match=next(iter(change))):
        replace(HOPPER, **change)


def test_a_carveout_that_does_not_exist() -> None:
    with pytest.raises(ArgumentValueError, match=f"{228 * KB} at most"):
        HOPPER.carveout_for(228 * KB + 1)


# --------------------------------------------------------------------------------- the kernel


def test_resources_of_a_compiled_kernel() -> None:
    resources = Resources(
        registers=72,
        spill_bytes=0,
        local_bytes=0,
        static_shared_bytes=20_000,
        max_block_threads=896,
    )
    kernel = KernelResources.from_resources(resources, HOPPER, carveout_percent=50)
    assert kernel == KernelResources(72, 20_000, 896, 227 * KB - 20_000, 50)
    with pytest.raises(ArgumentValueError, match="no register count"):
        KernelResources.from_resources(replace(resources, registers=None), HOPPER)


@pytest.mark.parametrize(
    "change",
    [
        {"registers": -1},
        {"static_shared_bytes": -1},
        {"max_threads_per_block": 0},
        {"max_dynamic_shared_bytes": -1},
        {"carveout_percent": 101},
        {"carveout_percent": -1},
        {"barriers": -1},
        {"virtual_resources": -1},
    ],
    ids=str,
)
def test_impossible_resources(change: dict[str, int]) -> None:
    name, value = next(iter(change.items()))
    with pytest.raises(ArgumentValueError, match=f"{name} is {value}") as caught:
        KernelResources(**{"registers": 32, **change})
    assert caught.value.value == value


# ------------------------------------------------------------------------------------ refusals


def test_impossible_launches() -> None:
    kernel = KernelResources(registers=32)
    with pytest.raises(LaunchConfigError, match="0 threads"):
        occupancy(HOPPER, kernel, 0)
    with pytest.raises(LaunchConfigError, match="-1 bytes"):
        occupancy(HOPPER, kernel, 32, -1)
    with pytest.raises(LaunchConfigError, match=r"1024 threads has -4096 bytes"):
        max_potential_block_size(HOPPER, kernel, lambda block: -4 * block)
    with pytest.raises(LaunchConfigError, match="0 threads"):
        max_potential_block_size(HOPPER, kernel, max_block_threads=0)
    with pytest.raises(LaunchConfigError, match="active_blocks is 0"):
        available_dynamic_shared_bytes(HOPPER, kernel, 0, 128)


def test_where_nothing_fits() -> None:
    with pytest.raises(ResourceLimitError, match=r"1 to 1024 threads.*because of shared memory"):
        max_potential_block_size(HOPPER, KernelResources(registers=32), 228 * KB)
    with pytest.raises(ResourceLimitError, match="Request 4 blocks or fewer"):
        available_dynamic_shared_bytes(HOPPER, KernelResources(registers=128), 5, 128)
    with pytest.raises(ResourceLimitError, match="because of warps"):
        available_dynamic_shared_bytes(HOPPER, KernelResources(registers=32), 1, 1025)


# --------------------------------------------------------------------------------- explanations


@pytest.mark.parametrize(
    ("kernel", "block", "nbytes", "expected"),
    [
        (KernelResources(32), 1024, 0, "a block takes 32 of the 64 that a multiprocessor holds"),
        (KernelResources(32), 1025, 0, "a block can have 1024 threads"),
        (KernelResources(257), 32, 0, "257 a thread, where a thread can have 256"),
        (KernelResources(8), 32, 0, "blocks: a multiprocessor holds 32 of any size"),
        (KernelResources(32), 32, 48 * KB, "49152 dynamic, 1024 reserved by the driver) of the"),
        (KernelResources(32), 32, 48 * KB + 1, "without opting in it can have 49152"),
        (KernelResources(8, barriers=16), 32, 0, "a block takes 16 of 64 that a multiprocessor"),
        (KernelResources(80), 160, 0, "One more block would fit with 72 registers a thread"),
        (KernelResources(32), 32, 40 * KB, "would fit with 37888 bytes of dynamic shared memory"),
    ],
)
def test_explanations(kernel: KernelResources, block: int, nbytes: int, expected: str) -> None:
    found = occupancy(HOPPER, kernel, block, nbytes)
    assert expected in found.explain()
    assert found.explain().splitlines()[0] == found.summary()


def test_explanation_of_virtual_resources() -> None:
    blackwell = DeviceOccupancyLimits.for_compute_capability((10, 0))
    found = occupancy(blackwell, KernelResources(16, virtual_resources=64), 32)
    assert found.limiters == ("virtual_resources",)
    assert "a block takes 64 of 128" in found.explain()


def test_the_page_shows_what_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[3] / "docs" / "occupancy.md").read_text()
    source, shown = re.search(r"```python\n(.*?)```\n```\n(.*?)```", page, re.DOTALL).groups()
    exec_source(source, "occupancy page")
    assert capsys.readouterr().out == shown


# ------------------------------------------------------------------------------------- imports


def test_the_planner_needs_no_numba() -> None:
    code = (
        "import sys, kerneldsl.planner; "
        "bad = [m for m in ('numba', 'llvmlite', 'cuda', 'targets') if m in sys.modules]; "
        "sys.exit(', '.join(bad) or 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
