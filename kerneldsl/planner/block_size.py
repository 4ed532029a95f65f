"""The occupancy calculation turned round: which block, or how much shared memory, for an occupancy.

References
----------
CUDA Driver API, section "Occupancy": ``cuOccupancyMaxPotentialBlockSize`` and
``cuOccupancyAvailableDynamicSMemPerBlock``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kerneldsl.errors import LaunchConfigError, ResourceLimitError
from kerneldsl.planner.block_limits import block_limits, dynamic_share, least
from kerneldsl.planner.limits import DeviceOccupancyLimits
from kerneldsl.planner.occupancy import check_block, occupancy
from kerneldsl.planner.resources import KernelResources

__all__ = ["PotentialBlock", "available_dynamic_shared_bytes", "max_potential_block_size"]


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
    """The block size with which a multiprocessor holds the most threads at once.

    Whole warps are tried from the largest block down, and the first of the best is kept; so of
    equals the largest wins, which is often not the fastest.

    Parameters
    ----------
    device : DeviceOccupancyLimits
        What there is.
    kernel : KernelResources
        What the kernel takes.
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
    """The dynamic shared memory a block can have while so many blocks are held at once.

    Parameters
    ----------
    device : DeviceOccupancyLimits
        What there is.
    kernel : KernelResources
        What the kernel takes.
    active_blocks : int
        Blocks that a multiprocessor shall hold at once, 1 or more.
    block_threads : int
        Threads of a block.

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
            limit="A multiprocessor shall hold at least 1 block",
            remedy="Ask for 1 or more",
        )
    without = occupancy(device, kernel, block_threads)
    if without.active_blocks < active_blocks:
        raise ResourceLimitError(
            f"{active_blocks} blocks of {block_threads} threads do not fit on a multiprocessor",
            value=active_blocks,
            limit=without.summary(),
            remedy=f"Ask for {without.active_blocks} blocks or fewer"
            if without.active_blocks
            else "Use fewer threads, registers or less static shared memory",
        )
    return dynamic_share(device, kernel, active_blocks)
