"""A device, and the limits that a launch on it is checked against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

__all__ = ["Device", "DeviceKind", "DeviceLimits", "Dim3"]

#: Extents along x, y and z.
Dim3: TypeAlias = tuple[int, int, int]

#: What a device is: a GPU with memory of its own, one that shares the host's, a share of a GPU that
#: a virtual machine was given, a CPU, or something else.
DeviceKind: TypeAlias = Literal["discrete", "integrated", "virtual", "cpu", "other"]


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """Limits of a device that a launch is checked against, with the driver's names for them."""

    max_threads_per_block: int
    max_block_dim: Dim3
    max_grid_dim: Dim3
    max_shared_memory_per_block: int
    """Bytes of static and dynamic shared memory a block may have together, opt-in included."""
    warp_size: int
    multiprocessor_count: int


@dataclass(frozen=True)
class Device:
    """One device of a target.

    Parameters
    ----------
    target : str
        Name of the target.
    index : int
        Its number there.
    name : str
        What it is called.
    arch : str
        Architecture that :meth:`Target.compile` takes, such as ``"sm_90"`` or ``"native"``.
    limits : DeviceLimits
        What a launch is checked against.
    extra : mapping
        What else the target knows at once, by names of its own. Where it has them,
        ``compute_capability`` (a pair) and ``total_memory_bytes`` count in the choice of the best
        device.
    kind : str
        ``"discrete"``, ``"integrated"``, ``"virtual"``, ``"cpu"`` or ``"other"``.
    """

    target: str
    index: int
    name: str
    arch: str
    limits: DeviceLimits
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    kind: DeviceKind = "other"

    def __str__(self) -> str:
        return self.target if self.target == "cpu" else f"{self.target}:{self.index}"
