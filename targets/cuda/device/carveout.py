"""Carveout: the share of a multiprocessor's L1 cache that a kernel uses as shared memory.

The carve-out is a preference of a function, its attribute
``CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT``. The driver's own choice may be
too small for all the blocks that a plan counts on. A choice that is too large takes memory from the
L1 cache.

References
----------
CUDA C++ Programming Guide, "Shared Memory" of compute capability 8.x and 9.0; CUDA Driver API,
``cuFuncSetAttribute``.
"""

from __future__ import annotations

import math
from typing import NoReturn

from kerneldsl.contract import Device, LaunchConfig, Resources
from kerneldsl.errors import ArgumentValueError, ResourceLimitError
from kerneldsl.planner import DeviceOccupancyLimits, KernelResources, occupancy

__all__ = ["Carveout", "check_resources"]

#: Most shapes of blocks that are remembered; one more clears them.
_MAX_SHAPES = 64


class Carveout:
    """Carveout of one function: the largest that any of its launches needs.

    It belongs to the function: launches of other shapes may still need the larger one.
    """

    def __init__(self, device: Device, resources: Resources) -> None:
        self._device = device
        self._resources = resources
        self._known: set[tuple[int, int]] = set()
        #: Largest carveout so far in percent; 0 if no launch needed one.
        self.percent = 0

    def is_raised_by(self, config: LaunchConfig) -> bool:
        """Return whether a launch needs more than those before; then `percent` is updated."""
        if not (self._resources.static_shared_bytes or config.shared_bytes):
            return False
        shape = (math.prod(config.block_dim), config.shared_bytes)
        if shape in self._known:
            return False
        if len(self._known) >= _MAX_SHAPES:
            self._known.clear()
        self._known.add(shape)
        wanted = self._wanted(*shape)
        if wanted <= self.percent:
            return False
        self.percent = wanted
        return True

    def _wanted(self, block_threads: int, shared_bytes: int) -> int:
        """Return the smallest part that holds the blocks for which there is room otherwise.

        That is what :attr:`~kerneldsl.planner.plan.LaunchPlan.carveout_bytes` says; 0 where one
        alone is held, for which the driver makes room anyway, and where too little is known.
        """
        if self._resources.registers is None:
            return 0
        try:
            limits = DeviceOccupancyLimits.from_device(self._device)
        except ArgumentValueError:  # older than the model of occupancy
            return 0
        kernel = KernelResources.from_resources(self._resources, limits)
        held = occupancy(limits, kernel, block_threads, shared_bytes)
        if held.active_blocks < 2:
            return 0
        return limits.carveout_percent(held.sufficient_carveout_bytes)


# Check of a device's resources against a compiled kernel's needs at a launch.
#
# Checked before each launch, so that a kernel never starts with a configuration the driver would
# refuse.


def check_resources(name: str, resources: Resources, device: Device, config: LaunchConfig) -> None:
    """Refuse a launch for which the device has too little.

    Raises `ResourceLimitError` if the block has more threads than the kernel's registers allow, or
    if static and dynamic shared memory together exceed the limit of a block.
    """
    threads = config.block_dim[0] * config.block_dim[1] * config.block_dim[2]
    if threads > resources.max_block_threads:
        _refuse_block(name, resources, device, config, threads)
    shared = resources.static_shared_bytes + config.shared_bytes
    limit = device.limits.max_shared_memory_per_block
    if shared > limit:
        raise ResourceLimitError(
            f"{name} needs {shared} bytes of shared memory a block "
            f"({resources.static_shared_bytes} static, {config.shared_bytes} dynamic)",
            value=shared,
            limit=f"{device} ({device.name}) allows {limit} (MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)",
            remedy="Use smaller tiles or fewer shared_bytes",
        )


def _refuse_block(
    name: str, resources: Resources, device: Device, config: LaunchConfig, threads: int
) -> NoReturn:
    registers = f" with its {resources.registers} registers a thread" if resources.registers else ""
    raise ResourceLimitError(
        f"block_dim {config.block_dim} has {threads} threads",
        value=config.block_dim,
        limit=f"{name}{registers} can run with {resources.max_block_threads} threads a block on "
        f"{device} ({device.name}) (MAX_THREADS_PER_BLOCK of the compiled kernel)",
        remedy="Use a smaller block, or compile with launch_bounds= or max_registers=",
    )
