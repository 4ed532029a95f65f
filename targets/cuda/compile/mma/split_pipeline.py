"""Split a kernel into the thread that begins copies and the threads that multiply.

Both run the same control flow. The *producer* keeps the loads of factors, and what their places and
the loops around them are computed from. The other threads keep everything else.

Each iteration has a slot of a ring. The producer waits until the slot is free (``ring.reserve``),
begins the copies (``ring.copy``) and goes on to the next slot (``ring.next``). The others wait
until the copies are there (``ring.receive``), multiply, and free the slot (``ring.release``). They
receive the factors of a product before it, and free them after the last product that reads them.

If all products of a loop add to one tile, the tensor cores multiply one iteration while the threads
begin the next one. They free a slot one iteration later then. After the loop they wait for the last
products (``ring.drain``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from numba import types

from kerneldsl.contract import Specialization
from kerneldsl.ir.operations import TOGETHER, Effect, Function, Operation, Region, Value
from kerneldsl.ir.ranges import Interval
from kerneldsl.ir.rewriter import clone_region, drop_unused
from kerneldsl.ir.tiles.handing_on import drop_casts, drop_unread
from targets.cuda.compile.mma.mapped_loads import NotPlanned, arguments_of, whole_of
from targets.cuda.compile.mma.own_tiles import take_own_tiles
from targets.cuda.compile.mma.result_reads import early_reads
from targets.cuda.compile.mma.tile_order import group_tiles
from targets.cuda.compile.mma.warpgroup_plan import Part, RingPlan, WarpgroupPlan

__all__ = ["split_pipeline"]

#: Slots are free an iteration later if a ring has at least so many: of one warpgroup, of several.
#: Several multiply in turns anyway. With fewer slots, the next copies begin too late.
_LATE_SLOTS, _LATE_SLOTS_OF_SEVERAL = 3, 6


def split_pipeline(
    function: Function,
    plan: WarpgroupPlan,
    specialization: Specialization,
    known: dict[Value, Interval],
) -> None:
    """Split the body of a kernel in place; `known` are intervals of its integers.

    Raises `NotPlanned` if places of loads, or loops around them, depend on what is multiplied.
    """
    body = function.body
    for store, panels in plan.panels.items():
        store.attributes["panels"] = panels
        for number, load in enumerate(panels.loads):
            load.attributes["panel"] = number
    constant = _constant_arrays(function, specialization)
    producer, values = Region(), dict[Value, Value]()
    copy = clone_region(body, values)
    parts = {values[load.result]: part for ring in plan.rings for load, part in ring.parts.items()}
    copy.operations.pop()
    # The arguments of the kernel are those of both.
    back = dict(zip(copy.arguments, body.arguments, strict=True))
    for operation in copy.walk():
        operation.operands = [back.get(value, value) for value in operation.operands]
    known |= {new: known[old] for old, new in values.items() if old in known}
    producer.operations = [*copy.operations, Operation("yield", [])]
    _keep_copies(function, producer, parts, constant)
    producer.operations.insert(0, _ring("ring.produce"))
    _take_parts(function, plan)
    ending = body.operations.pop()
    others = Region()
    stored = [_ring("ring.stored")] if plan.stores else []
    others.operations = [
        _ring("ring.multiply"),
        *body.operations,
        *stored,
        Operation("yield", []),
    ]
    if plan.sharing < plan.warpgroups:
        take_own_tiles(others, plan.rings[0].region, known)
    begin = Operation("ring.begin", [], (types.boolean,), effect=Effect.WAIT)
    _drop_places(others)
    for region in (producer, others):
        group_tiles(region)
    branch = Operation("if", [begin.result], (), None, [producer, others])
    body.operations = [begin, branch, ending]


def _drop_places(region: Region) -> None:
    """Drop what only the places of loads depended on, and what that depended on."""
    count, left = 0, -1
    while count != left:
        count = sum(1 for _ in region.walk())
        drop_unused(region)
        left = sum(1 for _ in region.walk())


def _constant_arrays(function: Function, specialization: Specialization) -> set[Value]:
    """Return the arguments with elements that the kernel does not write under any name."""
    if not specialization.promises.is_disjoint:
        return set()
    arrays, written = specialization.layout.arrays, specialization.traits.written
    found = arguments_of(function, specialization).items()
    return {value for value, number in found if arrays[number].position not in written}


def _keep_copies(
    function: Function, region: Region, parts: Mapping[Value, Part], constant: Collection[Value]
) -> None:
    """Keep the loads of factors in a region, as copies, and what they depend on."""

    def is_copy(operation: Operation) -> bool:
        return any(value in parts for value in operation.results)

    dropped: set[Value] = set()

    def visit(region: Region) -> None:
        kept: list[Operation] = []
        copies = [each for each in region.operations if is_copy(each)]
        rings = [parts[each.result].ring for each in copies]
        for operation in region.operations:
            if is_copy(operation):
                part = parts[operation.result]
                place = copies.index(operation)
                if part.ring not in rings[:place]:
                    kept.append(_ring("ring.reserve", part.ring))
                kept.append(_copy(operation, part))
                if part.ring not in rings[place + 1 :]:
                    kept.append(_ring("ring.next", part.ring))
                dropped.update(operation.results)
                continue
            if "panels" in operation.attributes:
                kept.append(_ring("ring.panels", 0))
                kept[-1].operands = operation.operands[1:3]
                kept[-1].attributes["panels"] = operation.attributes["panels"]
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
        if operation.effect & Effect.READ and whole_of(operation.operands[0])[0] not in constant:
            raise NotPlanned("the place of a load, or a loop around it, depends on an array")


def _is_of_others(operation: Operation) -> bool:
    """Return whether an operation has effects or tiles that the producer has nothing to do with."""
    return operation.name.startswith("tile.") or bool(operation.effect & (Effect.WRITE | TOGETHER))


def _copy(load: Operation, part: Part) -> Operation:
    """Return what begins the copy of a tile: of the whole array, at indices of the part and of it.

    An index of the part that is not marked may be negative.
    """
    array, _, *place = load.operands
    whole, taken = whole_of(array)
    marks: tuple[bool, ...] = ()
    for each in taken:
        place = [*each.operands[1:], *place]
        marks = (*each.attributes["nonnegative"], *marks)
    attributes = {"part": part, "nonnegative": marks}
    return Operation("ring.copy", [whole, *place], (), attributes, effect=Effect.WAIT)


def _take_parts(function: Function, plan: WarpgroupPlan) -> None:
    """Let products take their factors from the rings."""
    for product, form in plan.forms.items():
        product.attributes["form"] = form
    for store, boxes in plan.stores.items():
        store.attributes["boxes"] = boxes
    _mark_ends(function.body, plan)
    _prefetch_reads(function.body, plan)
    _take_words(function.body, plan)
    fewest = _LATE_SLOTS if plan.sharing == 1 else _LATE_SLOTS_OF_SEVERAL
    has_lines = any(ring.has_lines for ring in plan.rings)
    loads = {load for ring in plan.rings for load in ring.parts}
    # Threads would compute the next factor in registers that products still read.
    has_words = any(product.operands[0].owner not in loads for product in plan.forms)
    is_late = len(plan.rings) == 1 and plan.slots >= fewest and _is_chain(plan)
    is_late = is_late and not (has_lines or has_words)
    for number, ring in enumerate(plan.rings):
        for load, part in ring.parts.items():
            load.name = "tile.line" if part.is_line else "tile.part"
            load.operands = []
            load.effect = Effect.NONE
            load.attributes["part"] = part
        _receive(number, ring, is_late=is_late)
    if is_late:
        for product in plan.forms:
            product.attributes["is_pending"] = True
        _drain(function.body, plan.rings[0].region)


def _mark_ends(region: Region, plan: WarpgroupPlan) -> None:
    """Let warpgroups find out whether they have rows of a product."""
    for place, operation in reversed(list(enumerate(region.operations))):
        for inner in operation.regions:
            _mark_ends(inner, plan)
        if operation in plan.ends:
            ends = list(plan.ends[operation])
            region.operations.insert(place, Operation("ring.rows", ends, effect=Effect.WAIT))


def _prefetch_reads(body: Region, plan: WarpgroupPlan) -> None:
    """Let what functions of results read be on its way while products are computed."""
    rings = {ring.region for ring in plan.rings}
    for inner in (loop.regions[0] for loop in body.operations if "tiles" in loop.attributes):
        operations = inner.operations
        places = [n for n, each in enumerate(operations) if not rings.isdisjoint(each.regions)]
        for place in places[:1]:
            loop = operations[place]
            start, stop, step = loop.operands[:3]
            later = {value for each in operations[place:] for value in each.results}
            stores = [
                store
                for store, boxes in plan.stores.items()
                if boxes.is_of_neighbours
                and store in operations[place:]
                and early_reads(store)
                and later.isdisjoint(_used(store))
            ]
            turn = loop.regions[0].arguments[0]
            operations[place:place] = [_prefetch(each, start, stop, step) for each in stores]
            loop.regions[0].operations[:0] = [
                _prefetch(each, turn, stop, step, is_inside=True) for each in stores
            ]


def _prefetch(
    store: Operation, start: Value, stop: Value, step: Value, *, is_inside: bool = False
) -> Operation:
    attributes = {"store": store, "is_inside": is_inside}
    return Operation("ring.prefetch", [start, stop, step], (), attributes, effect=Effect.WAIT)


def _used(store: Operation) -> set[Value]:
    """Return what the places of a store and of its reads are computed from."""
    region = store.regions[0]
    made = {value for each in region.walk() for value in each.results}
    reads = {value for each in region.walk() for value in each.operands}
    tiles = set(store.operands[store.attributes["first"] :])
    return ({*store.operands, *reads} - made - tiles) - set(region.arguments)


def _is_chain(plan: WarpgroupPlan) -> bool:
    """Return whether a loop has one product, which adds to the tile of the last iteration."""
    region, (product, *others) = plan.rings[0].region, plan.forms
    added = product.operands[2:]
    if others or product not in region.operations or not added or added[0] not in region.arguments:
        return False
    if plan.forms[product].is_promoted and product.attributes["promote"] is not None:
        return False
    tiles = (added[0], product.result)
    uses = [each for each in region.walk() if any(value in tiles for value in each.operands)]
    end = region.operations[-1]
    place = region.arguments.index(added[0]) - 1  # the counter is first
    return uses == [product, end] and end.operands[place] is product.result


def _drain(body: Region, region: Region) -> None:
    """Wait for the last products after the loop with a region."""
    for place, operation in enumerate(body.operations):
        if region in operation.regions:
            body.operations.insert(place + 1, _ring("ring.drain", 0))
            return
        for inner in operation.regions:
            _drain(inner, region)


def _take_words(region: Region, plan: WarpgroupPlan) -> None:
    """Let products take first factors that are computed from registers of words."""
    loads = {load for ring in plan.rings for load in ring.parts}
    out: list[Operation] = []
    for operation in region.operations:
        if operation in plan.forms and operation.operands[0].owner not in loads:
            factor = operation.operands[0]
            rows, depth = factor.type.shape
            count = rows * depth // (2 * plan.threads)
            # The tile is read at the index of each element, as by an expression.
            attributes = {"shape": factor.type.shape, "first": 0, "transposed": (False,)}
            words = Operation("tile.words", [factor], (types.uint32,) * count, attributes)
            part = Operation("tile.part", words.results, (factor.type,))
            operation.operands[0] = part.result
            out += [words, part]
        out.append(operation)
        for inner in operation.regions:
            _take_words(inner, plan)
    region.operations = out


def _receive(number: int, ring: RingPlan, *, is_late: bool) -> None:
    """Receive the factors of a ring before the first product of them; free them after the last."""
    operations = ring.region.operations
    readers = [place for place, each in enumerate(operations) if each in ring.readers]
    release = _ring("ring.release", number)
    release.attributes["is_late"] = is_late
    operations.insert(readers[-1] + 1, release)
    operations.insert(readers[0], _ring("ring.receive", number))


def _ring(name: str, ring: int | None = None) -> Operation:
    attributes: dict[str, Any] = {} if ring is None else {"ring": ring}
    return Operation(name, [], (), attributes, effect=Effect.WAIT)
