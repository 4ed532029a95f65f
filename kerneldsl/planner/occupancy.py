"""How many blocks of a kernel a multiprocessor holds at once, and what limits them.

A model of CUDA's occupancy calculator in plain Python, for compute capability 7.5 to 12.1. It gives
the numbers that ``cuOccupancyMaxActiveBlocksPerMultiprocessor``,
``cuOccupancyMaxPotentialBlockSize`` and ``cuOccupancyAvailableDynamicSMemPerBlock`` give, without a
driver, and the reasons that those do not give (:mod:`~kerneldsl.planner.explanation`).

Each resource alone allows a number of blocks; the least of them is what is held:

- *warps*: a block takes whole warps of the multiprocessor's.
- *registers*: a warp takes its threads' registers, rounded up to an allocation unit, out of one of
  the partitions, so that what is left over in one is of no use to another. A block is refused where
  its warps, rounded up to a multiple of the partitions, would take more than a block may have.
- *shared memory*: a block takes its static, dynamic and reserved bytes, rounded up, out of what the
  carve-out gives to shared memory. A carve-out too small for one block is enlarged to the next that
  holds one.
- *blocks*, *barriers* and *virtual resources*: counts.

Clusters are not modelled: NVIDIA's calculator does not either, and how many fit depends on how the
multiprocessors of a device are grouped, which only its driver knows.

References
----------
CUDA C++ Programming Guide, sections "Occupancy Calculator" and "Compute Capabilities"; CUDA Driver
API, section "Occupancy"; NVIDIA's header ``cuda_occupancy.h``.
"""

from __future__ import annotations

from dataclasses import dataclass

from kerneldsl.errors import LaunchConfigError
from kerneldsl.planner.block_limits import BlockLimits, block_limits, least
from kerneldsl.planner.limits import DeviceOccupancyLimits
from kerneldsl.planner.resources import KernelResources

__all__ = ["Occupancy", "check_block", "occupancy"]


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many blocks a multiprocessor holds at once, and why not more.

    Parameters
    ----------
    device : DeviceOccupancyLimits
        What there is.
    kernel : KernelResources
        What a thread or block takes.
    block_threads : int
        Threads of a block.
    dynamic_shared_bytes : int
        Bytes of dynamic shared memory a block.
    active_blocks : int
        Blocks that a multiprocessor holds at once; 0 where the launch is impossible.
    limits : BlockLimits
        Blocks that each resource alone would allow.
    registers_per_block : int
        Registers allocated for a block.
    shared_bytes_per_block : int
        Bytes of shared memory allocated for a block, reserved and rounded.
    """

    device: DeviceOccupancyLimits
    kernel: KernelResources
    block_threads: int
    dynamic_shared_bytes: int
    active_blocks: int
    limits: BlockLimits
    registers_per_block: int
    shared_bytes_per_block: int

    @property
    def warps_per_block(self) -> int:
        """Warps of a block; the last may be partly empty."""
        return -(-self.block_threads // self.device.warp_size)

    @property
    def active_warps(self) -> int:
        """Warps that a multiprocessor holds at once."""
        return self.active_blocks * self.warps_per_block

    @property
    def active_threads(self) -> int:
        """Threads that a multiprocessor holds at once."""
        return self.active_blocks * self.block_threads

    @property
    def fraction(self) -> float:
        """Active warps over the warps that a multiprocessor has room for."""
        return self.active_warps / self.device.max_warps_per_multiprocessor

    @property
    def limiters(self) -> tuple[str, ...]:
        """The fields of `limits` that allow no more than `active_blocks`."""
        return tuple(
            name
            for name, blocks in zip(BlockLimits._fields, self.limits, strict=True)
            if blocks == self.active_blocks
        )

    @property
    def sufficient_carveout_bytes(self) -> int:
        """The smallest carve-out that holds the active blocks; what is beyond it serves L1."""
        return self.device.carveout_for(self.active_blocks * self.shared_bytes_per_block)

    def summary(self) -> str:
        """Say in one sentence what is held and what limits it."""
        from kerneldsl.planner.explanation import summarize_occupancy

        return summarize_occupancy(self)

    def explain(self) -> str:
        """Say in words what is held, what limits it and what would help.

        Returns
        -------
        str
            Several lines.
        """
        from kerneldsl.planner.explanation import explain_occupancy

        return explain_occupancy(self)


def occupancy(
    device: DeviceOccupancyLimits,
    kernel: KernelResources,
    block_threads: int,
    dynamic_shared_bytes: int = 0,
) -> Occupancy:
    """How many blocks a multiprocessor holds at once.

    Parameters
    ----------
    device : DeviceOccupancyLimits
        What there is.
    kernel : KernelResources
        What the kernel takes.
    block_threads : int
        Threads of a block.
    dynamic_shared_bytes : int
        Bytes of dynamic shared memory a block.

    Returns
    -------
    Occupancy
        With 0 active blocks where a multiprocessor has no room for one. A block larger than the
        kernel was compiled for is counted as if it could be launched, as the driver does.

    Raises
    ------
    LaunchConfigError
        A block has no threads, or negative shared memory.

    Examples
    --------
    >>> from kerneldsl.planner import DeviceOccupancyLimits, KernelResources, occupancy
    >>> hopper = DeviceOccupancyLimits.for_compute_capability((9, 0))
    >>> found = occupancy(hopper, KernelResources(registers=80), 160)
    >>> found.active_blocks, found.active_warps, found.limiters
    (4, 20, ('registers',))
    """
    check_block(block_threads, dynamic_shared_bytes)
    limits, registers, shared = block_limits(device, kernel, block_threads, dynamic_shared_bytes)
    return Occupancy(
        device=device,
        kernel=kernel,
        block_threads=block_threads,
        dynamic_shared_bytes=dynamic_shared_bytes,
        active_blocks=least(limits),
        limits=limits,
        registers_per_block=registers,
        shared_bytes_per_block=shared,
    )


def check_block(block_threads: int, dynamic_shared_bytes: int) -> None:
    if block_threads < 1:
        raise LaunchConfigError(
            f"A block has {block_threads} threads",
            value=block_threads,
            limit="A block has at least 1 thread",
            remedy="Give a positive number",
        )
    if dynamic_shared_bytes < 0:
        raise LaunchConfigError(
            f"A block of {block_threads} threads has {dynamic_shared_bytes} bytes of dynamic "
            "shared memory",
            value=dynamic_shared_bytes,
            limit="It is at least 0",
            remedy="Give a number that is not negative",
        )
