"""Devices for planning if none is there: a large card of each generation.

References
----------
NVIDIA's architecture whitepapers and data sheets of the T4, A100, A40, Jetson AGX Orin, L40S, H100
SXM5, B200, B300, Jetson Thor, RTX PRO 6000 Blackwell and DGX Spark.
"""

from __future__ import annotations

import re

from kerneldsl.contract import Device, DeviceLimits
from kerneldsl.errors import ArgumentValueError
from kerneldsl.errors.values import safe_repr
from kerneldsl.planner.limits import DeviceOccupancyLimits
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.locks import OnceTable
from targets.cuda.device.device import CudaDevice

__all__ = ["described_device"]

_GRID, _BLOCK = (2**31 - 1, 65535, 65535), (1024, 1024, 64)


@dataclass(frozen=True, slots=True)
class _Card:
    """A card that stands for its generation."""

    name: str
    multiprocessors: int
    clock_mhz: int
    gb_per_s: int
    l2_mb: int


_CARDS: dict[tuple[int, int], _Card] = {
    (7, 5): _Card("T4", 40, 1590, 320, 4),
    (8, 0): _Card("A100", 108, 1410, 1555, 40),
    (8, 6): _Card("A40", 84, 1740, 696, 6),
    (8, 7): _Card("Jetson AGX Orin", 16, 1300, 204, 4),
    (8, 9): _Card("L40S", 142, 2520, 864, 96),
    (9, 0): _Card("H100 SXM5", 132, 1980, 3350, 50),
    (10, 0): _Card("B200", 148, 1965, 8000, 126),
    (10, 3): _Card("B300", 148, 1965, 8000, 126),
    (11, 0): _Card("Jetson Thor", 20, 1575, 273, 32),
    (12, 0): _Card("RTX PRO 6000 Blackwell", 188, 2600, 1792, 128),
    (12, 1): _Card("DGX Spark", 48, 2500, 273, 24),
}


class DescribedDevice(Device):
    """A device that is not there: it can be planned for, and nothing else."""

    is_described = True
    compiler = CudaDevice.compiler

    def __str__(self) -> str:
        return f"{self.arch}, {self.name}"


def described_device(arch: str) -> DescribedDevice:
    """Return a device of an architecture, to plan for.

    It has the limits of the compute capability, and the size and speed of a large card.

    Raises `ArgumentValueError` where not enough is known of it; the message lists what is known.

    Examples
    --------
    >>> described_device("sm_90").name
    'H100 SXM5 (assumed)'
    """
    # An object that is no text may be unhashable.
    arch = arch if isinstance(arch, str) else safe_repr(arch)
    return _known.get_or_make(arch, lambda: _described(arch))


#: One device for each architecture: plans are looked up by their device.
_known: OnceTable[str, DescribedDevice] = OnceTable()


def _described(arch: str) -> DescribedDevice:
    match = re.fullmatch(r"(?:sm_|compute_)(\d{1,3})(\d)[af]?", arch)
    capability = (int(match[1]), int(match[2])) if match else None
    card = _CARDS.get(capability) if capability else None
    if capability is None or card is None:
        known = ", ".join(f"sm_{major}{minor}" for major, minor in _CARDS)
        raise ArgumentValueError(
            f"arch is {safe_repr(arch)}",
            value=arch,
            limit=f"Plans can be made for {known}",
            remedy="Name one of them, or a device that is there: plan(…, device='cuda:0')",
        )
    limits = DeviceOccupancyLimits.for_compute_capability(
        capability, multiprocessor_count=card.multiprocessors
    )
    extra = {
        "compute_capability": capability,
        "max_threads_per_multiprocessor": limits.max_threads_per_multiprocessor,
        "max_blocks_per_multiprocessor": limits.max_blocks_per_multiprocessor,
        "max_registers_per_block": limits.max_registers_per_block,
        "max_registers_per_multiprocessor": limits.max_registers_per_multiprocessor,
        "max_shared_memory_per_block": limits.max_shared_memory_per_block,
        "max_shared_memory_per_multiprocessor": limits.max_shared_memory_per_multiprocessor,
        "reserved_shared_memory_per_block": limits.reserved_shared_memory_per_block,
        "l2_cache_size": card.l2_mb << 20,
        "clock_rate": card.clock_mhz * 1000,
        # The driver reports half of the rate, since memory makes two transfers a clock.
        "memory_clock_rate": card.gb_per_s * 500_000,
        "global_memory_bus_width": 8,
        "cooperative_launch": 1,
        "cluster_launch": int(capability >= (9, 0)),
    }
    return DescribedDevice(
        "cuda",
        0,
        f"{card.name} (assumed)",
        str(arch),
        DeviceLimits(
            1024,
            _BLOCK,
            _GRID,
            limits.max_shared_memory_per_block_optin,
            limits.warp_size,
            card.multiprocessors,
        ),
        extra,
        "discrete",
    )
