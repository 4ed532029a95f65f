"""How much of a multiprocessor's first cache a kernel wants as shared memory.

The carve-out is a preference of a function, its attribute
``CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT``. Left to the driver, it need not hold all the
blocks that a plan counts on; and what is beyond those is lost to the first cache.

References
----------
CUDA C++ Programming Guide, "Shared Memory" of compute capability 8.x and 9.0; CUDA Driver API,
``cuFuncSetAttribute``.
"""

from __future__ import annotations

import math

from kerneldsl.errors import ArgumentValueError
from kerneldsl.planner import DeviceOccupancyLimits, KernelResources, occupancy
from kerneldsl.target import Device, LaunchConfig, Resources

__all__ = ["wanted_carveout"]


def wanted_carveout(device: Device, resources: Resources, config: LaunchConfig) -> int | None:
    """The preference of a launch.

    Parameters
    ----------
    device : Device
        Where.
    resources : Resources
        What the compiled kernel takes.
    config : LaunchConfig
        What is launched.

    Returns
    -------
    int or None
        Percent of the largest carve-out: the smallest that holds as many blocks as a multiprocessor
        has room for otherwise, as :attr:`~kerneldsl.planner.plan.LaunchPlan.carveout_bytes` says.
        ``None`` where blocks use no shared memory, where one alone is held, for which the driver
        makes room anyway, and where too little is known of the device.
    """
    if not (resources.static_shared_bytes or config.shared_bytes) or resources.registers is None:
        return None
    try:
        limits = DeviceOccupancyLimits.from_device(device)
    except ArgumentValueError:  # older than the model of occupancy
        return None
    kernel = KernelResources.from_resources(resources, limits)
    held = occupancy(limits, kernel, math.prod(config.block_dim), config.shared_bytes)
    if held.active_blocks < 2:
        return None
    return limits.carveout_percent(held.sufficient_carveout_bytes)
