"""Launch planning: the occupancy of a device, and the way a grid fills it.

Pure functions of values, for a device that is there or one that is only planned for. Nothing here
imports Numba or calls a driver. A name is imported when it is requested, since a launch on a CPU
uses none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kerneldsl.planner.block_limits import BlockLimits, KernelResources
    from kerneldsl.planner.block_occupancy import (
        Occupancy,
        PotentialBlock,
        available_dynamic_shared_bytes,
        max_potential_block_size,
        occupancy,
    )
    from kerneldsl.planner.grid_coverage import Coverage, bytes_to_saturate, coverage
    from kerneldsl.planner.limits import (
        COMPUTE_CAPABILITIES,
        ComputeCapability,
        DeviceOccupancyLimits,
    )

_HOME = {
    name: f"kerneldsl.planner.{module}"
    for module, names in {
        "block_limits": "BlockLimits KernelResources",
        "block_occupancy": "Occupancy PotentialBlock available_dynamic_shared_bytes "
        "max_potential_block_size occupancy",
        "grid_coverage": "Coverage bytes_to_saturate coverage",
        "limits": "COMPUTE_CAPABILITIES ComputeCapability DeviceOccupancyLimits",
    }.items()
    for name in names.split()
}

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


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(module), name)
    return value
