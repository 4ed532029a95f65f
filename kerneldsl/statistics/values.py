"""The values that :func:`kerneldsl.stats` returns, and their display."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Any

from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import (
    format_bytes,
    format_duration,
    format_percent,
    html_table,
    text_table,
)

__all__ = ["DeviceStatistics", "HostMemory", "KernelStatistics", "Statistics"]

#: Least share of launches on GPUs that counts as effective use of a GPU.
_EFFECTIVE_SHARE = 0.8
#: Rows of kernels that a summary shows.
_SHOWN_KERNELS = 10


@dataclass(frozen=True, slots=True)
class KernelStatistics:
    """The launches of one kernel on one device.

    Parameters
    ----------
    kernel : str
        Module and qualified name; kernels of one name are counted together.
    device : str
        The device, such as ``"cuda:0"``.
    launches : int
        Number of launches that were started there.
    average_ns : float or None
        Mean time of the timed launches, in nanoseconds; ``None`` if none was timed.
    measured : str or None
        What was timed: ``"device events"``, ``"kernel code"`` or ``"Python call"``; see
        :func:`kerneldsl.stats`.
    """

    kernel: str
    device: str
    launches: int
    average_ns: float | None
    measured: str | None

    @property
    def total_ns(self) -> float | None:
        """Estimated time of all launches together, in nanoseconds."""
        return None if self.average_ns is None else self.average_ns * self.launches


@dataclass(frozen=True, slots=True)
class DeviceStatistics:
    """Statistics of one device.

    Parameters
    ----------
    device : str
        The device, such as ``"cuda:0"``, or ``"cuda"`` if that was requested and not usable.
    is_gpu : bool
        False for the host and for devices that run no kernels, such as the null target's.
    launches : int
        Number of launches that were started there.
    fallbacks : int
        Number of launches for this device that ran on the CPU.
    fallback_reasons : mapping
        Number of fallbacks by reason, such as ``"CUDA_ERROR_OUT_OF_MEMORY"`` or ``"CompileError"``.
    kernel_ns : float or None
        Estimated time of the kernels, in nanoseconds; ``None`` if none was timed.
    host_to_device_bytes, device_to_host_bytes, device_to_device_bytes, device_to_peer_bytes : int
        Bytes that were copied.
    memory_used_bytes, memory_total_bytes : int or None
        Memory of the device in use by all processes, and in total; ``None`` if it is unknown.
    """

    device: str
    is_gpu: bool
    launches: int
    fallbacks: int
    fallback_reasons: Mapping[str, int]
    kernel_ns: float | None
    host_to_device_bytes: int
    device_to_host_bytes: int
    device_to_device_bytes: int
    device_to_peer_bytes: int
    memory_used_bytes: int | None = field(compare=False)
    memory_total_bytes: int | None


@dataclass(frozen=True, slots=True)
class HostMemory:
    """Memory of the machine, in bytes: in use, in total, and held by this process."""

    used_bytes: int
    total_bytes: int
    process_bytes: int


@dataclass(frozen=True, repr=False)
class Statistics:
    """Launches, fallbacks, times and copied bytes, by kernel and device.

    Parameters
    ----------
    devices : tuple of DeviceStatistics
        Each device that was used or requested.
    kernels : tuple of KernelStatistics
        Each kernel on each device.
    host_memory : HostMemory
        Memory of the machine.

    Examples
    --------
    >>> import numpy as np
    >>> import kerneldsl as kd
    >>> @kd.kernel
    ... def double(x):
    ...     x[kd.grid(1)] *= 2
    >>> kd.reset_stats()
    >>> double.forall(3)(np.ones(3))
    >>> found = kd.stats()
    >>> found.launches, found.fallbacks, [each.launches for each in found.kernels]
    (1, 0, [1])
    """

    devices: tuple[DeviceStatistics, ...]
    kernels: tuple[KernelStatistics, ...]
    host_memory: HostMemory = field(compare=False)

    @property
    def launches(self) -> int:
        """The number of launches on all devices."""
        return sum(d.launches for d in self.devices)

    @property
    def fallbacks(self) -> int:
        """The number of launches that ran on the CPU instead of a GPU."""
        return sum(d.fallbacks for d in self.devices)

    @property
    def fallback_reasons(self) -> dict[str, int]:
        """Number of fallbacks by reason."""
        total: Counter[str] = Counter()
        for device in self.devices:
            total.update(device.fallback_reasons)
        return dict(total)

    @property
    def gpu_share_of_launches(self) -> float | None:
        """Share of the launches that ran on GPUs, from 0 to 1; ``None`` without launches."""
        launches = self.launches
        return sum(d.launches for d in self.devices if d.is_gpu) / launches if launches else None

    @property
    def gpu_share_of_time(self) -> float | None:
        """Share of the kernels' time on GPUs, from 0 to 1; ``None`` if none was timed."""
        timed = [(d.is_gpu, d.kernel_ns) for d in self.devices if d.kernel_ns]
        total = sum(ns for _, ns in timed)
        return sum(ns for is_gpu, ns in timed if is_gpu) / total if total else None

    @property
    def average_kernel_ns(self) -> float | None:
        """Estimated mean time of a launch of any kernel, in nanoseconds."""
        timed = [(k.launches, k.total_ns) for k in self.kernels if k.total_ns is not None]
        launches = sum(count for count, _ in timed)
        return sum(ns for _, ns in timed) / launches if launches else None

    def is_gpu_effective(self) -> bool:
        """Return whether at least 0.8 of the launches ran on GPUs; False without launches.

        Examples
        --------
        >>> import kerneldsl as kd
        >>> kd.reset_stats()
        >>> kd.stats().is_gpu_effective()
        False
        """
        share = self.gpu_share_of_launches
        return share is not None and share >= _EFFECTIVE_SHARE

    def to_dict(self) -> dict[str, Any]:
        """Return all values as plain dicts, lists and numbers, for JSON."""
        return {
            "launches": self.launches,
            "fallbacks": self.fallbacks,
            "fallback_reasons": self.fallback_reasons,
            "gpu_share_of_launches": self.gpu_share_of_launches,
            "gpu_share_of_time": self.gpu_share_of_time,
            "average_kernel_ns": self.average_kernel_ns,
            "is_gpu_effective": self.is_gpu_effective(),
            "devices": [
                {**asdict(d), "fallback_reasons": dict(d.fallback_reasons)} for d in self.devices
            ],
            "kernels": [{**asdict(k), "total_ns": k.total_ns} for k in self.kernels],
            "host_memory": asdict(self.host_memory),
        }

    def summary(self) -> str:
        """Return the statistics as text: a few sentences and two tables.

        Examples
        --------
        >>> import kerneldsl as kd
        >>> kd.reset_stats()
        >>> kd.stats().summary().splitlines()[0]
        '0 launches.'
        """
        lines = [*self._sentences(), "", text_table(_DEVICE_HEADERS, self._device_rows())]
        if self.kernels:
            lines += ["", text_table(_KERNEL_HEADERS, self._kernel_rows())]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        text = "".join(f"<p>{line}</p>" for line in self._sentences())
        return (
            text
            + html_table(_DEVICE_HEADERS, self._device_rows(), "Devices")
            + html_table(_KERNEL_HEADERS, self._kernel_rows(), "Kernels")
        )

    def _sentences(self) -> list[str]:
        launches = f"{self.launches:,} launch{'es' * (self.launches != 1)}"
        on_gpu, of_time = self.gpu_share_of_launches, self.gpu_share_of_time
        if on_gpu is not None:
            launches += f", {format_percent(on_gpu)} of them on a GPU"
        if of_time is not None:
            launches += f" and {format_percent(of_time)} of the kernels' time"
        reasons = ", ".join(f"{name} {count:,}" for name, count in self.fallback_reasons.items())
        memory = self.host_memory
        return [
            f"{launches}.",
            f"{self.fallbacks:,} ran on the CPU instead of a GPU{': ' * bool(reasons)}{reasons}.",
            f"Host memory: {format_bytes(memory.used_bytes)} of {format_bytes(memory.total_bytes)} "
            f"used, {format_bytes(memory.process_bytes)} by this process.",
        ]

    def _device_rows(self) -> list[tuple[object, ...]]:
        return [
            (
                d.device,
                f"{d.launches:,}",
                f"{d.fallbacks:,}",
                None if d.kernel_ns is None else format_duration(d.kernel_ns),
                format_bytes(d.host_to_device_bytes),
                format_bytes(d.device_to_host_bytes),
                format_bytes(d.device_to_device_bytes + d.device_to_peer_bytes),
                None if d.memory_used_bytes is None else format_bytes(d.memory_used_bytes),
                None if d.memory_total_bytes is None else format_bytes(d.memory_total_bytes),
            )
            for d in self.devices
        ]

    def _kernel_rows(self) -> list[tuple[object, ...]]:
        """Return the kernels that took longest."""
        longest = sorted(self.kernels, key=lambda k: k.total_ns or 0.0, reverse=True)
        return [
            (
                k.kernel,
                k.device,
                f"{k.launches:,}",
                None if k.average_ns is None else format_duration(k.average_ns),
                k.measured,
            )
            for k in longest[:_SHOWN_KERNELS]
        ]


_DEVICE_HEADERS = (
    "device",
    "launches",
    "fell back",
    "kernel time",
    "from host",
    "to host",
    "on devices",
    "memory used",
    "of",
)
_KERNEL_HEADERS = ("kernel", "device", "launches", "average time", "time of")
