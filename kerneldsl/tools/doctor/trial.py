"""A small kernel, compiled and run on each device: which shows more than files."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from kerneldsl.contract import Device, Target
from kerneldsl.contract.checks import Check
from kerneldsl.errors import KernelError
from kerneldsl.kernels.decorators import kernel
from kerneldsl.language.intrinsics.places import grid
from kerneldsl.memory.creation import to_device
from kerneldsl.placement.devices import host_device, use
from kerneldsl.placement.fallback import fallback
from kerneldsl.streams.waiting import synchronize
from kerneldsl.utilities.formatting import format_bytes

__all__ = ["check_devices"]

#: Odd, so that the last block is not full.
_SIZE = 10_007
#: Below this share of free memory, another program is likely to hold the device.
_LITTLE_FREE = 0.05


@kernel
def _trial(x, y, out):  # type: ignore[no-untyped-def]
    i = grid(1)
    if i < out.size:
        out[i] = 2 * x[i] - y[i]


def check_devices(target: Target) -> Iterator[Check]:
    """Look at each usable device of a target: its memory, and whether it runs a kernel."""
    for device in target.devices():
        reason = device.unusable_reason()
        if reason is not None:
            yield Check(
                f"kernel.{device}",
                "warning",
                f"{device.name} cannot be used: {reason}",
                f"Use another device, such as kd.use('{host_device()}')",
            )
            continue
        if not device.shares_host_memory:
            yield from _check_memory(device)
        yield _try_kernel(device)


def _check_memory(device: Device) -> Iterator[Check]:
    check = f"memory.{device}"
    try:
        known = device.memory_info()
    except KernelError as error:
        yield Check(check, "problem", error.what, error.remedy or "Check the device")
        return
    if known is None:
        return
    free, total = known
    found = f"{format_bytes(free)} of {format_bytes(total)} free"
    if free < _LITTLE_FREE * total:
        remedy = "End the programs that hold the rest; `kerneldsl summary` lists them"
        yield Check(check, "warning", found, remedy)
    else:
        yield Check(check, "ok", found)


def _try_kernel(device: Device) -> Check:
    check = f"kernel.{device}"
    numbers = np.random.default_rng()
    x, y = numbers.random((2, _SIZE), np.float32)
    expected = 2 * x - y
    began = time.perf_counter()
    try:
        # A fallback would make the CPU pass the GPU's test.
        with fallback("never"), use(device):
            arrays = [to_device(a) for a in (x, y, np.full(_SIZE, np.nan, np.float32))]
            _trial.forall(_SIZE)(*arrays)
            result = arrays[2].copy_to_host()
            first = time.perf_counter() - began
            began = time.perf_counter()
            _trial.forall(_SIZE)(*arrays)
            synchronize(device)
            second = time.perf_counter() - began
    except KernelError as error:
        remedy = error.remedy or "See docs/troubleshooting.md; please report it if nothing fits"
        return Check(check, "problem", f"{device.name}: {error.what}", remedy)
    except Exception as error:  # noqa: BLE001 -- any failure is what is looked for
        return Check(
            check,
            "problem",
            f"{device.name}: {type(error).__name__}: {error}",
            "This is a fault of kerneldsl's installation or of kerneldsl; please report it",
        )
    if not np.allclose(result, expected, rtol=1e-5, atol=1e-6):
        wrong = int((~np.isclose(result, expected, rtol=1e-5, atol=1e-6)).sum())
        return Check(
            check,
            "problem",
            f"{device.name} ran a kernel, and {wrong} of {_SIZE} results are wrong",
            "Check the device's memory (nvidia-smi -q -d ECC for NVIDIA's) and its clocks",
        )
    return Check(
        check,
        "ok",
        f"{device.name} ran a kernel; {first * 1e3:.0f} ms with compiling and copies, then "
        f"{second * 1e6:.0f} µs",
    )
