"""Split a kernel into the thread that begins copies and the threads that multiply.

Both run the same control flow. The *producer* keeps the loads of factors, and what their places and
the loops around them are computed from. The other threads keep everything else.

Each iteration has a slot of the ring. The producer waits until the slot is free (``ring.reserve``),
begins the copies (``ring.copy``) and goes on to the next slot (``ring.next``). The others wait
until the copies are there (``ring.receive``), multiply, and free the slot (``ring.release``).
"""

from __future__ import annotations

from collections.abc import Mapping

from numba import types

from kerneldsl.ir.operations import TOGETHER, Effect, Function, Operation, Region, Value
from kerneldsl.ir.ranges import Interval
from kerneldsl.ir.rewriter import clone_region, drop_unused
from kerneldsl.ir.tiles.handing_on import drop_casts, drop_unread
from targets.cuda.compile.mma.tile_order import group_tiles
from targets.cuda.compile.mma.warpgroup_plan import NotPlanned, Part, WarpgroupPlan

__all__ = ["split_pipeline"]


def split_pipeline(function: Function, plan: WarpgroupPlan, known: dict[Value, Interval]) -> None:
    """Split the body of a kernel in place; `known` are intervals of its integers.

    Raises `NotPlanned` if places of loads, or loops around them, depend on what is multiplied.
    """
    body = function.body
    producer, values = Region(), dict[Value, Value]()
    copy = clone_region(body, values)
    parts = {values[load.result]: part for load, part in plan.parts.items()}
    copy.operations.pop()
    # The arguments of the kernel are those of both.
    back = dict(zip(copy.arguments, body.arguments, strict=True))
    for operation in copy.walk():
        operation.operands = [back.get(value, value) for value in operation.operands]
    known |= {new: known[old] for old, new in values.items() if old in known}
    producer.operations = [*copy.operations, Operation("yield", [])]
    _keep_copies(function, producer, parts)
    producer.operations.insert(0, _ring("ring.produce"))
    _take_parts(plan)
    ending = body.operations.pop()
    others = Region()
    others.operations = [_ring("ring.multiply"), *body.operations, Operation("yield", [])]
    begin = Operation("ring.begin", [], (types.boolean,), effect=Effect.WAIT)
    for region in (producer, others):
        group_tiles(region)
    branch = Operation("if", [begin.result], (), None, [producer, others])
    body.operations = [begin, branch, ending]


def _keep_copies(function: Function, region: Region, parts: Mapping[Value, Part]) -> None:
    """Keep the loads of factors in a region, as copies, and what they depend on."""

    def is_copy(operation: Operation) -> bool:
        return any(value in parts for value in operation.results)

    dropped: set[Value] = set()

    def visit(region: Region) -> None:
        kept: list[Operation] = []
        copies = [each for each in region.operations if is_copy(each)]
        for operation in region.operations:
            if is_copy(operation):
                if operation is copies[0]:
                    kept.append(_ring("ring.reserve"))
                _, _, *place = operation.operands
                attributes = {"part": parts[operation.result]}
                kept.append(_ring("ring.copy", place, attributes))
                if operation is copies[-1]:
                    kept.append(_ring("ring.next"))
                dropped.update(operation.results)
                continue
            is_control = bool(operation.regions) and not operation.name.startswith("tile.")
            if not is_control and operation.name != "leave" and _is_of_others(operation):
                dropped.update(operation.results)
                continue
            kept.append(operation)
            if is_control:
                for inner in operation.regions:
                    visit(inner)
        region.operations = kept

    visit(region)
    whole = Function(function.name, (), function.unit)
    whole.body = region
    drop_casts(whole)
    drop_unread(whole)
    drop_unused(region)
    for operation in region.walk():
        if any(value in dropped for value in operation.operands):
            raise NotPlanned("the place of a load, or a loop around it, depends on products")
        if operation.effect & Effect.READ:
            raise NotPlanned("the place of a load, or a loop around it, depends on an array")


def _is_of_others(operation: Operation) -> bool:
    """Return whether an operation has effects or tiles that the producer has nothing to do with."""
    return operation.name.startswith("tile.") or bool(operation.effect & (Effect.WRITE | TOGETHER))


def _take_parts(plan: WarpgroupPlan) -> None:
    """Let products take their factors from the ring."""
    region = plan.region
    for product, form in plan.forms.items():
        product.attributes["form"] = form
    products = [each for each in region.operations if each.name == "tile.mma"]
    out: list[Operation] = []
    for operation in region.operations:
        if operation in plan.parts:
            operation.name = "tile.part"
            operation.operands = []
            operation.attributes["part"] = plan.parts[operation]
        if operation is products[0]:
            out.append(_ring("ring.receive"))
        out.append(operation)
        if operation is products[-1]:
            out.append(_ring("ring.release"))
    region.operations = out


def _ring(
    name: str, operands: list[Value] | None = None, attributes: dict[str, Part] | None = None
) -> Operation:
    return Operation(name, operands or [], (), attributes, effect=Effect.WAIT)
