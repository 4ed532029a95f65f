"""Rings of rooms in shared memory, into which loops load factors of products early."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from llvmlite import ir

from kerneldsl.contract import Report
from kerneldsl.ir.accesses import Accesses, join
from kerneldsl.ir.operations import Effect, Function, Operation, Region, Value
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import format_count
from targets.cuda.compile.mma.functions import MOST_PENDING
from targets.cuda.compile.mma.layouts import TileLayouts
from targets.cuda.compile.mma.operands import Operand
from targets.cuda.compile.regions.walks import location

__all__ = ["ALIGNMENT", "Ring", "plan_rings", "rooms_of"]

#: Factors begin at multiples of this, so that groups can be exchanged.
ALIGNMENT = 1024
#: Bytes for later allocations: folds of rows, changes of layout, shared arrays of the kernel.
_OTHERS = 8 * 1024
#: Most stages that the compiler chooses: loads are three iterations early.
_MOST_STAGES = 4
#: Accumulators of a thread up to which two blocks fit a multiprocessor.
_FEW_ACCUMULATORS = 64


@dataclass
class Ring:
    """The rooms of the factors that one loop loads early."""

    early: _EarlyLoads
    stages: int
    #: Number of the room that an iteration reads, or that is loaded, while code is written.
    slot: ir.Value | None = None
    #: Starts the copies of a later iteration, if that is not done yet in this one.
    start_copies: Callable[[], None] | None = None


def plan_rings(
    function: Function, layouts: TileLayouts, accesses: Accesses, limit: int, report: Report
) -> dict[Operation, Ring]:
    """Return the rings of pipelined loops, for a limit of shared memory in bytes."""
    rooms, found = dict(rooms_of(function, layouts)), {}
    taken: set[Operation] = set()
    for loop in function.body.walk():
        if loop.name != "for" or "pipelined" not in loop.attributes:
            continue
        early = _find_early_loads(loop, layouts, accesses)
        reasons = dict(early.reasons)
        loads = [each for each in early.loads if each not in taken]
        if loads:
            taken.update(loads)
            stages = _stages(loop, loads, rooms, layouts, limit)
            if stages >= 2:
                where = [location(function, each) for each in loads]
                ahead = format_count(stages - 1, "iteration")
                report("factor", f"loaded {ahead} early", len(loads), where=where)
                found[loop] = Ring(early, stages)
            else:
                room = format_count(max(stages, 0), "iteration")
                reason = f"shared memory has room for {room}"
                reasons |= dict.fromkeys(loads, reason)
        for load, reason in reasons.items():
            where = [location(function, load)]
            report("factor", f"not loaded early: {reason}", where=where, is_missed=True)
    return found


def _stages(
    loop: Operation,
    loads: list[Operation],
    rooms: dict[Any, Operand],
    layouts: TileLayouts,
    limit: int,
) -> int:
    """Return for how many iterations there are rooms."""
    size = sum(rooms[each].nbytes for each in loads)
    rest = ALIGNMENT + _OTHERS + sum(each.nbytes for key, each in rooms.items() if key not in loads)
    most = max(0, limit - rest) // size
    stages: int = loop.attributes["pipelined"]
    if not stages:
        counts = (each.fragments.slot_count for each in layouts.products())
        half = max(0, limit // 2 - rest) // size if sum(counts) <= _FEW_ACCUMULATORS else 0
        stages = min(_MOST_STAGES, half if half >= 2 else most)
    return min(stages, most, MOST_PENDING + 2)


def rooms_of(function: Function, layouts: TileLayouts) -> Iterator[tuple[Any, Operand]]:
    """Return the rooms that a kernel needs: of loads, and of factors of products."""
    for each in function.body.walk():
        factor, product = layouts.copied(each), layouts.product(each)
        if factor is not None:
            yield each, factor
        if product is not None:
            for number, factor in enumerate(product.factors):
                is_own = number == 0 and layouts.has_own_rows(each)
                if not is_own and not layouts.is_factor(each.operands[number]):
                    yield (each, number), factor


@dataclass(frozen=True)
class _EarlyLoads:
    """Loads of one loop that may be early."""

    #: The loads, and the operations that compute their places, in program order.
    operations: tuple[Operation, ...]
    loads: tuple[Operation, ...]
    #: Reasons why other factors of the loop are loaded in their iteration.
    reasons: dict[Operation, str]


def _find_early_loads(loop: Operation, layouts: TileLayouts, accesses: Accesses) -> _EarlyLoads:
    """Find the loads of a loop that may be some iterations early.

    The loop must write no memory that such a load reads. Its place must depend on the counter and
    on values that the loop does not change. It may also depend on elements of arrays that the loop
    does not write.
    """
    (body,) = loop.regions
    inside = list(body.walk())
    written = join(map(accesses.of, inside)).written
    always = set(_always_run(body))
    found: dict[Operation, None] = {}
    loads, reasons = [], {}
    for each in inside:
        if layouts.copied(each) is None:
            continue
        needed = _needed(each, body, always)
        if isinstance(needed, str):
            reasons[each] = needed
        elif any(accesses.of(other).read & written for other in (*needed, each)):
            reasons[each] = "the loop writes to what it reads"
        else:
            loads.append(each)
            found.update(dict.fromkeys((*needed, each)))
    operations = tuple(each for each in inside if each in found)
    return _EarlyLoads(operations, tuple(loads), reasons)


def _always_run(body: Region) -> Iterator[Operation]:
    """Return the operations that each iteration runs."""
    operations: Sequence[Operation] = body.operations
    while operations:
        inner: Sequence[Operation] = ()
        for each in operations:
            if each.name == "labeled":
                inner = each.regions[0].operations
                break
            if each.effects() & Effect.LEAVE:
                break
            yield each
        operations = inner


def _needed(load: Operation, body: Region, always: set[Operation]) -> list[Operation] | str:
    """Return the operations of a loop that a load depends on, or why they cannot be early."""
    own = set(body.walk())
    found: dict[Operation, None] = {}
    left = list(load.operands)
    while left:
        value: Value = left.pop()
        made = value.owner
        if isinstance(made, Region):
            if made is body and value is body.arguments[0]:
                continue
            if made is body or any(made in each.regions for each in own):
                return "its place depends on an earlier iteration"
        elif isinstance(made, Operation) and made in own and made not in found:
            effects = made.effects()
            is_read = bool(effects & Effect.READ) and made in always
            if made.regions or (effects and not (effects == Effect.READ and is_read)):
                return "its place depends on more than numbers"
            found[made] = None
            left += made.operands
    return list(found)
