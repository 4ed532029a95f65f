"""How long a plan would take: the model by which plans are compared.

A multiprocessor starts blocks one after the other, holds `active` of them at once, and each lives
for a while. Of the things that all blocks need, the scarcest sets the pace:

- *memory*: the bytes of the whole grid over the bandwidth of device memory, or of the level-2
  cache where the data fits into it;
- *latency* (Little's law): a multiprocessor finishes `active` blocks in a block's lifetime, no
  matter how fast memory could be. More items a thread make a block do more in nearly the same
  lifetime;
- *compute*: instructions over the rate at which they are issued, operations over the units' rate;
- *block starts*: a block is started at most every so many clocks.

To that are added the launch and one lifetime, since the last block starts when the others are
done. The blocks of the busiest multiprocessor count, so that a grid which fills the device badly is
dearer. `docs/planning.md` gives the formulae, and how the constants were found.

References
----------
J. D. C. Little, "A Proof for the Queuing Formula: L = λW", Operations Research 9 (1961); V. Volkov,
"Understanding Latency Hiding on GPUs" (2016), chapters 4 and 5; CUDA C++ Best Practices Guide,
sections "Occupancy" and "Arithmetic Instructions".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from kerneldsl.planner.candidates import Candidate
from kerneldsl.planner.rates import DeviceRates
from kerneldsl.planner.work import SECTOR_BYTES, ElementWork

__all__ = ["Bound", "Prediction", "predict"]

#: What sets the pace of a kernel.
Bound: TypeAlias = Literal["memory", "latency", "compute", "block starts", "launch"]


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the model says of a plan.

    Parameters
    ----------
    time_ns : float
        Of one launch in a row of them, on the device.
    bound : str
        What takes the most of it.
    bytes_in_flight : int
        Bytes that the device is asked for at once.
    """

    time_ns: float
    bound: Bound
    bytes_in_flight: int


@dataclass(frozen=True, slots=True)
class Constants:
    """What the model was fitted with; see `docs/planning.md`."""

    thread_instructions: float = 14.0
    """Of a thread, for its index, tests and addresses."""
    item_instructions: float = 3.0
    """Of each further group of items."""
    access_instructions: float = 2.0
    """Of each access, its address included."""
    issue_per_clock: float = 4.0
    """Instructions of warps that a multiprocessor issues in a clock."""
    dependent_clocks: float = 6.0
    """From an instruction to one that needs its result."""
    drain_ns_per_warp: float = 8.0
    """By which a block's last warp is later, for each warp."""
    start_ns: float = 200.0
    """From a block's start to its first load."""
    sharpness: float = 6.0
    """How little what is not the scarcest adds."""
    resident_share: float = 0.75
    """Of the level-2 cache, what data may take to stay in it."""


CONSTANTS = Constants()


def predict(
    candidate: Candidate,
    work: ElementWork,
    extent: tuple[int, ...],
    grid_blocks: int,
    active_blocks: int,
    rates: DeviceRates,
    *,
    spill_bytes: int = 0,
    constants: Constants = CONSTANTS,
) -> Prediction:
    """How long a plan would take.

    Parameters
    ----------
    candidate : Candidate
        Block and mapping.
    work : ElementWork
        What the body does for an index.
    extent : tuple of int
        Positive extents.
    grid_blocks : int
        Blocks of the grid, as if none were cut off.
    active_blocks : int
        Blocks that a multiprocessor holds at once, at least 1.
    rates : DeviceRates
        Of the device.
    spill_bytes : int
        Bytes a thread spills.

    Returns
    -------
    Prediction
    """
    c = constants
    items = candidate.mapping.item_count
    threads = candidate.block_threads
    warps = -(-threads // 32)
    elements = float(math.prod(extent))
    count = rates.multiprocessor_count
    clock_ns = 1e9 / rates.clock_hz
    busiest = -(-grid_blocks // count)
    resident = min(active_blocks, busiest)

    crossed = work.crossed_bytes * _waste(candidate, work)
    total_bytes = elements * (work.device_bytes + crossed)
    outside = _outside_share(total_bytes, c.resident_share * rates.l2_bytes)
    memory_ns = 1e9 * (
        total_bytes * outside / rates.memory_bytes_per_s
        + total_bytes * (1.0 - outside) / rates.l2_bytes_per_s
    )
    latency = outside * rates.memory_latency_ns + (1.0 - outside) * rates.l2_latency_ns
    # Blocks at the edge are partly empty, which counts where there are few.
    block_elements = min(float(threads * items), elements)
    moved = block_elements * (work.moved_bytes + crossed) + 2.0 * spill_bytes * threads
    path_ns = busiest * moved / rates.load_bytes_per_clock * clock_ns

    per_warp = _instructions(candidate, work, c)
    issue_ns = busiest * warps * per_warp / c.issue_per_clock * clock_ns
    units_ns = (
        busiest
        * block_elements
        * (work.operations / rates.fp32_per_clock + work.double_operations / rates.fp64_per_clock)
        * clock_ns
    )
    rounds = work.rounds * (items if work.is_serial else 1)
    arithmetic = items * (work.operations + work.double_operations)
    lifetime = (
        c.start_ns
        + rounds * latency
        + c.drain_ns_per_warp * warps
        + c.dependent_clocks * clock_ns * (c.thread_instructions / 2 + arithmetic)
    )
    waiting = max(0.0, grid_blocks / count - resident)
    parts: dict[Bound, float] = {
        "memory": max(memory_ns, path_ns),
        "latency": waiting * lifetime / active_blocks,
        "compute": max(issue_ns, units_ns),
        "block starts": busiest * rates.block_start_ns,
    }
    pace = sum(part**c.sharpness for part in parts.values()) ** (1.0 / c.sharpness)
    bound: Bound = max(parts, key=lambda name: parts[name])
    if parts[bound] < rates.launch_ns + lifetime:
        bound = "launch"
    in_flight = min(grid_blocks, resident * count) * block_elements * work.load_bytes
    return Prediction(rates.launch_ns + lifetime + pace, bound, int(in_flight))


def _waste(candidate: Candidate, work: ElementWork) -> float:
    """Bytes moved for each byte of a crossed access: rows of a tile that share a sector."""
    if not work.crossed_bytes:
        return 1.0
    rows = candidate.block_dim[1] * candidate.mapping.items[1]
    return max(1.0, SECTOR_BYTES / (rows * max(work.narrowest_bytes, 1)))


def _outside_share(total_bytes: float, kept_bytes: float) -> float:
    """The part of the bytes that comes from device memory, not from the level-2 cache."""
    if total_bytes <= kept_bytes:
        return 0.0
    return min(1.0, (total_bytes - kept_bytes) / kept_bytes)


def _instructions(candidate: Candidate, work: ElementWork, c: Constants) -> float:
    """Instructions of a warp of a block."""
    mapping = candidate.mapping
    items = mapping.item_count
    vector = mapping.vector if work.max_vector > 1 else 1
    accesses = work.loads + work.stores
    return (
        c.thread_instructions
        + c.item_instructions * (items / vector - 1)
        + c.access_instructions * accesses * items / vector
        + items * (work.operations + 2.0 * work.double_operations)
        + 8.0 * items * work.atomics
    )
