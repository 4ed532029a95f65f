"""Statistics of launches, fallbacks, times, copied bytes and memory, as one value.

:mod:`~kerneldsl.contract.launch_counter` counts launches; this module counts copies and
fallbacks.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

from kerneldsl.contract.launch_counter import launch_counters
from kerneldsl.errors import DriverError, TargetUnavailableError
from kerneldsl.utilities.locks import ForkSafeLock

if TYPE_CHECKING:  # every launch imports this module, and few programs ask for the values
    from kerneldsl.contract import Device
    from kerneldsl.statistics.values import (
        DeviceStatistics,
        HostMemory,
        KernelStatistics,
        Statistics,
    )

__all__ = [
    "Direction",
    "fallback_listeners",
    "note_copy",
    "note_fallback",
    "reset_stats",
    "stats",
]

#: The directions of copies; a copy to a peer is counted for its source device.
Direction: TypeAlias = Literal[
    "host_to_device", "device_to_host", "device_to_device", "device_to_peer"
]

_lock = ForkSafeLock()
_copied: defaultdict[Device, Counter[str]] = defaultdict(Counter)
_fallbacks: defaultdict[str, Counter[str]] = defaultdict(Counter)
#: Functions that are called with the device and the reason of a fallback, for active profiles.
fallback_listeners: list[Callable[[str, str], None]] = []


#: Copies that are not in the sums yet. Appending is atomic, and faster than a lock.
_fresh_copies: deque[tuple[Device, Direction, int]] = deque()
#: The number of them that are added to the sums at a time.
_BATCH = 16


def note_copy(device: Device, direction: Direction, nbytes: int) -> None:
    """Count bytes that were copied to, from or on a device."""
    _fresh_copies.append((device, direction, nbytes))
    if len(_fresh_copies) >= _BATCH:
        with _lock:
            _add_up()


def _add_up() -> None:
    """Add fresh copies to the sums; the caller holds the lock."""
    while _fresh_copies:
        try:
            device, direction, nbytes = _fresh_copies.popleft()
        except IndexError:  # a finalizer of this very thread was faster
            return
        _copied[device][direction] += nbytes


def note_fallback(device: str, reason: str) -> None:
    """Count a launch for a device that runs on the CPU."""
    with _lock:
        _fallbacks[device][reason] += 1
    for listener in tuple(fallback_listeners):
        listener(device, reason)


def reset_stats() -> None:
    """Reset the counts and times of :func:`stats` to zero; those of memory are not affected.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> kd.reset_stats()
    >>> kd.stats().launches
    0
    """
    with _lock:
        _fresh_copies.clear()
        _copied.clear()
        _fallbacks.clear()
    for counter in launch_counters():
        counter.reset()


def stats() -> Statistics:
    """Return counts and times of launches since the process started, or since :func:`reset_stats`.

    Returns
    -------
    Statistics
        Every device that was used, every kernel that was launched, and the totals.

    Notes
    -----
    Counts of launches, fallbacks and bytes are exact, also with threads. Times are sampled: the
    first launches of a kernel and then every 64th launch are timed (on a GPU, every 1024th of
    repeated launches). A sample counts for all launches since the previous one. `measured` of a
    kernel names the method:

    ``"device events"``
        On a GPU: the time between two events around the launch. On an idle GPU it includes a few
        microseconds of the launch itself, which matter for short kernels.
    ``"kernel code"``
        On a CPU: the time from the start of the kernel's code until its last thread has ended.
        Every launch of kernels of 8 µs or longer is timed. The overhead of the host is not
        included; :meth:`Launch.time` measures both together.
    ``"Python call"``
        On a CPU, for launches that are too few for the native launcher. It is the call in Python
        that runs the kernel, with some microseconds of Python.

    The first launch of a kernel counts only while it is the only one, since it may include costs
    of the first use. A launch is counted when it is started. A launch that is recorded into a graph
    is counted once, however often the graph is launched.

    Examples
    --------
    >>> import numpy as np
    >>> import kerneldsl as kd
    >>> @kd.kernel
    ... def double(x):
    ...     x[kd.grid(1)] *= 2
    >>> kd.reset_stats()
    >>> double.forall(3)(np.ones(3))
    >>> kd.stats().launches
    1
    """
    from kerneldsl.statistics.values import KernelStatistics, Statistics

    with _lock:
        _add_up()
        copied = {device: dict(counts) for device, counts in _copied.items()}
        fallbacks = {device: dict(counts) for device, counts in _fallbacks.items()}
    kernels = tuple(
        sorted(
            (
                KernelStatistics(counter.kernel, str(counter.device), launches, *counter.average())
                for counter in launch_counters()
                if (launches := counter.launches)
            ),
            key=lambda kernel: (kernel.kernel, kernel.device),
        )
    )
    used = [*(counter.device for counter in launch_counters()), *copied]
    devices = {str(device): device for device in used}
    bytes_of = {str(device): counts for device, counts in copied.items()}
    names = {kernel.device for kernel in kernels} | set(fallbacks) | set(bytes_of)
    per_device = tuple(
        _device_statistics(
            name, devices.get(name), kernels, bytes_of.get(name, {}), fallbacks.get(name, {})
        )
        for name in sorted(names)
    )
    return Statistics(per_device, kernels, _host_memory())


def _device_statistics(
    name: str,
    device: Device | None,
    kernels: tuple[KernelStatistics, ...],
    copied: dict[str, int],
    fallbacks: dict[str, int],
) -> DeviceStatistics:
    from kerneldsl.statistics.values import DeviceStatistics

    own = [kernel for kernel in kernels if kernel.device == name]
    timed = [kernel.total_ns for kernel in own if kernel.total_ns is not None]
    used, total = _device_memory(device)
    return DeviceStatistics(
        device=name,
        # A device with fallbacks only was requested but not usable; the host always is usable.
        is_gpu=device is None or not (device.is_host or device.is_simulated),
        launches=sum(kernel.launches for kernel in own),
        fallbacks=sum(fallbacks.values()),
        fallback_reasons=fallbacks,
        kernel_ns=sum(timed) if timed else None,
        host_to_device_bytes=copied.get("host_to_device", 0),
        device_to_host_bytes=copied.get("device_to_host", 0),
        device_to_device_bytes=copied.get("device_to_device", 0),
        device_to_peer_bytes=copied.get("device_to_peer", 0),
        memory_used_bytes=used,
        memory_total_bytes=total,
    )


def _device_memory(device: Device | None) -> tuple[int | None, int | None]:
    """Return the used and total bytes of a device's memory; ``None`` if unknown."""
    if device is None:
        return None, None
    try:
        known = device.memory_info()
    except DriverError as error:  # such as a lost device
        device.suppress(error)
        return None, None
    except TargetUnavailableError:
        return None, None
    return (None, None) if known is None else (known[1] - known[0], known[1])


def _host_memory() -> HostMemory:
    import psutil

    from kerneldsl.statistics.values import HostMemory

    machine = psutil.virtual_memory()
    return HostMemory(
        used_bytes=machine.total - machine.available,
        total_bytes=machine.total,
        process_bytes=psutil.Process().memory_info().rss,
    )
