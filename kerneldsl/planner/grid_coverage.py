"""Coverage of a device by a grid: waves, the tail of the last one, and the bytes in flight.

The model assumes that all blocks take equally long and are distributed evenly. First every
multiprocessor gets one, then a second, up to what it holds at once. A block that ends makes room
for the next. Blocks of most kernels take equally long. If they do not, a grid of many waves evens
out, and these numbers are bounds for the small ones.

References
----------
CUDA C++ Best Practices Guide, sections "Occupancy" and "Hiding Register Dependencies"; J. D. C.
Little, "A Proof for the Queuing Formula: L = λW", Operations Research 9 (1961), for the bytes that
must be on their way.
"""

from __future__ import annotations

import math

from kerneldsl.errors import ArgumentValueError, LaunchConfigError, ResourceLimitError
from kerneldsl.planner.block_occupancy import Occupancy
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import format_count, format_percent

__all__ = ["Coverage", "bytes_to_saturate", "coverage"]


@dataclass(frozen=True, slots=True)
class Coverage:
    """A grid on a device.

    Parameters
    ----------
    occupancy : Occupancy
        What one multiprocessor holds at once; 1 block at least.
    grid_blocks : int
        Blocks of the grid.
    """

    occupancy: Occupancy
    grid_blocks: int

    @property
    def resident_blocks(self) -> int:
        """Blocks that the whole device holds at once."""
        return self.occupancy.active_blocks * self.occupancy.device.multiprocessor_count

    @property
    def waves(self) -> float:
        """Blocks of the grid over those that the device holds at once."""
        return self.grid_blocks / self.resident_blocks

    @property
    def full_waves(self) -> int:
        """Waves that fill the device."""
        return self.grid_blocks // self.resident_blocks

    @property
    def tail_blocks(self) -> int:
        """Blocks of the last wave, if it does not fill the device; else 0."""
        return self.grid_blocks % self.resident_blocks

    @property
    def tail_efficiency(self) -> float:
        """Part of the places for blocks that are taken, over all waves; 1 if none is partial.

        That is the efficiency of a kernel that is bound by latency: its blocks do not run faster
        if fewer run.
        """
        waves = -(-self.grid_blocks // self.resident_blocks)
        return self.grid_blocks / (waves * self.resident_blocks) if waves else 1.0

    @property
    def busiest_blocks(self) -> int:
        """Blocks that the multiprocessor with the most of them runs, over all waves."""
        count = self.occupancy.device.multiprocessor_count
        return self.full_waves * self.occupancy.active_blocks + -(-self.tail_blocks // count)

    @property
    def balance(self) -> float:
        """Blocks of an average multiprocessor over the busiest's; at least `tail_efficiency`.

        That is the efficiency of a kernel that is bound by throughput within a multiprocessor.
        """
        if not self.grid_blocks:
            return 1.0
        return self.grid_blocks / (self.busiest_blocks * self.occupancy.device.multiprocessor_count)

    @property
    def busy_multiprocessors(self) -> int:
        """Multiprocessors that get any block."""
        return min(self.grid_blocks, self.occupancy.device.multiprocessor_count)

    @property
    def threads_in_flight(self) -> int:
        """Threads that run at once while there are blocks enough."""
        return min(self.grid_blocks, self.resident_blocks) * self.occupancy.block_threads

    def bytes_in_flight(self, bytes_per_thread: int) -> int:
        """Return the bytes that are being loaded at once.

        Parameters
        ----------
        bytes_per_thread : int
            Bytes that a thread requests before it needs the first of them: elements a thread,
            times their size, times the arrays read.

        Returns
        -------
        int
            Bytes; compare with :func:`bytes_to_saturate`.

        Raises
        ------
        ArgumentValueError
            `bytes_per_thread` is negative.
        """
        if bytes_per_thread < 0:
            raise ArgumentValueError(
                f"bytes_per_thread is {bytes_per_thread}",
                value=bytes_per_thread,
                limit="It must be at least 0",
                remedy="Count the bytes that a thread loads",
            )
        return self.threads_in_flight * bytes_per_thread

    def explain(self) -> str:
        """Say in words how the device is filled."""
        device, held = self.occupancy.device, self.occupancy.active_blocks
        text = (
            f"{format_count(self.grid_blocks, 'block')} on {device.multiprocessor_count} "
            f"multiprocessors with {held} at once on each: {self.waves:.2f} waves"
        )
        balance = format_percent(self.balance, ".0f")
        if not self.grid_blocks:
            return "The grid has no block: nothing runs."
        if not self.full_waves:
            idle = device.multiprocessor_count - self.busy_multiprocessors
            return (
                f"{text}, all blocks at once; {idle} multiprocessors get none and the busiest gets "
                f"{self.busiest_blocks} (balance {balance})."
            )
        if not self.tail_blocks:
            return f"{text}, each of them full."
        return (
            f"{text}; the last has {self.tail_blocks} of {self.resident_blocks} blocks: "
            f"tail efficiency {format_percent(self.tail_efficiency, '.0f')} (balance {balance})."
        )


def coverage(occupancy: Occupancy, grid_blocks: int) -> Coverage:
    """Return how a grid fills a device.

    Parameters
    ----------
    occupancy : Occupancy
        What one multiprocessor of it holds at once.
    grid_blocks : int
        Blocks of the grid; 0 for an empty one.

    Returns
    -------
    Coverage

    Raises
    ------
    LaunchConfigError
        `grid_blocks` is negative.
    ResourceLimitError
        Not one block fits on a multiprocessor.

    Examples
    --------
    >>> from kerneldsl.planner import DeviceOccupancyLimits, KernelResources, coverage, occupancy
    >>> hopper = DeviceOccupancyLimits.for_compute_capability((9, 0), multiprocessor_count=132)
    >>> grid = coverage(occupancy(hopper, KernelResources(registers=32), 256), 1100)
    >>> print(grid.explain())
    1100 blocks on 132 multiprocessors with 8 at once on each: 1.04 waves; the last has 44 of 1056 \
blocks: tail efficiency 52 % (balance 93 %).
    >>> grid.bytes_in_flight(16)
    4325376
    """
    if grid_blocks < 0:
        raise LaunchConfigError(
            f"The grid has {format_count(grid_blocks, 'block')}",
            value=grid_blocks,
            limit="It must have at least 0",
            remedy="Give a number that is not negative",
        )
    if not occupancy.active_blocks:
        raise ResourceLimitError(
            "A grid of blocks of this size cannot run",
            value=occupancy.block_threads,
            limit=occupancy.summary(),
            remedy="Use a smaller block, fewer registers or less shared memory",
        )
    return Coverage(occupancy, grid_blocks)


def bytes_to_saturate(bandwidth_bytes_per_s: float, latency_ns: float) -> int:
    """Return the bytes in flight that keep memory busy all the time (Little's law).

    Parameters
    ----------
    bandwidth_bytes_per_s : float
        What the memory delivers, bytes a second.
    latency_ns : float
        Time from a load to its value, nanoseconds.

    Returns
    -------
    int
        Bytes, rounded up.

    Raises
    ------
    ArgumentValueError
        One of them is not positive.

    Examples
    --------
    >>> bytes_to_saturate(4.8e12, 700)
    3360000
    """
    for name, value in (
        ("bandwidth_bytes_per_s", bandwidth_bytes_per_s),
        ("latency_ns", latency_ns),
    ):
        if not value > 0:
            raise ArgumentValueError(
                f"{name} is {value}",
                value=value,
                limit="It must be greater than 0",
                remedy="Give what was measured on the device",
            )
    return math.ceil(bandwidth_bytes_per_s * latency_ns / 1e9)
