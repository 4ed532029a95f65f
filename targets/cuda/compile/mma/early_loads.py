"""Find the factors that a pipelined loop may load some iterations early.

A load may be early if the loop writes no memory that it reads. Its place must depend on the counter
and on values that the loop does not change. It may also depend on elements of arrays that the loop
does not write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kerneldsl.ir.accesses import Accesses, join
from kerneldsl.ir.operations import Effect, Operation, Region, Value
from kerneldsl.utilities.dataclasses import dataclass
from targets.cuda.compile.mma.layouts import TileLayouts

__all__ = ["EarlyLoads", "find_early_loads"]


@dataclass(frozen=True)
class EarlyLoads:
    """Loads of one loop that may be early."""

    #: The loads, and what computes their places, in the order of the program.
    operations: tuple[Operation, ...]
    loads: tuple[Operation, ...]
    #: Why other factors of the loop are loaded in their iteration.
    reasons: dict[Operation, str]


def find_early_loads(loop: Operation, layouts: TileLayouts, accesses: Accesses) -> EarlyLoads:
    """Find the loads of a loop that may be early."""
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
    return EarlyLoads(operations, tuple(loads), reasons)


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
