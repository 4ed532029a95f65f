"""Fallback and statistics on a device: what a lost context, a full memory and events really do."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.programs import run_program

_LOST = """
import warnings
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
wild[1, 1](there, 2**40)
try:
    kd.synchronize()
except kd.DriverError as error:
    print("first:", error.name, error.is_fatal)
try:
    kd.zeros(4)
except kd.DeviceLostError as error:
    print("lost:", any("wild" in suspect for suspect in error.suspects))
"""


def test_a_launch_with_host_originals_carries_on_after_the_device_is_lost(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        _LOST
        + """
x, out = np.arange(1001.0), np.full(1001, np.nan)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(3):
        increase.forall(x.size)(x, out)
print("right:", bool((out == x + 1).all()))
print("warned:", [w.category.__name__ for w in caught], "DeviceLost" in str(caught[0].message)
      or "lost" in str(caught[0].message))
stats = kd.stats()
print("counted:", stats.fallbacks, stats.launches)
""",
    )
    assert done.returncode == 0, done.stderr
    assert "first: CUDA_ERROR_ILLEGAL_ADDRESS True" in done.stdout
    assert "lost: True" in done.stdout
    assert "right: True" in done.stdout
    assert "warned: ['FallbackWarning'] True" in done.stdout
    # Three on the CPU, and the one that brought the device down.
    assert "counted: 3 4" in done.stdout


@pytest.mark.parametrize(
    ("code", "word"),
    [
        # An access out of bounds on the CPU would corrupt the process.
        ("wild[1, 1](np.zeros(4), 0)", "wild"),
        ("increase.forall(4)(np.zeros(4), there)", "out"),
        ("kd.fallback('never'); increase.forall(4)(np.zeros(4), np.zeros(4))", "cuda:0"),
    ],
)
def test_what_never_falls_back_after_the_device_is_lost(
    tmp_path: Path, code: str, word: str
) -> None:
    done = run_program(
        tmp_path,
        _LOST
        + f"""
try:
    {code}
except kd.DeviceLostError as error:
    print("raised:", error)
print("fallbacks:", kd.stats().fallbacks)
""",
    )
    assert done.returncode == 0, done.stderr
    assert "raised:" in done.stdout
    assert word in done.stdout.partition("raised:")[2]
    assert "fallbacks: 0" in done.stdout


@kd.kernel
def add(x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


@pytest.mark.alone
def test_a_full_device_falls_back(vector: np.ndarray) -> None:
    kd.reset_stats()
    info = kd.devices("cuda")[0]
    held = []
    size, size_before = info.total_memory_bytes, info.free_memory_bytes
    while size > 2**20:
        try:
            held.append(kd.empty(size, np.uint8))
        except kd.OutOfMemoryError:
            size //= 2
    big = np.ones(2**23, np.float64)  # three of these are more than is left
    out = np.full_like(big, np.nan)
    with pytest.warns(kd.FallbackWarning, match=r"add runs on the CPU instead of cuda:0"):
        add.forall(out.size)(big, big, out)
    assert (out == 2).all()
    assert kd.stats().fallbacks == 1
    del held
    kd.synchronize()
    kd.MemoryPool.default("cuda:0").trim()  # tests that start other processes need the room
    assert kd.devices("cuda")[0].free_memory_bytes > size_before // 2
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
