"""Resources of a compiled kernel, and the blocks per multiprocessor that each of them allows.

The arithmetic of :mod:`~kerneldsl.planner.block_occupancy`, in integers alone, as the hardware
counts.

References
----------
NVIDIA's header ``cuda_occupancy.h``; the model is compared with it in ``tests/occupancy``.
"""

from __future__ import annotations

from typing import NamedTuple

from kerneldsl.contract import Resources
from kerneldsl.errors import ArgumentValueError
from kerneldsl.planner.limits import DeviceOccupancyLimits
from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "BlockLimits",
    "KernelResources",
    "block_limits",
    "dynamic_share",
    "least",
    "preferred_carveout",
    "register_limit",
    "shared_limit_per_block",
]


@dataclass(frozen=True, slots=True)
class KernelResources:
    """Resources of a compiled kernel that occupancy depends on.

    Parameters
    ----------
    registers : int
        Registers a thread.
    static_shared_bytes : int
        Bytes of static shared memory a block.
    max_threads_per_block : int
        The largest block that the kernel was compiled for.
    max_dynamic_shared_bytes : int or None
        Bytes of dynamic shared memory that the kernel has opted in to
        (``CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES``); ``None`` if it has not. Static
        and dynamic memory together are then limited to what needs no opt-in.
    carveout_percent : int or None
        Preferred part of the largest carve-out, 0 to 100
        (``CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT``); ``None`` for no preference, which
        counts as the largest.
    barriers : int
        Barriers of a block.
    virtual_resources : int
        Virtual resources of a block; see `DeviceOccupancyLimits`.

    Raises
    ------
    ArgumentValueError
        A quantity is negative or out of its range.
    """

    registers: int
    static_shared_bytes: int = 0
    max_threads_per_block: int = 1024
    max_dynamic_shared_bytes: int | None = None
    carveout_percent: int | None = None
    barriers: int = 1
    virtual_resources: int = 0

    def __post_init__(self) -> None:
        _check_least("registers", self.registers, 0)
        _check_least("static_shared_bytes", self.static_shared_bytes, 0)
        _check_least("max_threads_per_block", self.max_threads_per_block, 1)
        _check_least("max_dynamic_shared_bytes", self.max_dynamic_shared_bytes, 0)
        _check_least("barriers", self.barriers, 0)
        _check_least("virtual_resources", self.virtual_resources, 0)
        percent = self.carveout_percent
        if percent is not None and not 0 <= percent <= 100:
            raise ArgumentValueError(
                f"carveout_percent is {percent}",
                value=percent,
                limit="It must be a percentage of the largest carve-out, 0 to 100",
                remedy="Leave it out for no preference",
            )

    @classmethod
    def from_resources(
        cls,
        resources: Resources,
        device: DeviceOccupancyLimits,
        *,
        carveout_percent: int | None = None,
    ) -> KernelResources:
        """Return what a kernel of kerneldsl takes on a device.

        Parameters
        ----------
        resources : Resources
            Of the compiled kernel.
        device : DeviceOccupancyLimits
            The device of the launch; launches opt in to all its dynamic shared memory.
        carveout_percent : int, optional
            The preferred carve-out.

        Returns
        -------
        KernelResources

        Raises
        ------
        ArgumentValueError
            The kernel was compiled for a target that knows no registers.
        """
        if resources.registers is None:
            raise ArgumentValueError(
                "The kernel's resources have no register count",
                value=resources,
                limit="Occupancy is computed for kernels compiled to PTX",
                remedy="Compile the kernel for cuda",
            )
        optin = device.max_shared_memory_per_block_optin
        return cls(
            registers=resources.registers,
            static_shared_bytes=resources.static_shared_bytes,
            max_threads_per_block=resources.max_block_threads,
            max_dynamic_shared_bytes=max(0, optin - resources.static_shared_bytes),
            carveout_percent=carveout_percent,
        )


def _check_least(name: str, value: int | None, least: int) -> None:
    if value is not None and value < least:
        raise ArgumentValueError(
            f"{name} is {value}",
            value=value,
            limit=f"It must be at least {least}",
            remedy="Take the numbers of the compiled kernel",
        )


class BlockLimits(NamedTuple):
    """Blocks on a multiprocessor that each resource alone would allow; ``None`` for no limit."""

    warps: int
    registers: int | None
    shared_memory: int | None
    blocks: int
    barriers: int | None
    virtual_resources: int | None


def block_limits(
    device: DeviceOccupancyLimits, kernel: KernelResources, block_threads: int, dynamic: int
) -> tuple[BlockLimits, int, int]:
    """Return what each resource allows a block of a kernel.

    With them the registers and the bytes of shared memory that a block is given.
    """
    warps = -(-block_threads // device.warp_size)
    by_warps = (
        0
        if block_threads > device.max_threads_per_block
        else device.max_warps_per_multiprocessor // warps
    )
    by_registers, registers = register_limit(device, kernel.registers, warps)
    by_shared, shared = _shared_limit(device, kernel, dynamic)
    limits = BlockLimits(
        by_warps,
        by_registers,
        by_shared,
        device.max_blocks_per_multiprocessor,
        _count_limit(device.max_barriers_per_multiprocessor, kernel.barriers),
        _count_limit(device.max_virtual_resources_per_multiprocessor, kernel.virtual_resources),
    )
    return limits, registers, shared


def least(limits: BlockLimits) -> int:
    """Return the blocks that all limits together allow."""
    return min(limit for limit in limits if limit is not None)


def register_limit(
    device: DeviceOccupancyLimits, registers: int, warps: int
) -> tuple[int | None, int]:
    """Return blocks of so many warps that the registers allow, and the registers of one.

    The blocks are ``None`` where no registers are taken.
    """
    unit, partitions = device.register_allocation_unit, device.register_partitions
    per_warp = -(-registers * device.warp_size // unit) * unit
    per_block = per_warp * warps
    # The hardware checks a block as if each partition got the same number of its warps.
    checked = per_warp * -(-warps // partitions) * partitions
    if checked > device.max_registers_per_block or registers > device.max_registers_per_thread:
        return 0, per_block
    if not per_warp:
        return None, per_block
    warps_in_partition = device.max_registers_per_multiprocessor // partitions // per_warp
    return warps_in_partition * partitions // warps, per_block


def _shared_limit(
    device: DeviceOccupancyLimits, kernel: KernelResources, dynamic: int
) -> tuple[int | None, int]:
    unit = device.shared_memory_allocation_unit
    fixed = kernel.static_shared_bytes + device.reserved_shared_memory_per_block
    allocated = -(-(fixed + dynamic) // unit) * unit
    cap = kernel.max_dynamic_shared_bytes
    opted_in = cap is not None and fixed + cap > device.max_shared_memory_per_block
    if (cap is not None and dynamic > cap) or allocated > shared_limit_per_block(
        device, opted_in=opted_in
    ):
        return 0, allocated
    if not allocated:
        return None, allocated
    room = preferred_carveout(device, kernel)
    if room < allocated:
        room = device.carveout_for(allocated)
    return room // allocated, allocated


def shared_limit_per_block(device: DeviceOccupancyLimits, *, opted_in: bool) -> int:
    """Return the bytes a block may be given, with what the driver takes of it."""
    limit = (
        device.max_shared_memory_per_block_optin if opted_in else device.max_shared_memory_per_block
    )
    return limit + device.reserved_shared_memory_per_block


def preferred_carveout(device: DeviceOccupancyLimits, kernel: KernelResources) -> int:
    percent = 100 if kernel.carveout_percent is None else kernel.carveout_percent
    return device.carveout_for(percent * device.max_shared_memory_per_multiprocessor // 100)


def dynamic_share(
    device: DeviceOccupancyLimits, kernel: KernelResources, active_blocks: int
) -> int:
    """Return the bytes of dynamic shared memory that each of so many blocks can have at once."""
    can_opt_in = device.max_shared_memory_per_multiprocessor > device.max_shared_memory_per_block
    cap = kernel.max_dynamic_shared_bytes
    block_limit = shared_limit_per_block(device, opted_in=can_opt_in and cap is not None)
    if active_blocks == 1:
        room = block_limit
    else:
        # Some carve-out is needed, whatever is preferred.
        room = preferred_carveout(device, kernel) or device.carveout_for(1)
    unit = device.shared_memory_allocation_unit
    share = min(room // active_blocks // unit * unit, block_limit)
    share -= kernel.static_shared_bytes + device.reserved_shared_memory_per_block
    return share if cap is None else min(share, cap)


def _count_limit(available: int | None, taken: int) -> int | None:
    return None if available is None or not taken else available // taken
