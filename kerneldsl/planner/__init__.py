"""Launch planning: the occupancy of a device, and the way a grid fills it.

Pure functions of values, for a device that is there or one that is only planned for. Nothing here
imports Numba or calls a driver. A name is imported when it is requested, since a launch on a CPU
uses none of them.
"""

from __future__ import annotations

from typing import Any

#: Name to its module. The stub for type checkers is made of it.
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

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(module), name)
    return value
