"""Let threads multiply while they compute from an earlier product, as in attention.

A loop may have two products: scores of an iteration, and a sum of products with what is computed
from them. The second one of an iteration then runs beside the first one of the next iteration, and
beside what is computed from that::

    first part of the first iteration
    for each further iteration:
        begin the first product of this iteration
        begin the second product of the iteration before
        wait for the first product; compute what follows it
        wait for the second product
    second part of the last iteration

Warpgroups begin products of an iteration in turns. So one multiplies while others compute.

The second part of an iteration is its last product, and what depends on that, in this iteration or
a later one. The first part hands on to it what it reads. All operations are those of the loop, in
an order that their values permit.
"""

from __future__ import annotations

from collections.abc import Sequence

from numba import types

from kerneldsl.ir.operations import Effect, Operation, Region, Value
from kerneldsl.ir.rewriter import clone
from kerneldsl.ir.tiles.live_ranges import is_tile

__all__ = ["overlap_products"]

#: Least products for each element of the first result. On an H200, attention with heads of 128
#: elements has 256 and is faster by 1.06. With heads of 64 it is slower by up to 1.2.
LEAST_WORK = 192
#: Operations with these have an order that a loop must keep.
_ORDERED = Effect.READ | Effect.WRITE | Effect.ALLOCATE | Effect.EXCHANGE | Effect.LEAVE


def overlap_products(region: Region) -> int:
    """Rewrite the loops of a region that permit it; return how many."""
    count, out = 0, []
    for operation in region.operations:
        made = _overlapped(operation) if operation.name == "for" else None
        if made is None:
            count += sum(map(overlap_products, operation.regions))
        else:
            count += 1
        out += made or [operation]
    region.operations = out
    if count and out[0].name == "ring.multiply":
        out.insert(1, _turn_of("first"))
    return count


def _turn_of(word: str) -> Operation:
    return Operation("ring.turn", [], (), {"word": word}, effect=Effect.WAIT)


class _Parts:
    """The two parts of an iteration."""

    def __init__(self, loop: Operation, body: Region, products: Sequence[Operation]) -> None:
        (self.first, self.last) = products
        count = len(loop.results)
        self.carried = body.arguments[1:]
        assert len(self.carried) == count
        late: set[Value] = {self.last.result}
        while True:
            before = len(late)
            for each in body.operations[:-1]:
                if not late.isdisjoint(each.used()):
                    late.update(each.results)
            late.update(a for a, y in zip(self.carried, body.yielded, strict=True) if y in late)
            if len(late) == before:
                break
        self.is_late = [value in late for value in self.carried]
        own = {self.last, *_rings_around(body, self.last)}
        own.update(each for each in map(_owner, self.last.operands[:2]) if each.name == "tile.part")
        self.two = [
            each for each in body.operations[:-1] if each in own or not late.isdisjoint(each.used())
        ]
        self.one = [each for each in body.operations[:-1] if each not in self.two]
        given = {*body.arguments, *(v for each in self.one for v in each.results)} - late
        self.handed_on = list(
            dict.fromkeys(v for each in self.two for v in each.used() if v in given)
        )

    @property
    def is_possible(self) -> bool:
        """True if the first product does not depend on the second part."""
        fits = (
            is_tile(v) or isinstance(v.type, types.Integer | types.Float) for v in self.handed_on
        )
        has_own = all(v.owner not in self.two for v in self.first.operands)
        return self.first in self.one and has_own and all(fits)


def _owner(value: Value) -> Operation:
    assert isinstance(value.owner, Operation)
    return value.owner


def _overlapped(loop: Operation) -> list[Operation] | None:
    """Return what takes the place of a loop, ``None`` if it stays as it is."""
    (body,) = loop.regions
    products = [each for each in body.operations if each.name == "tile.mma"]
    has_lines = any(each.name == "tile.line" for each in body.operations)
    if len(products) != 2 or has_lines or any(map(_is_added_in_parts, products)):
        return None
    if products[0].attributes["depth"] + products[1].attributes["shape"][1] < LEAST_WORK:
        return None
    start, stop, step = loop.operands[:3]
    if not _is_positive(step) or {start.type, stop.type, step.type} != {types.int64}:
        return None
    if any(each.effects() & _ORDERED for each in body.operations[:-1]):
        return None
    parts = _Parts(loop, body, products)
    return _written(loop, parts) if parts.is_possible else None


def _is_added_in_parts(product: Operation) -> bool:
    """Return whether sums of a product are added to the accumulators several times."""
    promote = product.attributes["promote"]
    return product.attributes["form"].is_promoted and promote is not None


def _is_positive(step: Value) -> bool:
    made = step.owner
    if not isinstance(made, Operation) or made.name != "const":
        return False
    return int(made.attributes["value"]) > 0


def _rings_around(body: Region, product: Operation) -> set[Operation]:
    """Return what receives factors right before a product, and frees them right after it."""
    operations, place = body.operations, body.operations.index(product)
    found: set[Operation] = set()
    for step, name in ((-1, "ring.receive"), (1, "ring.release")):
        at = place + step
        while operations[at].name == name:
            found.add(operations[at])
            at += step
    return found


def _written(loop: Operation, parts: _Parts) -> list[Operation]:
    (body,) = loop.regions
    start, stop, step, *given = loop.operands
    counter = body.arguments[0]
    is_any = Operation("ring.any", [start, stop], (types.boolean,))
    following = Operation("ring.following", [start, step], (start.type,))
    early_given = [v for v, late in zip(given, parts.is_late, strict=True) if not late]
    late_given = [v for v, late in zip(given, parts.is_late, strict=True) if late]
    early_arguments = [v for v, late in zip(parts.carried, parts.is_late, strict=True) if not late]
    late_arguments = [v for v, late in zip(parts.carried, parts.is_late, strict=True) if late]
    yields = list(zip(body.yielded, parts.is_late, strict=True))
    early_yields = [v for v, late in yields if not late]
    late_yields = [v for v, late in yields if late]

    first = dict(zip([counter, *early_arguments], [start, *early_given], strict=True))
    operations = [following, *(clone(each, first) for each in parts.one)]

    def seen(values: dict[Value, Value], wanted: Sequence[Value]) -> list[Value]:
        return [values.get(value, value) for value in wanted]

    carried = [*seen(first, early_yields), *seen(first, parts.handed_on), *late_given]
    kinds = tuple(value.type for value in carried)
    turn = Region((counter.type, *kinds))
    inner = Operation(
        "for",
        [following.result, stop, step, *carried],
        kinds,
        dict(loop.attributes),
        [turn],
        loop.effect,
        loop.place,
    )
    turn.arguments[0].name = counter.name
    count = len(early_arguments), len(parts.handed_on)
    turn_early, turn_handed, turn_late = _split(turn.arguments[1:], *count)
    one = dict(zip([counter, *early_arguments], [turn.arguments[0], *turn_early], strict=True))
    two = dict(zip([*parts.handed_on, *late_arguments], [*turn_handed, *turn_late], strict=True))
    turn.operations = _turn(parts, one, two)
    results = [*seen(one, early_yields), *seen(one, parts.handed_on), *seen(two, late_yields)]
    turn.operations.append(Operation("yield", results))

    end_early, end_handed, end_late = _split(inner.results, *count)
    end = dict(zip([*parts.handed_on, *late_arguments], [*end_handed, *end_late], strict=True))
    operations += [inner, *(clone(each, end) for each in parts.two)]
    early, late = iter(end_early), iter(seen(end, late_yields))
    operations.append(Operation("yield", [next(late if each else early) for each in parts.is_late]))
    whole, none = Region(), Region()
    whole.operations, none.operations = operations, [Operation("yield", given)]
    branch = Operation("if", [is_any.result], (), None, [whole, none], place=loop.place)
    return [is_any, branch.take_results(loop.results)]


def _split(values: Sequence[Value], one: int, two: int) -> tuple[Sequence[Value], ...]:
    return values[:one], values[one : one + two], values[one + two :]


def _turn(parts: _Parts, one: dict[Value, Value], two: dict[Value, Value]) -> list[Operation]:
    """Return an iteration: the first part of it, and the second one of the iteration before."""
    early, late = parts.one.index(parts.first) + 1, parts.two.index(parts.last) + 1
    begins = [clone(each, one) for each in parts.one[:early]]
    sums = [clone(each, two) for each in parts.two[:late]]
    out = [*begins, *sums]
    out = [_turn_of("begin"), *out, _turn_of("end")]
    for product, pending in ((begins[-1], 1), (sums[-1], 0)):
        product.attributes["is_awaited"] = False
        if not pending:
            # An assembler moves what was computed past a wait, but not past a loop.
            out += [clone(each, two) for each in parts.two if each.name == "ring.receive"]
        attributes = {"product": product, "pending": pending}
        out.append(Operation("ring.await", [], (), attributes, effect=Effect.WAIT))
        if pending:
            out += [clone(each, one) for each in parts.one[early:]]
    return [*out, *(clone(each, two) for each in parts.two[late:])]
