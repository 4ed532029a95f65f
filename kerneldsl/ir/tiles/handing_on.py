"""Let branches and loops hand on tiles by copies of elements, and by no values.

Afterwards the results and arguments of branches and loops are numbers. Their tiles are read in the
memory that :class:`~kerneldsl.ir.tiles.placement.Placement` gives them.
"""

from __future__ import annotations

from kerneldsl.ir.operations import (
    CONTROL,
    LOOPS,
    Effect,
    Function,
    Operation,
    Region,
    Value,
    ends_of,
    given_to,
    handed_on,
    keep_results,
)
from kerneldsl.ir.rewriter import rewrite
from kerneldsl.ir.tiles.live_ranges import is_tile
from kerneldsl.ir.tiles.placement import Placement

__all__ = ["drop_casts", "drop_unread", "hand_on_by_copies"]


def drop_casts(function: Function) -> None:
    """Drop conversions of tiles to their own type, which loops have."""

    def dropped(cast: Operation) -> tuple[list[Operation], list[Value]] | None:
        return ([], cast.operands) if is_tile(cast.result) else None

    rewrite(function.body, {"cast": dropped})


def drop_unread(function: Function) -> None:
    """Drop the tiles that branches and loops hand on and that no operation reads."""
    controls = [each for each in function.body.walk() if each.name in CONTROL]
    variables = {
        value: each for control in controls for each in handed_on(control) for value in each.targets
    }
    read: list[Value] = []
    for operation in function.body.walk():
        if operation.name not in (*CONTROL, "yield", "leave"):
            read += operation.operands
    needed: set[Value] = set()
    while read:
        found = variables.get(read.pop())
        if found is not None and found.targets[0] not in needed:
            needed.add(found.targets[0])
            read += found.sources
    for control in controls:
        kept = [not is_tile(value) or value in needed for value in control.results]
        if not all(kept):
            keep_results(control, kept)


def hand_on_by_copies(function: Function, placement: Placement) -> None:
    """Put copies where branches and loops hand on tiles, unless both are in one place."""
    copies: dict[Operation, list[Operation]] = {}
    for operation in function.body.walk():
        if operation.name in CONTROL and any(map(is_tile, operation.results)):
            if operation.name in LOOPS:
                copies[operation] = _copies(operation, given_to(operation), placement)
            for end in ends_of(operation):
                copies[end] = _copies(operation, end.operands, placement)
    for operation in list(function.body.walk()):
        if operation.name in CONTROL and operation.results:
            keep_results(operation, [not is_tile(value) for value in operation.results])
    _insert(function.body, copies)


def _insert(region: Region, before: dict[Operation, list[Operation]]) -> None:
    out: list[Operation] = []
    for operation in region.operations:
        out += [*before.get(operation, ()), operation]
        for inner in operation.regions:
            _insert(inner, before)
    region.operations = out


def _copies(operation: Operation, values: list[Value], placement: Placement) -> list[Operation]:
    """Return the operation that copies tiles to the results of an operation."""
    pairs = [
        (value, result)
        for value, result in zip(values, operation.results, strict=True)
        if is_tile(value)
        and not (isinstance(value.owner, Operation) and value.owner.name == "undefined")
        and placement[value].number != placement[result].number
    ]
    if not pairs:
        return []
    sources = [value for value, _ in pairs]
    targets = {"targets": tuple(result for _, result in pairs)}
    return [Operation("tile.copy", sources, (), targets, None, Effect.BLOCK, operation.place)]
