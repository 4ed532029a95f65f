"""Processors of this machine: their description, and the threads that can run at the same time.

Each fact of :func:`kerneldsl.device_info` has its own reader. A reader that finds nothing says why.

The threads that can run are limited by affinity and by a container's quota. The threads that can be
started are counted, too, for pools that need all that they start. GNU's OpenMP ends the process
where one cannot be started, and Numba's workqueue waits for it permanently. TBB's pool and the
target's own work with those that there are.

References
----------
Linux kernel documentation, "ABI testing symbols", ``/sys/devices/system/cpu/cpu*/cache``; Apple
Developer Documentation, "Determining system capabilities" (``sysctlbyname``); Numba reference,
"Environment variables" (``NUMBA_CPU_NAME``, ``NUMBA_CPU_FEATURES``, ``NUMBA_ENABLE_AVX``).
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import platform
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from kerneldsl.contract import Device, DeviceInfo
from kerneldsl.errors import AttributeUnavailableError
from kerneldsl.utilities.address_space import group_settings
from targets.cpu.codegen.levels import compiled_for, extensions_in_use

__all__ = [
    "Runnable",
    "cpu_model",
    "describe_cpu",
    "memory_info",
    "processor_quota",
    "runnable_threads",
    "startable_threads",
]

_CPUINFO = Path("/proc/cpuinfo")
_CPUS = Path("/sys/devices/system/cpu")
_UTILIZATION_SECONDS = 0.1
#: Names of the kernel's sensors for the processor itself.
_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal")
_NO_SMALL_FLOATS = "Kernels on the CPU compute {} in float32"


def describe_cpu(device: Device) -> DeviceInfo:
    """Describe the processors of this machine."""
    values: dict[str, Any] = {
        "usable_core_count": device.limits.multiprocessor_count,
        "supports_fp16": False,
        "supports_bf16": False,
        "supports_fp8": False,
        "supports_tensor_cores": False,
    }
    unavailable: dict[str, str] = {}
    for name, read in _STATIC.items():
        try:
            values[name] = read()
        except AttributeUnavailableError as error:
            unavailable[name] = error.what
    return DeviceInfo(device, values, unavailable, _REASONS, _READERS)


@functools.cache
def cpu_model() -> str:
    """Return what the processor calls itself, such as ``"AMD EPYC 9554 64-Core Processor"``."""
    readers = {"linux": _model_on_linux, "darwin": _model_on_macos, "win32": _model_on_windows}
    reader = readers.get(sys.platform)
    try:
        model = reader() if reader is not None else ""
    except OSError:  # the place is not there, or may not be read: the architecture will do
        model = ""
    return model or platform.machine() or "CPU"


def _model_on_linux() -> str:
    with _CPUINFO.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Model", "cpu model", "cpu"):
                return " ".join(value.split())
    return ""


def _model_on_macos() -> str:
    return _sysctl("machdep.cpu.brand_string", 256).split(b"\0")[0].decode(errors="replace")


def _model_on_windows() -> str:
    import winreg

    where = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
    with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, where) as key:  # type: ignore[attr-defined,unused-ignore]
        return " ".join(str(winreg.QueryValueEx(key, "ProcessorNameString")[0]).split())  # type: ignore[attr-defined,unused-ignore]


def _sysctl(name: str, nbytes: int) -> bytes:
    """Query the kernel of macOS; raises ``OSError`` if it knows no such name."""
    library = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(nbytes)
    size = ctypes.c_size_t(nbytes)
    if library.sysctlbyname(name.encode(), buffer, ctypes.byref(size), None, 0) != 0:
        raise OSError(ctypes.get_errno(), f"sysctl knows no {name}")
    return buffer.raw[: size.value]


# ------------------------------------------------------------------------------ caches


def _cache(level: int) -> int:
    system: str = sys.platform
    if system == "linux":
        return _cache_on_linux(level)
    if system == "darwin":
        return _cache_on_macos(level)
    raise AttributeUnavailableError(f"kerneldsl cannot read caches on {system}")


def _cache_on_linux(level: int) -> int:
    found = _caches_below(_CPUS).get(level)
    if found is None:
        raise AttributeUnavailableError(f"{_CPUS}/cpu*/cache reports no cache of level {level}")
    return found


@functools.cache
def _caches_below(folder: Path) -> dict[int, int]:
    """Return the bytes of the largest data or unified cache of each level, by level."""
    found: dict[int, int] = {}
    for entry in folder.glob("cpu[0-9]*/cache/index[0-9]*"):
        try:
            if (entry / "type").read_text().strip() in ("Data", "Unified"):
                level = int((entry / "level").read_text())
                size = _bytes_of((entry / "size").read_text().strip())
                found[level] = max(size, found.get(level, 0))
        except (OSError, ValueError):  # some systems leave one of the files out
            continue
    return found


def _bytes_of(text: str) -> int:
    scale = {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1:], 1)
    return int(text.rstrip("KMG")) * scale


def _cache_on_macos(level: int) -> int:
    plain = {1: "hw.l1dcachesize", 2: "hw.l2cachesize", 3: "hw.l3cachesize"}[level]
    # Processors with two kinds of cores list the faster ones separately.
    for name in (plain.replace("hw.", "hw.perflevel0."), plain):
        try:
            size = int.from_bytes(_sysctl(name, 8), sys.byteorder)
        except OSError:
            continue
        if size:
            return size
    raise AttributeUnavailableError(f"sysctl reports no cache of level {level}")


# ------------------------------------------------------------------------------- cores, memory


def _count(*, is_logical: bool) -> int:
    import psutil

    count = psutil.cpu_count(logical=is_logical)
    if not count:
        raise AttributeUnavailableError("psutil cannot determine the number on this system")
    return int(count)


def memory_info() -> tuple[int, int]:
    """Return the bytes of the machine's memory that are available, and in all."""
    import psutil

    found = psutil.virtual_memory()
    return int(found.available), int(found.total)


def _frequency(which: str) -> float:
    """Return MHz, as psutil reads them; it answers 0 or nothing where the system does not say."""
    import psutil

    try:
        found = psutil.cpu_freq()
    except (AttributeError, OSError, NotImplementedError, RuntimeError) as error:
        raise AttributeUnavailableError(f"psutil cannot read clock rates here: {error}") from error
    value = getattr(found, which, None)
    if not value:
        raise AttributeUnavailableError(
            "The system does not report it, as is usual in virtual machines"
        )
    return float(value)


def _utilization() -> float:
    import psutil

    # The first call without an interval returns a meaningless 0.0.
    return float(psutil.cpu_percent(interval=_UTILIZATION_SECONDS))


def _temperature() -> float:
    import psutil

    read = getattr(psutil, "sensors_temperatures", None)  # Linux and FreeBSD only
    found = read() if read is not None else {}
    degrees = [each.current for name in _SENSORS for each in found.get(name, ()) if each.current]
    if not degrees:
        raise AttributeUnavailableError("The system shows no temperature sensor of the processor")
    return float(max(degrees))


def _power() -> float:
    raise AttributeUnavailableError("There is no way to read it without administrator's rights")


#: Read at once.
_STATIC: dict[str, Callable[[], Any]] = {
    "physical_core_count": partial(_count, is_logical=False),
    "logical_core_count": partial(_count, is_logical=True),
    "total_memory_bytes": lambda: memory_info()[1],
    "l1_cache_bytes": partial(_cache, 1),
    "l2_cache_bytes": partial(_cache, 2),
    "l3_cache_bytes": partial(_cache, 3),
    "clock_rate_khz": lambda: round(1000 * _frequency("max")),
}
#: Read when requested: it changes, or needs LLVM.
_READERS: dict[str, Callable[[], Any]] = {
    "llvm_cpu": lambda: compiled_for().cpu,
    "vector_extensions": extensions_in_use,
    "vector_extension": lambda: extensions_in_use()[0],
    "free_memory_bytes": lambda: memory_info()[0],
    "utilization_percent": _utilization,
    "temperature_celsius": _temperature,
    "power_watts": _power,
    "current_clock_mhz": lambda: _frequency("current"),
}
_REASONS = {
    "usable_core_count": "The affinity mask of this process and the quotas of its control groups",
    "vector_extension": "What LLVM is told to compile for; LLVM may choose shorter vectors",
    "vector_extensions": "What LLVM is told to compile for; LLVM may choose shorter vectors",
    "free_memory_bytes": "What can be had without swapping, as psutil estimates it",
    "utilization_percent": f"Over {_UTILIZATION_SECONDS:g} s, of all hardware threads",
    "supports_fp16": _NO_SMALL_FLOATS.format("float16"),
    "supports_bf16": _NO_SMALL_FLOATS.format("bfloat16"),
    "supports_fp8": _NO_SMALL_FLOATS.format("8-bit floating-point numbers"),
    "supports_tensor_cores": "Numba does not use the matrix units of CPUs",
}


# -- threads ---------------------------------------------------------------------------------------


#: More than ``sem_t`` has on any Linux.
_SEMAPHORE_WORDS = 8


class Runnable(NamedTuple):
    """A number of threads, and what limits it."""

    #: Number of threads that can run at once, 1 or more.
    threads: int
    #: The limit that determines this number.
    limit: str


def runnable_threads() -> Runnable:
    """Return how many threads of this process can run at once."""
    try:
        found = Runnable(max(1, len(os.sched_getaffinity(0))), "processors of this process")
    except AttributeError:  # not on every system
        found = Runnable(os.cpu_count() or 1, "processors of this machine")
    quota = processor_quota()
    if quota is not None and math.ceil(quota) < found.threads:
        return Runnable(max(1, math.ceil(quota)), f"control group's quota of {quota:g} processors")
    return found


@functools.cache  # a device and a pool are made for it once, too
def processor_quota(root: str | Path = "/") -> float | None:
    """Return how many processors' time this process may take; ``None`` if there is no limit."""
    base = Path(root)
    limits = [text.partition(" ")[::2] for text in group_settings("cpu", "cpu.max", None, base)]
    # The first version has the period in its own file, and it need not be the default.
    quotas = group_settings("cpu", None, "cpu.cfs_quota_us", base)
    periods = group_settings("cpu", None, "cpu.cfs_period_us", base)
    limits += zip(quotas, periods, strict=True)
    found = (_processors(quota, period) for quota, period in limits)
    return min((each for each in found if each is not None), default=None)


_DEFAULT_PERIOD_US = 100_000


def _processors(quota: str, period: str) -> float | None:
    """Divide a quota by its period; ``"max"``, ``"-1"`` and a missing one are no limit."""
    if not quota.isdecimal() or not int(quota):
        return None
    length = int(period) if period.isdecimal() else 0
    return int(quota) / (length or _DEFAULT_PERIOD_US)


def startable_threads(count: int) -> int:
    """Return how many of `count` threads can run at once, which are started and ended for it.

    They have stacks of the default size. On systems other than Linux nothing is tried.
    """
    if sys.platform != "linux":
        return count
    libc = ctypes.CDLL(None)
    semaphore = (ctypes.c_uint64 * _SEMAPHORE_WORDS)()
    libc.sem_init(semaphore, 0, 0)
    started: list[ctypes.c_ulong] = []
    try:
        for _ in range(count):
            identity = ctypes.c_ulong()
            # These threads run only C: a Python thread would take an arena of memory, which stays.
            if libc.pthread_create(ctypes.byref(identity), None, libc.sem_wait, semaphore):
                break
            started.append(identity)
    finally:
        for _ in started:
            libc.sem_post(semaphore)
        for identity in started:
            libc.pthread_join(identity, None)
    return len(started)
