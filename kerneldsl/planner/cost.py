"""Cost model by which plans are compared.

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
done. If it waits in a loop for what it counts, its wave does its work meanwhile. The blocks of
the busiest multiprocessor count, so that a grid which fills the device badly costs more.
`docs/planning.md` gives the formulae, and how the constants were found.

References
----------
J. D. C. Little, "A Proof for the Queuing Formula: L = λW", Operations Research 9 (1961); V. Volkov,
"Understanding Latency Hiding on GPUs" (2016), chapters 4 and 5; CUDA C++ Best Practices Guide,
sections "Occupancy" and "Arithmetic Instructions".
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, TypeAlias

from kerneldsl.planner.candidates import Candidate
from kerneldsl.planner.rates import NUMBERS, Arithmetic, DeviceRates, Quantity
from kerneldsl.planner.work import SECTOR_BYTES, ElementWork

__all__ = [
    "BOUND_WORDS",
    "CONSTANTS",
    "Bound",
    "Constants",
    "ModelTime",
    "PlanShape",
    "Prediction",
    "device_time",
    "predict",
]

#: The resource that limits a kernel's speed.
Bound: TypeAlias = Literal["memory", "latency", "compute", "block starts", "atomics", "launch"]

#: Maps each bound to the words that follow "limited by" in a report.
BOUND_WORDS: dict[str, str] = {
    "memory": "memory bandwidth",
    "latency": "memory latency: too few bytes in flight",
    "compute": "arithmetic",
    "block starts": "the rate at which blocks are launched",
    "atomics": "atomic operations",
    "launch": "the launch itself and the life of one block; the device is not filled",
}


_LINE_BYTES, _NS_PER_S = 128, 10**9


class Prediction(NamedTuple):
    """Prediction of the cost model for a plan."""

    #: Predicted time of one launch on the device, in a sequence of launches.
    time_ns: float
    #: The resource that takes most of this time.
    bound: Bound
    #: Bytes requested from the device at once.
    bytes_in_flight: int


class Constants(NamedTuple):
    """Fitted constants of the cost model; see `docs/planning.md`."""

    thread_instructions: float = 11.0
    """Instructions per thread for the index, the bounds tests and the addresses."""
    access_instructions: float = 7.0
    """Instructions per access, its address included."""
    row_instructions: float = 15.2
    """Additional instructions per access at an offset or under a condition."""
    apart_instructions: float = 7.5
    """Further instructions per such access if a thread's items along x exceed its vector, so that
    they share no test."""
    round_instructions: float = 2.3
    """Instructions per loop iteration besides its body, once for all items of a thread."""
    issue_per_clock: float = 4.0
    """Warp instructions that a multiprocessor issues per clock."""
    dependent_clocks: float = 5.0
    """Clocks from an instruction to one that uses its result."""
    start_ns: float = 312.0
    """Nanoseconds from start to end of a block that does nothing."""
    warp_ns: float = 2.35
    """Nanoseconds that each warp of a block adds to the block's lifetime."""
    queueing: float = 4.4
    """Exponent of the norm by which latency and bandwidth add up."""
    sharpness: float = 11.0
    """Exponent of the norm that adds this to the times of computing and of block starts."""
    barrier_ns: float = 20.5
    """Nanoseconds per barrier."""
    atomic_ns: float = 0.0148
    """Nanoseconds per atomic operation on global memory, for the whole device."""
    contended_ns: float = 1.69
    """Nanoseconds per atomic operation on global memory if all threads update one address."""
    ending: float = 2.77
    """Exponent of the norm by which the work of blocks and their atomic operations add up."""
    shared_atomics_per_clock: float = 4.3
    """Atomic operations on shared memory, of a multiprocessor."""
    round_share: float = 0.6
    """Fraction of the latency that each further iteration waits if its loads feed atomic
    operations. The compiler issues the loads of several iterations together."""
    line_clocks: float = 2.3
    """Clocks per line of 128 bytes in the level-1 cache."""
    line_waste: float = 0.33
    """Additional cost of a sector, as a fraction, if several blocks write its line."""
    halo: float = 0.43
    """Fraction of the elements around a block's tile that it reads from the level-2 cache. Other
    blocks of the multiprocessor have brought the rest into the level-1 cache."""
    crossed_items: float = 0.68
    """Additional cost of crossed accesses, as a fraction, if a thread has several items."""
    crossed_share: float = 0.61
    """Fraction of the level-2 cache's bandwidth that accesses to single sectors achieve."""
    resident_share: float = 0.35
    """Fraction of the level-2 cache that data may fill and still stay cached."""


CONSTANTS = Constants()


class PlanShape(NamedTuple):
    """A plan's block and mapping as the model sees them."""

    #: Threads of a block, and items of a thread, along x, y and z.
    block_dim: tuple[Quantity, Quantity, Quantity]
    items: tuple[Quantity, Quantity, Quantity]
    #: Consecutive items of one access.
    vector: Quantity

    @property
    def item_count(self) -> Quantity:
        """Items of a thread."""
        return self.items[0] * self.items[1] * self.items[2]

    @property
    def block_threads(self) -> Quantity:
        return self.block_dim[0] * self.block_dim[1] * self.block_dim[2]

    @property
    def tile(self) -> tuple[Quantity, ...]:
        """Indices that a block works on at a time, along x, y and z."""
        return tuple(n * items for n, items in zip(self.block_dim, self.items, strict=True))


class ModelTime(NamedTuple):
    """Time of a plan by the model, and what it is made of, in nanoseconds."""

    time_ns: Quantity
    #: Time in nanoseconds that each bound would take alone.
    parts: dict[Bound, Quantity]
    #: The launch and the life of one block.
    lasting_ns: Quantity
    #: Indices of a block.
    block_elements: Quantity
    #: Blocks that a multiprocessor holds at once, at most as many as it gets.
    resident: Quantity


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
    """Return how long a plan would take.

    `grid_blocks` are the blocks of the grid as if none were cut off. `active_blocks` (at least 1)
    are those that a multiprocessor holds at once. `spill_bytes` are the bytes that a thread spills.
    """
    mapping = candidate.mapping
    found = device_time(
        PlanShape(candidate.block_dim, mapping.items, mapping.vector),
        work,
        float(math.prod(extent)),
        grid_blocks,
        active_blocks,
        rates,
        spill_bytes,
        constants,
        NUMBERS,
    )
    parts = found.parts
    bound: Bound = max(parts, key=lambda name: parts[name])
    if parts[bound] < found.lasting_ns:
        bound = "launch"
    at_once = min(grid_blocks, found.resident * rates.multiprocessor_count)
    in_flight = at_once * found.block_elements * work.load_bytes
    return Prediction(found.time_ns, bound, int(in_flight))


def device_time(
    shape: PlanShape,
    work: ElementWork,
    elements: Quantity,
    grid_blocks: Quantity,
    active_blocks: Quantity,
    rates: DeviceRates,
    spill_bytes: Quantity,
    constants: Constants,
    m: Arithmetic,
) -> ModelTime:
    """Return how long a plan takes on a device, in the arithmetic that is given.

    What is 0 of `work` and `spill_bytes` is left out of formulas.
    """
    c = constants
    items, threads = shape.item_count, shape.block_threads
    warps = m.named("warps", m.ceil_ratio(threads, 32))
    count = rates.multiprocessor_count
    clock_ns = m.named("clock_ns", _NS_PER_S / rates.clock_hz)
    busiest = m.named("busiest_blocks", m.ceil_ratio(grid_blocks, count))
    resident = m.named("resident_blocks", m.least(active_blocks, busiest))
    # Blocks at the edge are partly empty, which counts if there are few.
    block_elements = m.named("block_elements", m.least(threads * items, elements))

    total_bytes = m.named("total_bytes", elements * (work.device_bytes + work.crossed_bytes))
    outside = m.named(
        "outside_share", _outside_share(total_bytes, c.resident_share * rates.l2_bytes, m)
    )
    spilled = 2 * spill_bytes * threads * grid_blocks
    traffic = elements * _l2_bytes(work, shape.tile, c) + spilled
    traffic = m.named(
        "l2_traffic_bytes", traffic + elements * _crossed_bytes(shape, work, c, m) / c.crossed_share
    )
    memory_ns = m.named(
        "memory_ns",
        _NS_PER_S
        * m.largest(
            total_bytes * outside / rates.memory_bytes_per_s, traffic / rates.l2_bytes_per_s
        ),
    )
    latency = m.named(
        "latency_ns", outside * rates.memory_latency_ns + (1 - outside) * rates.l2_latency_ns
    )
    lines_ns = busiest * block_elements * _lines(shape, work) * c.line_clocks * clock_ns

    instructions = m.named("instructions", _instructions(shape, work, c, m))
    issue_ns = busiest * warps * instructions / c.issue_per_clock * clock_ns
    units_ns = (
        busiest
        * block_elements
        * (work.operations / rates.fp32_per_clock + work.double_operations / rates.fp64_per_clock)
        * clock_ns
    )
    rounds = work.rounds * (items if work.is_serial else 1)
    waited_ns = rounds * latency if work.loads else 0
    ahead = c.round_share * m.largest(0, work.shared_atomics - 1)
    counting_ns = m.named("counting_ns", work.rounds * ahead * latency if work.loads else 0)
    chain = items * (work.operations + work.double_operations) + work.loop_rounds
    lifetime = m.named(
        "lifetime_ns",
        c.start_ns
        + c.warp_ns * warps
        + waited_ns
        + counting_ns
        + c.dependent_clocks * clock_ns * chain
        + c.barrier_ns * work.barriers,
    )
    atomics_ns = m.named(
        "atomics_ns",
        elements * m.largest(c.atomic_ns * work.atomics, c.contended_ns * work.contended_atomics),
    )
    shared_ns = (
        busiest * block_elements * work.shared_atomics / c.shared_atomics_per_clock * clock_ns
    )
    waiting = m.largest(0, grid_blocks / count - resident) * lifetime / active_blocks
    parts: dict[Bound, Quantity] = {
        "memory": memory_ns,
        "latency": m.named("waiting_ns", waiting),
        "compute": m.named("compute_ns", m.largest(issue_ns, units_ns, lines_ns, shared_ns)),
        "block starts": m.named("block_starts_ns", busiest * rates.block_start_ns),
    }
    queued = m.norm((memory_ns, parts["latency"]), c.queueing)
    pace = m.norm((queued, parts["compute"], parts["block starts"]), c.sharpness)
    # Blocks mostly end with them, and those of a wave end together.
    pace = m.named("pace_ns", m.norm((pace, atomics_ns), c.ending))
    parts["atomics"] = atomics_ns
    # While a block of the last wave waits in its loop, the others of its wave do their share of
    # what sets the pace.
    last_wave = m.named("last_wave_ns", pace * resident / busiest)
    lasting = lifetime - counting_ns + m.norm((counting_ns, last_wave), c.sharpness) - last_wave
    lasting_ns = rates.launch_ns + lasting
    return ModelTime(lasting_ns + pace, parts, lasting_ns, block_elements, resident)


def _l2_bytes(work: ElementWork, tile: tuple[Quantity, ...], c: Constants) -> Quantity:
    """Return the bytes between the level-2 cache and multiprocessors for an element.

    A block reads the elements of its tile and, of a stencil, those around it.
    """
    total: Quantity = work.scattered_bytes + work.written_bytes
    for array in work.arrays:
        share: Quantity = array.itemsize
        for width, spread in zip(tile, array.spread, strict=True):
            share *= (width + c.halo * spread) / width
        total += share
    return total


def _crossed_bytes(shape: PlanShape, work: ElementWork, c: Constants, m: Arithmetic) -> Quantity:
    """Return bytes moved for an element's crossed accesses: whole sectors for a few lanes each."""
    if not work.crossed_bytes:
        return 0
    width, rows, _ = shape.block_dim
    itemsize = max(work.narrowest_bytes, 1)
    lanes = m.select(rows > 1, m.largest(1, m.floor_ratio(32, width)), 1)
    waste = m.largest(1, SECTOR_BYTES / (itemsize * lanes))
    used = m.least(1, rows * shape.items[1] * itemsize / _LINE_BYTES)
    several = m.select(shape.item_count > 1, c.crossed_items, 0)
    return work.crossed_bytes * waste * (1 + c.line_waste * (1 - used) + several)


def _lines(shape: PlanShape, work: ElementWork) -> Quantity:
    """Return the lines of the level-1 cache that an element takes."""
    itemsize = max(work.widest_bytes, work.narrowest_bytes, 4)
    each = itemsize / _LINE_BYTES
    rows_read = _rows_read(work, shape.items[1])
    # Vectors leave gaps between what neighbours access one by one.
    gaps = shape.vector * rows_read
    shared = work.vector_accesses + work.shifted_accesses * rows_read
    others = work.loads + work.stores - work.vector_accesses - work.shifted_accesses
    others -= work.row_accesses
    apart = others / 32 * shape.vector
    return each * (shared + gaps * work.row_accesses) + apart


def _rows_read(work: ElementWork, rows: Quantity) -> Quantity:
    """Return, of the rows a stencil reads for each element, those that no other item has read."""
    shares = [(rows + y) / (rows * (y + 1)) for _, y, _ in (a.spread for a in work.arrays)]
    return sum(shares) / len(shares) if shares else 1


def _outside_share(total_bytes: Quantity, kept_bytes: Quantity, m: Arithmetic) -> Quantity:
    """Return the part of the bytes that comes from device memory, not from the level-2 cache."""
    return m.largest(0, m.least(1, (total_bytes - kept_bytes) / kept_bytes))


def _instructions(shape: PlanShape, work: ElementWork, c: Constants, m: Arithmetic) -> Quantity:
    """Return the instructions of a warp of a block."""
    items = shape.item_count
    vector = m.least(shape.vector, work.max_vector)
    shared = work.vector_accesses + work.shifted_accesses
    accesses = shared / vector + work.loads + work.stores - shared
    beside = work.row_accesses + work.shifted_accesses / vector
    apart = m.select(shape.items[0] > shape.vector, c.apart_instructions, 0)
    return (
        c.thread_instructions
        + c.round_instructions * work.loop_rounds
        + c.access_instructions * accesses * items
        + (c.row_instructions + apart) * beside * items
        + items * (work.operations + 2 * work.double_operations)
    )
