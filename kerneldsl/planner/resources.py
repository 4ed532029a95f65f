"""What a compiled kernel takes of a multiprocessor."""

from __future__ import annotations

from dataclasses import dataclass

from kerneldsl.errors import ArgumentValueError
from kerneldsl.planner.limits import DeviceOccupancyLimits
from kerneldsl.target import Resources

__all__ = ["KernelResources"]


@dataclass(frozen=True, slots=True)
class KernelResources:
    """What a compiled kernel takes, as far as it bears on occupancy.

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
        (``CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES``); ``None`` where it has not, so that
        static and dynamic together are limited to what needs no opt-in.
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
                limit="It is a part of the largest carve-out, 0 to 100",
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
        """What a kernel of ours takes on a device.

        Parameters
        ----------
        resources : Resources
            Of the compiled kernel.
        device : DeviceOccupancyLimits
            Where it is launched; launches opt in to all the dynamic shared memory there is.
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
                "The kernel's resources name no registers",
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
            limit=f"It is at least {least}",
            remedy="Take the numbers of the compiled kernel",
        )
