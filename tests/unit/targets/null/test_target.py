"""Kernels on the null target: every step but the hardware's, on devices of any description."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import DeviceMismatchError, DriverError, LaunchConfigError, ResourceLimitError
from kerneldsl.placement.registry import get_target
from targets import null
from targets.null.target import NullTarget


@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@kd.kernel
def scale_2d(a, x):
    i, j = kd.grid(2)
    x[i, j] *= a


@kd.kernel
def sum_in_shared(x, out):
    buffer = kd.shared.array(0, np.float32)
    t = kd.threadIdx.x
    buffer[t] = x[kd.grid(1)]
    kd.syncthreads()
    if t == 0:
        total = np.float32(0)
        for k in range(kd.blockDim.x):
            total += buffer[k]
        out[kd.blockIdx.x] = total


@kd.kernel
def large_static_tile(x):
    tile = kd.shared.array((64, 96), np.float64)  # 48 KB
    tile[kd.threadIdx.x, 0] = x[0]
    kd.syncthreads()
    x[0] = tile[0, 0]


@pytest.fixture
def target() -> Iterator[NullTarget]:
    with null.described_as(null.H100) as described, kd.use("null"):
        yield described


def test_the_registry_has_the_same_target() -> None:
    assert get_target("null") is null.make_target()
    assert get_target("null").unavailable_reason() is None


def test_a_launch_is_recorded_with_its_values(target: NullTarget) -> None:
    x, y, out = (kd.zeros(1000, np.float32) for _ in range(3))
    axpy[4, 256](np.float32(1.5), x, y, out)
    (record,) = target.launches
    assert record.entry_name == "axpy"
    assert (record.config.grid_dim, record.config.block_dim) == ((4, 1, 1), (256, 1, 1))
    assert record.values["a"] == 1.5
    assert record.values["out.data"] == out.pointer
    assert record.values["out.shape[0]"] == 1000
    assert record.config.extent is None


def test_forall_maps_the_last_axis_to_x(target: NullTarget) -> None:
    x = kd.zeros((100, 1000), np.float32)
    scale_2d.forall(100, 1000)(np.float32(2), x)
    config = target.launches[-1].config
    assert config.block_dim[0] >= 32
    assert config.grid_dim[1] * config.block_dim[1] <= 128
    assert target.launches[-1].values["kd_extent[0]"] == 100


def test_nothing_runs(target: NullTarget) -> None:
    x = kd.to_device(np.arange(10, dtype=np.float32))
    axpy.forall(10)(np.float32(2), x, x, x)
    assert x.copy_to_host().tolist() == list(range(10))


def test_an_empty_extent_launches_nothing(target: NullTarget) -> None:
    x = kd.zeros(0, np.float32)
    axpy.forall(0)(np.float32(2), x, x, x)
    assert target.launches == []


def _live(target: NullTarget) -> int:
    """Return how many arrays there are: other tests' calls of the library keep constants."""
    gc.collect()
    return target.memory_of(target.devices()[0]).live_count


def test_numpy_arrays_are_staged_and_given_back(target: NullTarget) -> None:
    before = _live(target)
    x = np.arange(10, dtype=np.float32)
    axpy.forall(10)(np.float32(2), x, x.copy(), x.copy())
    assert len(target.launches) == 1
    assert _live(target) == before


def test_old_and_new_devices_get_their_own_code(target: NullTarget) -> None:
    for device, block in ((null.H100, 64), (null.SMALL_OLD_CARD, 64)):
        with null.described_as(device) as described, kd.use("null"):
            out = kd.zeros(1, np.float32)
            sum_in_shared[1, block, None, 4 * block](kd.zeros(block, np.float32), out)
            assert described.launches[0].device.arch == device.arch


def test_shared_memory_is_the_devices() -> None:
    with null.described_as(null.SMALL_OLD_CARD), kd.use("null"):
        x, out = kd.zeros(1024, np.float32), kd.zeros(1, np.float32)
        with pytest.raises(LaunchConfigError, match=r"49156 bytes.*null:0 allows 49152"):
            sum_in_shared[1, 1024, None, 49156](x, out)
    with null.described_as(null.H100) as described, kd.use("null"):
        x, out = kd.zeros(1024, np.float32), kd.zeros(1, np.float32)
        sum_in_shared[1, 1024, None, 49156](x, out)
        assert described.launches[0].config.shared_bytes == 49156


def test_static_shared_memory_counts(target: NullTarget) -> None:
    large_static_tile[1, 64](kd.zeros(1))
    assert len(target.launches) == 1
    with pytest.raises(LaunchConfigError, match=r"281600 bytes.*232448"):
        large_static_tile[1, 64, None, 232448](kd.zeros(1))


@kd.kernel(launch_bounds=(128,))
def bounded(x):
    x[kd.grid(1)] = 0


@pytest.mark.parametrize("device", [null.H100, null.SMALL_OLD_CARD], ids=lambda d: d.arch)
def test_a_block_beyond_the_launch_bounds(device: kd.Device) -> None:
    with null.described_as(device) as described, kd.use("null"):
        x = kd.zeros(256)
        with pytest.raises(ResourceLimitError, match="256 threads"):
            bounded[1, 256](x)
        bounded.forall(256)(x)
        assert described.launches[0].config.block_dim[0] <= 128


def test_a_freed_array_is_noticed(target: NullTarget) -> None:
    x = kd.zeros(10, np.float32)
    target.memory_of(target.devices()[0]).free(x.pointer)
    with pytest.raises(DriverError, match=r"launch with the array .*freed"):
        axpy.forall(10)(np.float32(1), x, x, x)
    assert target.launches == []


def test_two_devices() -> None:
    with null.described_as(null.H100, null.SMALL_OLD_CARD) as target:
        first = kd.zeros(4, np.float32, device="null:0")
        second = kd.zeros(4, np.float32, device="null:1")
        with pytest.raises(DeviceMismatchError):
            axpy.forall(4)(np.float32(1), first, first, second)
        axpy.forall(4)(np.float32(1), second, second, second)
        assert target.launches[0].device == target.devices()[1]
        assert target.device_of_pointer(second.pointer).index == 1


def test_out_of_memory_is_the_devices() -> None:
    with null.described_as(null.SMALL_OLD_CARD), pytest.raises(DriverError, match="null:0"):
        kd.empty(2**31 + 1, np.uint8, device="null")


@pytest.mark.parametrize("operation", ["compile", "load", "launch", "allocate", "copy_from_host"])
def test_a_planned_failure_happens_once(target: NullTarget, operation: str) -> None:
    @kd.kernel
    def fresh(x):
        i = kd.grid(1)
        if i < x.size:
            x[i] += 1

    planned = DriverError("planned", code=999, name="CUDA_ERROR_UNKNOWN")
    host, before = np.zeros(8, np.float32), _live(target)
    target.fail_next(operation, planned)
    with pytest.raises(DriverError, match="planned"):
        fresh.forall(8)(host)
    assert target.launches == []
    planned.__traceback__ = None  # its frames hold what the launch had allocated
    fresh.forall(8)(host)
    assert len(target.launches) == 1
    assert _live(target) == before


def test_an_unknown_operation_is_refused(target: NullTarget) -> None:
    with pytest.raises(ValueError, match="unknown operation 'fly'"):
        target.fail_next("fly", RuntimeError())
