"""Limits of a multiprocessor from which occupancy is computed.

The driver reports most of them (:meth:`DeviceOccupancyLimits.from_device`). It does not report how
registers and shared memory are allocated. `RULES` has that for each compute capability, and the
limits of devices that are not present (:meth:`DeviceOccupancyLimits.for_compute_capability`).

References
----------
CUDA C++ Programming Guide, "Compute Capabilities", table "Technical Specifications per Compute
Capability"; NVIDIA's header ``cuda_occupancy.h`` of CUDA 13.5, with which the model is compared in
``tests/occupancy``.
"""

from __future__ import annotations

from dataclasses import fields
from typing import NamedTuple, TypeAlias

from kerneldsl.contract import Device
from kerneldsl.errors import ArgumentValueError
from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "COMPUTE_CAPABILITIES",
    "KB",
    "RULES",
    "AllocationRules",
    "ComputeCapability",
    "DeviceOccupancyLimits",
]

#: Major and minor.
ComputeCapability: TypeAlias = tuple[int, int]

#: Bytes of a KB, as CUDA's documents count.
KB = 1024

# Sizes in KB that the memory shared with the L1 cache can be given, smallest first.
_TURING = (32, 64)
_UP_TO_100 = (0, 8, 16, 32, 64, 100)
_UP_TO_164 = (*_UP_TO_100, 132, 164)
_UP_TO_228 = (*_UP_TO_164, 196, 228)
_UP_TO_328 = (*_UP_TO_228, 328)


class AllocationRules(NamedTuple):
    """Allocation rules of a compute capability."""

    #: Threads on a multiprocessor; ``None`` where NVIDIA has not published it.
    threads: int | None
    #: Blocks on a multiprocessor.
    blocks: int
    #: Sizes of shared memory a multiprocessor can be set to, KB, ascending.
    carveouts: tuple[int, ...]
    #: Bytes that shared memory of a block is rounded up to.
    shared_unit: int = 128
    #: Bytes of shared memory that the driver takes of each block.
    reserved: int = KB
    #: Barriers for each block that fits on a multiprocessor; ``None`` if they are no limit.
    barriers_per_block: int | None = None
    #: Virtual resources of a multiprocessor; ``None`` if there are none.
    virtual_resources: int | None = None


#: The rules, by compute capability, oldest first.
RULES: dict[ComputeCapability, AllocationRules] = {
    (7, 5): AllocationRules(1024, 16, _TURING, shared_unit=256, reserved=0),
    (8, 0): AllocationRules(2048, 32, _UP_TO_164),
    (8, 6): AllocationRules(1536, 16, _UP_TO_100),
    (8, 7): AllocationRules(1536, 16, _UP_TO_164),
    (8, 8): AllocationRules(1536, 16, _UP_TO_100),
    (8, 9): AllocationRules(1536, 24, _UP_TO_100),
    (9, 0): AllocationRules(2048, 32, _UP_TO_228, barriers_per_block=2),
    (10, 0): AllocationRules(2048, 32, _UP_TO_228, barriers_per_block=2, virtual_resources=128),
    # CUDA 13 calls it 11.0, and published its threads under that number.
    (10, 1): AllocationRules(1536, 24, _UP_TO_228, barriers_per_block=1, virtual_resources=128),
    (10, 3): AllocationRules(2048, 32, _UP_TO_228, barriers_per_block=1, virtual_resources=128),
    (10, 7): AllocationRules(None, 16, _UP_TO_328, barriers_per_block=1, virtual_resources=128),
    (11, 0): AllocationRules(1536, 24, _UP_TO_228, barriers_per_block=1, virtual_resources=128),
    (12, 0): AllocationRules(1536, 24, _UP_TO_100, barriers_per_block=1, virtual_resources=128),
    (12, 1): AllocationRules(1536, 24, _UP_TO_100, barriers_per_block=1, virtual_resources=128),
}

#: The compute capabilities with known rules, oldest first.
COMPUTE_CAPABILITIES: tuple[ComputeCapability, ...] = tuple(RULES)


@dataclass(frozen=True, slots=True)
class DeviceOccupancyLimits:
    """Limits of one multiprocessor, and of one block on it.

    Parameters
    ----------
    compute_capability : tuple of int
        Major and minor.
    max_threads_per_block, max_threads_per_multiprocessor, max_blocks_per_multiprocessor : int
        Counts; the second divided by `warp_size` is the number of warps.
    max_registers_per_block, max_registers_per_multiprocessor : int
        32-bit registers.
    max_shared_memory_per_block : int
        Bytes of static and dynamic shared memory a block gets without opting in.
    max_shared_memory_per_block_optin : int
        The same with opting in.
    max_shared_memory_per_multiprocessor : int
        Bytes.
    reserved_shared_memory_per_block : int
        Bytes of shared memory that the driver takes of each block, beyond the two limits above.
    shared_memory_allocation_unit : int
        Bytes that a block's shared memory is rounded up to.
    shared_memory_carveouts : tuple of int
        Bytes of shared memory that a multiprocessor can be set to, ascending; the L1 cache has the
        rest.
    max_barriers_per_multiprocessor : int or None
        Barriers; ``None`` if they are no limit.
    max_virtual_resources_per_multiprocessor : int or None
        NVIDIA's header counts them from compute capability 10.0 on, without an explanation.
        ``None`` if there are none.
    multiprocessor_count : int
        Multiprocessors of the device.
    warp_size : int
        Threads of a warp.
    register_allocation_unit : int
        Registers that a warp's registers are rounded up to.
    register_partitions : int
        Parts that a multiprocessor's registers and warps are divided into; a warp has all its
        registers in one.
    max_registers_per_thread : int
        The largest number of registers with which the calculator lets a block run. Instructions can
        name 255, which are allocated as 256.
    rules_of : tuple of int or None
        For a device newer than the table, the compute capability with the assumed allocation rules;
        ``None`` if the rules of the device are known.

    Raises
    ------
    ArgumentValueError
        A limit is not positive, or the carve-outs are not ascending or too small for a block.
    """

    compute_capability: ComputeCapability
    max_threads_per_block: int
    max_threads_per_multiprocessor: int
    max_blocks_per_multiprocessor: int
    max_registers_per_block: int
    max_registers_per_multiprocessor: int
    max_shared_memory_per_block: int
    max_shared_memory_per_block_optin: int
    max_shared_memory_per_multiprocessor: int
    reserved_shared_memory_per_block: int
    shared_memory_allocation_unit: int
    shared_memory_carveouts: tuple[int, ...]
    max_barriers_per_multiprocessor: int | None = None
    max_virtual_resources_per_multiprocessor: int | None = None
    multiprocessor_count: int = 1
    warp_size: int = 32
    register_allocation_unit: int = 256
    register_partitions: int = 4
    max_registers_per_thread: int = 256
    rules_of: ComputeCapability | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            least = 0 if each.name == "reserved_shared_memory_per_block" else 1
            if isinstance(value, int) and value < least:
                raise ArgumentValueError(
                    f"{each.name} is {value}",
                    value=value,
                    limit=f"The limits of a device are at least {least}",
                    remedy="Take them with from_device or for_compute_capability",
                )
        sizes = self.shared_memory_carveouts
        need = max(
            self.max_shared_memory_per_multiprocessor,
            _round_up(
                self.max_shared_memory_per_block_optin + self.reserved_shared_memory_per_block,
                self.shared_memory_allocation_unit,
            ),
        )
        if list(sizes) != sorted(set(sizes)) or not sizes or sizes[0] < 0 or sizes[-1] < need:
            raise ArgumentValueError(
                f"shared_memory_carveouts is {sizes}",
                value=sizes,
                limit=f"The sizes ascend, and the last holds the {need} bytes that a block or the "
                "multiprocessor can have",
                remedy="Take them with from_device or for_compute_capability",
            )

    @property
    def max_warps_per_multiprocessor(self) -> int:
        """Warps that a multiprocessor holds."""
        return self.max_threads_per_multiprocessor // self.warp_size

    @classmethod
    def for_compute_capability(
        cls, compute_capability: ComputeCapability, *, multiprocessor_count: int = 1
    ) -> DeviceOccupancyLimits:
        """Return the limits of a compute capability, without a device.

        Parameters
        ----------
        compute_capability : tuple of int
            Major and minor, 7.5 to 12.1.
        multiprocessor_count : int
            Multiprocessors; products of one compute capability differ in it.

        Returns
        -------
        DeviceOccupancyLimits

        Raises
        ------
        ArgumentValueError
            Not enough is known of it; the message lists what is known.

        Examples
        --------
        >>> hopper = DeviceOccupancyLimits.for_compute_capability((9, 0), multiprocessor_count=132)
        >>> hopper.max_warps_per_multiprocessor, hopper.max_shared_memory_per_block_optin
        (64, 232448)
        """
        rules = RULES.get(compute_capability)
        if rules is None or rules.threads is None:
            known = ", ".join(f"{a}.{b}" for (a, b), r in RULES.items() if r.threads is not None)
            raise ArgumentValueError(
                f"compute_capability {compute_capability} has no known limits",
                value=compute_capability,
                limit=f"Limits are known for {known}",
                remedy="Take the limits of a device that is there, with from_device",
            )
        largest = rules.carveouts[-1] * KB
        return cls(
            compute_capability=compute_capability,
            max_threads_per_block=1024,
            max_threads_per_multiprocessor=rules.threads,
            max_blocks_per_multiprocessor=rules.blocks,
            max_registers_per_block=65536,
            max_registers_per_multiprocessor=65536,
            max_shared_memory_per_block=48 * KB,
            max_shared_memory_per_block_optin=largest - rules.reserved,
            max_shared_memory_per_multiprocessor=largest,
            reserved_shared_memory_per_block=rules.reserved,
            shared_memory_allocation_unit=rules.shared_unit,
            shared_memory_carveouts=tuple(size * KB for size in rules.carveouts),
            max_barriers_per_multiprocessor=_barriers(rules, rules.blocks),
            max_virtual_resources_per_multiprocessor=rules.virtual_resources,
            multiprocessor_count=multiprocessor_count,
        )

    @classmethod
    def from_device(cls, device: Device) -> DeviceOccupancyLimits:
        """Return the limits of a device that is there, from what its driver says.

        Parameters
        ----------
        device : Device
            A CUDA device; its `extra` holds the driver's attributes by their names.

        Returns
        -------
        DeviceOccupancyLimits
            For a device newer than the table, with the rules of the newest compute capability that
            is not newer than it, and `rules_of` naming that.

        Raises
        ------
        ArgumentValueError
            The device is older than 7.5, or is no CUDA device: attributes are missing.
        """
        extra = device.extra
        missing = [name for name in _ATTRIBUTES if extra.get(name) is None]
        if missing:
            raise ArgumentValueError(
                f"{device} ({device.name}) does not report {', '.join(missing)}",
                value=str(device),
                limit="Occupancy is computed for CUDA devices",
                remedy="Name a CUDA device, or use for_compute_capability",
            )
        major, minor = capability = extra["compute_capability"]
        known = max((each for each in RULES if each <= (major, minor)), default=None)
        if known is None:
            raise ArgumentValueError(
                f"{device} ({device.name}) has compute capability {major}.{minor}",
                value=capability,
                limit="The model of occupancy begins with 7.5",
                remedy="Give grid and block explicitly",
            )
        rules = RULES[known]
        limits, blocks = device.limits, extra["max_blocks_per_multiprocessor"]
        largest = extra["max_shared_memory_per_multiprocessor"]
        return cls(
            **{name: extra[name] for name in _ATTRIBUTES},
            max_threads_per_block=limits.max_threads_per_block,
            max_shared_memory_per_block_optin=limits.max_shared_memory_per_block,
            shared_memory_allocation_unit=rules.shared_unit,
            shared_memory_carveouts=_carveouts(rules, largest),
            max_barriers_per_multiprocessor=_barriers(rules, blocks),
            max_virtual_resources_per_multiprocessor=rules.virtual_resources,
            multiprocessor_count=limits.multiprocessor_count,
            warp_size=limits.warp_size,
            rules_of=None if known == (major, minor) else known,
        )

    def carveout_for(self, nbytes: int) -> int:
        """Return the smallest carve-out that holds so many bytes.

        Raises `ArgumentValueError` if no carve-out is that large.
        """
        for size in self.shared_memory_carveouts:
            if size >= nbytes:
                return size
        raise ArgumentValueError(
            f"{nbytes} bytes of shared memory are requested of a multiprocessor",
            value=nbytes,
            limit=f"It can be set to {self.shared_memory_carveouts[-1]} at most",
            remedy="Use fewer blocks, or less shared memory a block",
        )

    def carveout_percent(self, nbytes: int) -> int:
        """Return the preference that sets an SM to the smallest carve-out of at least `nbytes`.

        Parameters
        ----------
        nbytes : int
            Bytes of shared memory of a multiprocessor.

        Returns
        -------
        int
            Percent of the largest carve-out, as
            ``CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT`` takes it.

        Raises
        ------
        ArgumentValueError
            No carve-out is that large.

        Examples
        --------
        >>> hopper = DeviceOccupancyLimits.for_compute_capability((9, 0))
        >>> hopper.carveout_percent(90 * 1024)
        43
        """
        # The driver rounds a preference up to a carve-out; so this is rounded down.
        size = min(self.carveout_for(nbytes), self.max_shared_memory_per_multiprocessor)
        return 100 * size // self.max_shared_memory_per_multiprocessor


#: Fields that a device's `extra` holds under the same names.
_ATTRIBUTES = (
    "compute_capability",
    "max_threads_per_multiprocessor",
    "max_blocks_per_multiprocessor",
    "max_registers_per_block",
    "max_registers_per_multiprocessor",
    "max_shared_memory_per_block",
    "max_shared_memory_per_multiprocessor",
    "reserved_shared_memory_per_block",
)


def _barriers(rules: AllocationRules, blocks: int) -> int | None:
    return None if rules.barriers_per_block is None else rules.barriers_per_block * blocks


def _carveouts(rules: AllocationRules, per_multiprocessor: int) -> tuple[int, ...]:
    """Return the sizes of the table, with what the driver says is the largest."""
    sizes = tuple(size * KB for size in rules.carveouts)
    return sizes if per_multiprocessor <= sizes[-1] else (*sizes, per_multiprocessor)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
