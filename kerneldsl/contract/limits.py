"""The kind of a device, and the limits that a launch on it is checked against."""

from __future__ import annotations

from typing import Literal, TypeAlias

from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["DeviceKind", "DeviceLimits", "Dim3"]

#: Extents along x, y and z.
Dim3: TypeAlias = tuple[int, int, int]

#: Kind of a device. A GPU has its own memory, shares the host's, or is a virtual machine's part of
#: one. The others are CPUs, or unknown.
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
