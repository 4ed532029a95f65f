"""Fallback and statistics on a device: what a lost context, a full memory and events really do."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.placement.registry import get_target
from targets.cuda.device import memory
from targets.cuda.driver.driver import get_driver
from tests.support.programs import run_program

#: Everything that is looked at after a loss, in one process: starting one takes seconds.
_LOST = """
import json, warnings
import numpy as np
import kerneldsl as kd

@kd.kernel(wraparound=False)
def wild(x, far):
    x[kd.grid(1) + far] = 1

@kd.kernel
def increase(x, out):
    i = kd.grid(1)
    if i < x.size:
        out[i] = x[i] + 1

kd.use("cuda:0")
there = kd.zeros(4)
wild[1, 1](there, 2**30)
said = {}

def refused(name, call):
    try:
        call()
        said[name] = "nothing was raised"
    except kd.DriverError as error:
        said[name] = [type(error).__name__, error.name, error.is_fatal, str(error)]
    said[name].append(kd.stats().fallbacks)

refused("first", kd.synchronize)
refused("allocation", lambda: kd.zeros(4))
# An access out of bounds on the CPU would corrupt the process.
refused("suspect", lambda: wild[1, 1](np.zeros(4), 0))
refused("array", lambda: increase.forall(4)(np.zeros(4), there))
with kd.fallback("never"):
    refused("never", lambda: increase.forall(4)(np.zeros(4), np.zeros(4)))
x, out = np.arange(1001.0), np.full(1001, np.nan)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(3):
        increase.forall(x.size)(x, out)
said["is right"] = bool((out == x + 1).all())
said["warnings"] = [[w.category.__name__, str(w.message)] for w in caught]
said["counts"] = [kd.stats().fallbacks, kd.stats().launches]
print("SAID" + json.dumps(said))
"""


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process says that has lost its device."""
    done = run_program(tmp_path_factory.mktemp("lost"), _LOST)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout.partition("SAID")[2])
    return said


def test_a_launch_with_host_originals_carries_on_after_the_device_is_lost(
    lost: dict[str, Any],
) -> None:
    assert lost["first"][:3] == ["LaunchError", "CUDA_ERROR_ILLEGAL_ADDRESS", True]
    assert lost["is right"]
    ((category, message),) = lost["warnings"]
    assert category == "FallbackWarning"
    assert "cuda:0 is lost to this process" in message
    # Three on the CPU, and the one that brought the device down.
    assert lost["counts"] == [3, 4]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("allocation", "wild with grid"),
        ("suspect", "wild with grid"),
        ("array", "memory of the lost device: out"),
        ("never", "cuda:0 is lost to this process"),
    ],
)
def test_what_never_falls_back_after_the_device_is_lost(
    lost: dict[str, Any], name: str, words: str
) -> None:
    kind, code, is_fatal, message, fallbacks = lost[name]
    assert (kind, code, is_fatal) == ("DeviceLostError", "CUDA_ERROR_ILLEGAL_ADDRESS", True)
    assert words in message
    assert fallbacks == 0


@kd.kernel
def add(x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


@pytest.mark.alone
def test_a_full_device_falls_back(vector: np.ndarray) -> None:
    kd.reset_stats()
    driver, device = get_driver(), get_target("cuda").devices()[0]
    # Filled through the driver: kd.empty would tidy up before it gives in, at each of many sizes.
    held = []
    kd.synchronize()
    kd.MemoryPool.default("cuda:0").trim()  # what it keeps would serve the launch
    free_before, _ = device.memory_info()
    size = free_before
    while size > 2**20:
        try:
            held.append(memory.CudaBuffer(driver, device, size))
        except kd.OutOfMemoryError:
            size //= 2
    big = np.ones(2**23, np.float64)  # three of these are more than is left
    out = np.full_like(big, np.nan)
    with pytest.warns(kd.FallbackWarning, match=r"add runs on the CPU instead of cuda:0"):
        add.forall(out.size)(big, big, out)
    assert (out == 2).all()
    assert kd.stats().fallbacks == 1
    held.clear()
    assert device.memory_info()[0] > free_before // 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out[...] = np.nan
        add.forall(out.size)(big, big, out)
    assert (out == 2).all()


def test_launches_are_counted_and_timed_by_events() -> None:
    x = kd.ones(2**24, np.float32)
    out = kd.empty_like(x)
    kd.synchronize()
    kd.reset_stats()
    for _ in range(300):
        add.forall(out.size)(x, x, out)
    kd.synchronize()
    stats = kd.stats()
    (kernel,) = stats.kernels
    assert (kernel.device, kernel.launches) == ("cuda:0", 300)
    assert kernel.average_ns is not None
    # 192 MB cannot be moved faster than at 20 TB/s, nor does it take longer than 100 ms.
    assert 1e4 < kernel.average_ns < 1e8
    assert stats.gpu_share_of_launches == stats.gpu_share_of_time == 1.0
    assert stats.is_gpu_effective()
    (device,) = stats.devices
    assert device.memory_total_bytes is not None
    assert device.memory_used_bytes is not None
    assert 0 < device.memory_used_bytes <= device.memory_total_bytes
    print(stats.summary())


def test_staged_bytes_are_counted() -> None:
    kd.reset_stats()
    x, out = np.ones(1000), np.empty(1000)
    add.forall(1000)(x, x, out)
    (device,) = kd.stats().devices
    assert device.host_to_device_bytes == 2 * 8000
    assert device.device_to_host_bytes == 8000
