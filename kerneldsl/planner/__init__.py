"""Launch planning: the occupancy of a device, and the way a grid fills it.

Pure functions of values, for a device that is there or one that is only planned for. Nothing here
imports Numba or calls a driver.
"""

from __future__ import annotations

from kerneldsl.planner.block_limits import BlockLimits, KernelResources
from kerneldsl.planner.coverage import Coverage, bytes_to_saturate, coverage
from kerneldsl.planner.limits import COMPUTE_CAPABILITIES, ComputeCapability, DeviceOccupancyLimits
from kerneldsl.planner.occupancy import (
    Occupancy,
    PotentialBlock,
    available_dynamic_shared_bytes,
    max_potential_block_size,
    occupancy,
)

__all__ = [
    "COMPUTE_CAPABILITIES",
    "BlockLimits",
    "ComputeCapability",
    "Coverage",
    "DeviceOccupancyLimits",
    "KernelResources",
    "Occupancy",
    "PotentialBlock",
    "available_dynamic_shared_bytes",
    "bytes_to_saturate",
    "coverage",
    "max_potential_block_size",
    "occupancy",
]
