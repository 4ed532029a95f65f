"""Occupancy: the blocks of a kernel that a multiprocessor holds at once, and the limiting resource.

A model of CUDA's occupancy calculator in plain Python, for compute capability 7.5 to 12.1. It gives
the numbers that ``cuOccupancyMaxActiveBlocksPerMultiprocessor``,
``cuOccupancyMaxPotentialBlockSize`` and ``cuOccupancyAvailableDynamicSMemPerBlock`` give, without a
driver, and the reasons that those do not give (:mod:`~kerneldsl.planner.words`).

Each resource alone allows a number of blocks; the least of them is what is held:

- *warps*: a block takes whole warps of the multiprocessor's.
- *registers*: a warp takes its threads' registers, rounded up to an allocation unit, out of one of
  the partitions, so that what is left over in one is useless to another. A block is refused where
  its warps, rounded up to a multiple of the partitions, would take more than a block may have.
- *shared memory*: a block takes its static, dynamic and reserved bytes, rounded up, out of what the
  carve-out gives to shared memory. A carve-out too small for one block is enlarged to the next that
  holds one.
- *blocks*, *barriers* and *virtual resources*: counts.

Clusters are not modelled, as in NVIDIA's calculator. Their number depends on the groups of
multiprocessors of a device, which only its driver knows.

References
----------
CUDA C++ Programming Guide, sections "Occupancy Calculator" and "Compute Capabilities"; CUDA Driver
API, section "Occupancy"; NVIDIA's header ``cuda_occupancy.h``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kerneldsl.errors import LaunchConfigError, ResourceLimitError
from kerneldsl.planner.block_limits import (
    BlockLimits,
    KernelResources,
    block_limits,
    dynamic_share,
    least,
)
from kerneldsl.planner.limits import DeviceOccupancyLimits
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import format_count
from kerneldsl.utilities.shown import Shown

__all__ = [
    "Occupancy",
    "PotentialBlock",
    "available_dynamic_shared_bytes",
    "check_block",
    "max_potential_block_size",
    "occupancy",
]


@dataclass(frozen=True, slots=True)
class Occupancy(Shown):
    """Blocks that a multiprocessor holds at once, and the resource that limits them.

    Parameters
    ----------
    device : DeviceOccupancyLimits
        The device's limits.
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
        from kerneldsl.planner.words import summarize_occupancy

        return summarize_occupancy(self)

    def explain(self) -> str:
        """Say in words what is held, what limits it and what would help."""
        from kerneldsl.planner.words import explain_occupancy

        return explain_occupancy(self)


def occupancy(
    device: DeviceOccupancyLimits,
    kernel: KernelResources,
    block_threads: int,
    dynamic_shared_bytes: int = 0,
) -> Occupancy:
    """Return how many blocks a multiprocessor holds at once.

    Parameters
    ----------
    device : DeviceOccupancyLimits
        The device's limits.
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
            f"A block has {format_count(block_threads, 'thread')}",
            value=block_threads,
            limit="A block has at least 1 thread",
            remedy="Give a positive number",
        )
    if dynamic_shared_bytes < 0:
        raise LaunchConfigError(
            f"A block of {block_threads} threads has {dynamic_shared_bytes} bytes of dynamic "
            "shared memory",
            value=dynamic_shared_bytes,
            limit="It must be at least 0",
            remedy="Give a number that is not negative",
        )


class PotentialBlock(NamedTuple):
    """The block that fills a multiprocessor best, and the grid that fills the device once."""

    block_threads: int
    min_grid_blocks: int
    dynamic_shared_bytes: int


def max_potential_block_size(
    device: DeviceOccupancyLimits,
    kernel: KernelResources,
    dynamic_shared_bytes: int | Callable[[int], int] = 0,
    *,
    max_block_threads: int | None = None,
) -> PotentialBlock:
    """Return the block size with which a multiprocessor holds the most threads at once.

    Whole warps are tried from the largest block down, and the first of the best is kept. So of
    equals the largest wins, which is often not the fastest.

    Parameters
    ----------
    device, kernel
        As for :func:`occupancy`.
    dynamic_shared_bytes : int or callable
        Bytes of dynamic shared memory a block, or a function that gives them for a number of
        threads.
    max_block_threads : int, optional
        The largest block to try, beside the device's and the kernel's own maximum.

    Returns
    -------
    PotentialBlock
        Threads of a block, blocks that fill every multiprocessor, and the block's dynamic shared
        memory.

    Raises
    ------
    ResourceLimitError
        No block of any size fits.
    LaunchConfigError
        `dynamic_shared_bytes` is or gives a negative number, or `max_block_threads` is less than 1.

    Examples
    --------
    >>> from kerneldsl.planner import DeviceOccupancyLimits, KernelResources
    >>> hopper = DeviceOccupancyLimits.for_compute_capability((9, 0), multiprocessor_count=132)
    >>> max_potential_block_size(hopper, KernelResources(registers=32))
    PotentialBlock(block_threads=1024, min_grid_blocks=264, dynamic_shared_bytes=0)
    >>> kernel = KernelResources(registers=40, max_dynamic_shared_bytes=227 * 1024)
    >>> max_potential_block_size(hopper, kernel, lambda threads: 128 * threads)
    PotentialBlock(block_threads=768, min_grid_blocks=264, dynamic_shared_bytes=98304)
    """
    largest = min(device.max_threads_per_block, kernel.max_threads_per_block)
    if max_block_threads is not None:
        largest = min(largest, max_block_threads)
    check_block(largest, 0)
    warp = device.warp_size
    best, best_threads = PotentialBlock(0, 0, 0), 0
    for aligned in range(-(-largest // warp) * warp, 0, -warp):
        threads = min(largest, aligned)
        shared = (
            dynamic_shared_bytes
            if isinstance(dynamic_shared_bytes, int)
            else dynamic_shared_bytes(threads)
        )
        check_block(threads, shared)
        blocks = least(block_limits(device, kernel, threads, shared)[0])
        if blocks * threads > best_threads:
            best_threads = blocks * threads
            best = PotentialBlock(threads, blocks * device.multiprocessor_count, shared)
        if best_threads == device.max_threads_per_multiprocessor:
            break
    if not best_threads:
        smallest = occupancy(device, kernel, threads, shared)
        raise ResourceLimitError(
            f"No block of 1 to {largest} threads fits on a multiprocessor",
            value=largest,
            limit=smallest.summary(),
            remedy="Use fewer registers or less shared memory",
        )
    return best


def available_dynamic_shared_bytes(
    device: DeviceOccupancyLimits,
    kernel: KernelResources,
    active_blocks: int,
    block_threads: int,
) -> int:
    """Return the dynamic shared memory a block can have while so many are held at once.

    Parameters
    ----------
    device, kernel, block_threads
        As for :func:`occupancy`.
    active_blocks : int
        Blocks that a multiprocessor shall hold at once, 1 or more.

    Returns
    -------
    int
        Bytes.

    Raises
    ------
    LaunchConfigError
        `active_blocks` or `block_threads` is less than 1.
    ResourceLimitError
        Even without dynamic shared memory fewer blocks are held.

    Examples
    --------
    >>> from kerneldsl.planner import DeviceOccupancyLimits, KernelResources
    >>> hopper = DeviceOccupancyLimits.for_compute_capability((9, 0))
    >>> kernel = KernelResources(registers=32, max_dynamic_shared_bytes=227 * 1024)
    >>> available_dynamic_shared_bytes(hopper, kernel, 4, 256)
    57344
    """
    if active_blocks < 1:
        raise LaunchConfigError(
            f"active_blocks is {active_blocks}",
            value=active_blocks,
            limit="A multiprocessor must hold at least 1 block",
            remedy="Request 1 or more",
        )
    without = occupancy(device, kernel, block_threads)
    if without.active_blocks < active_blocks:
        raise ResourceLimitError(
            f"{active_blocks} blocks of {block_threads} threads do not fit on a multiprocessor",
            value=active_blocks,
            limit=without.summary(),
            remedy=f"Request {format_count(without.active_blocks, 'block')} or fewer"
            if without.active_blocks
            else "Use fewer threads, registers or less static shared memory",
        )
    return dynamic_share(device, kernel, active_blocks)
