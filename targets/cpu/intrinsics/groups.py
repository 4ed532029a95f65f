"""The operations of warps and blocks that exchange values.

Values of a warp are combined in a tree, and those of a block's warps in their order.

Numbers of a warp are combined as a vector, in which lanes that do not take part have the neutral
element. It leaves every bit of a number as it is, so results are those of the lanes alone. Values
that are no numbers, and operations that call a function, go through memory, lane by lane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.ir.ranges import WARP_SIZE
from kerneldsl.language.intrinsics.intrinsic import Scope
from kerneldsl.lowering.calls import Call
from kerneldsl.lowering.groups import WIDTHS, Combination, after_initial, combination, is_any
from kerneldsl.lowering.loop_marks import NOT_UNROLLED, mark_loop
from targets.cpu.intrinsics.exchange import (
    I1,
    I32,
    I64,
    SORT_WORDS,
    Buffer,
    Exchange,
    each_lane,
    last_of,
    post_pairs,
    post_predicate,
    post_value,
    sort_pairs,
    take_pair,
)

__all__ = ["GROUPS", "fold_neighbours", "scan_vector"]


def reduce_values(name: str, scope: Scope, room: Buffer, call: Call) -> None:
    builder, found = room.builder, combination(name, call)
    is_of_block = scope is Scope.BLOCK
    if found.is_vectorizable:
        _reduce_vectors(room, found, is_of_block=is_of_block)
        return
    values = room.values(found.value_type)
    with cgutils.for_range(builder, room.warps) as loop:
        first = builder.gep(values, [builder.mul(loop.index, I64(WARP_SIZE))])
        _reduce_tree(builder, found, first, room.present(loop.index))
    if is_of_block:
        total = _Chain(builder, found)
        with cgutils.for_range(builder, room.warps) as loop:
            is_here = builder.icmp_unsigned("!=", room.present(loop.index), I32(0))
            with builder.if_then(is_here):
                first = builder.mul(loop.index, I64(WARP_SIZE))
                total.add(room.value(found.value_type, first))
        with builder.if_then(total.is_begun):
            room.set_value(total.value, I64(0))


def _reduce_vectors(room: Buffer, found: Combination, *, is_of_block: bool) -> None:
    builder = room.builder
    total = cgutils.alloca_once_value(builder, found.neutral)
    with _each_vector(room, found) as (_, place, vector):
        reduced = fold_neighbours(builder, vector, partial(found.combine, builder))
        if is_of_block:
            reduced = found.combine(builder, builder.load(total), reduced)
            builder.store(reduced, total)
        else:
            builder.store(reduced, builder.bitcast(place, found.value_type.as_pointer()))
    if is_of_block:
        builder.store(builder.load(total), room.values(found.value_type))


@contextmanager
def _each_vector(
    room: Buffer, found: Combination, *marks: str
) -> Iterator[tuple[ir.Value, ir.Value, ir.Value]]:
    """Go over the warps: yield each one's number, place, and values as a vector."""
    builder, values = room.builder, room.values(found.value_type)
    kind = ir.VectorType(found.value_type, WARP_SIZE)
    neutral = ir.Constant(kind, [found.neutral.constant] * WARP_SIZE)
    with cgutils.for_range(builder, room.warps) as loop:
        first = builder.gep(values, [builder.mul(loop.index, I64(WARP_SIZE))])
        place = builder.bitcast(first, kind.as_pointer())
        lanes = builder.bitcast(room.present(loop.index), ir.VectorType(I1, WARP_SIZE))
        vector = builder.select(lanes, builder.load(place, align=_ALIGNMENT), neutral)
        yield loop.index, place, vector
        if marks:
            mark_loop(builder, *marks)


#: A value's place is a multiple of its size; this is the least size.
_ALIGNMENT = 1
#: Lanes that all read the first.
_FIRSTS = [0] * WARP_SIZE


def _permuted(builder: ir.IRBuilder, vector: ir.Value, lanes: list[int]) -> ir.Value:
    return builder.shuffle_vector(vector, vector, _constant(I32, lanes))


def _constant(kind: ir.Type, values: list[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(kind, len(values)), values)


def fold_neighbours(
    builder: ir.IRBuilder, vector: ir.Value, combined: Callable[[ir.Value, ir.Value], ir.Value]
) -> ir.Value:
    """Combine the lanes of a vector: neighbours, then neighbouring pairs, and so on."""
    count = vector.type.count
    while count > 1:
        even, odd = (_permuted(builder, vector, list(range(i, count, 2))) for i in range(2))
        vector = combined(even, odd)
        count //= 2
    return builder.extract_element(vector, I32(0))


def _reduce_tree(
    builder: ir.IRBuilder, found: Combination, first: ir.Value, present: ir.Value
) -> None:
    """Combine neighbouring lanes, then neighbouring pairs, and so on; who is absent is left out.

    What a part of the warp gives is at its beginning.
    """
    for width in WIDTHS:
        with cgutils.for_range(builder, I32(WARP_SIZE // (2 * width))) as part:
            start = builder.mul(part.index, I32(2 * width))
            low, high = _halves(builder, present, start, width)
            with builder.if_then(is_any(builder, high)):
                one = builder.gep(first, [start])
                other = builder.load(builder.gep(one, [I32(width)]))
                with builder.if_else(is_any(builder, low)) as (both, alone):
                    with both:
                        builder.store(found.combine(builder, builder.load(one), other), one)
                    with alone:
                        builder.store(other, one)


def _halves(
    builder: ir.IRBuilder, present: ir.Value, start: ir.Value, width: int
) -> tuple[ir.Value, ir.Value]:
    """Return who is there of the two halves of a part of a warp, each from bit 0 on."""
    lanes = I32((1 << width) - 1)
    low = builder.lshr(present, start)
    return builder.and_(low, lanes), builder.and_(builder.lshr(low, I32(width)), lanes)


class _Chain:
    """Values that are combined one after the other; the first is taken as it is."""

    def __init__(self, builder: ir.IRBuilder, found: Combination) -> None:
        self._builder = builder
        self._found = found
        self._value = cgutils.alloca_once(builder, found.value_type)
        self._is_begun = cgutils.alloca_once(builder, I1)
        self.clear()

    @property
    def is_begun(self) -> ir.Value:
        """True if there is a value."""
        return self._builder.load(self._is_begun)

    @property
    def value(self) -> ir.Value:
        """All values so far, combined."""
        return self._builder.load(self._value)

    def clear(self) -> None:
        self._builder.store(I1(0), self._is_begun)

    def set(self, value: ir.Value) -> None:
        """Go on from a value that is all values so far."""
        self._builder.store(value, self._value)
        self._builder.store(I1(1), self._is_begun)

    def add(self, value: ir.Value) -> None:
        builder = self._builder
        with builder.if_else(self.is_begun) as (later, first):
            with later:
                builder.store(self._found.combine(builder, self.value, value), self._value)
            with first:
                self.set(value)


def scan_values(name: str, scope: Scope, room: Buffer, call: Call) -> None:
    """Combine each value with those before it."""
    found = combination(name, call)
    if found.is_vectorizable:
        _scan_vectors(room, found, is_of_block=scope is Scope.BLOCK)
    else:
        _scan_lanes(room, found, is_of_block=scope is Scope.BLOCK)


def _scan_vectors(
    room: Buffer, found: Combination, *, is_of_block: bool, is_exclusive: bool = False
) -> None:
    builder = room.builder
    before = cgutils.alloca_once_value(builder, found.neutral)
    is_begun = cgutils.alloca_once_value(builder, I32(0))
    with _each_vector(room, found, NOT_UNROLLED) as (warp, place, vector):
        vector = scan_vector(builder, found, vector)
        carried = builder.load(before)
        if is_of_block:
            spread = builder.insert_element(vector.type(ir.Undefined), carried, I32(0))
            vector = found.combine(builder, _permuted(builder, spread, _FIRSTS), vector)
            builder.store(builder.extract_element(vector, I32(WARP_SIZE - 1)), before)
        if is_exclusive:
            # Lanes that do not take part have what the last one before them has.
            shifted = _permuted(builder, vector, [0, *range(WARP_SIZE - 1)])
            vector = builder.insert_element(shifted, carried, I32(0))
            present = room.present(warp)
            has_before = builder.and_(present, builder.not_(_up_to_first(builder, present)))
            if is_of_block:
                begun = builder.load(is_begun)
                has_before = builder.or_(has_before, builder.and_(present, begun))
                is_any_here = builder.sext(is_any(builder, present), I32)
                builder.store(builder.or_(begun, is_any_here), is_begun)
            room.set_bits(warp, has_before)
        builder.store(vector, place, align=_ALIGNMENT)


def _up_to_first(builder: ir.IRBuilder, lanes: ir.Value) -> ir.Value:
    """Return the bits up to the first one that is set, or all bits if none is."""
    return builder.xor(lanes, builder.sub(lanes, I32(1)))


def _scan_lanes(room: Buffer, found: Combination, *, is_of_block: bool) -> None:
    builder = room.builder
    values = room.values(found.value_type)
    before = _Chain(builder, found)
    with cgutils.for_range(builder, room.warps) as loop:
        present = room.present(loop.index)
        first = builder.gep(values, [builder.mul(loop.index, I64(WARP_SIZE))])
        with builder.if_then(is_any(builder, present)):
            _scan_tree(builder, found, first, present)
            if is_of_block:
                with builder.if_then(before.is_begun):
                    _combine_each(builder, found, before.value, first, present)
                before.set(builder.load(builder.gep(first, [last_of(builder, present)])))


def _combine_each(
    builder: ir.IRBuilder,
    found: Combination,
    before: ir.Value,
    first: ir.Value,
    present: ir.Value,
) -> None:
    """Combine what is before a warp with each of its values."""
    with each_lane(builder, present) as lane:
        place = builder.gep(first, [lane])
        builder.store(found.combine(builder, before, builder.load(place)), place)


def scan_vector(builder: ir.IRBuilder, found: Combination, vector: ir.Value) -> ir.Value:
    """Combine each value of a vector with those before it."""
    for width in WIDTHS:
        # Lanes of an upper half meet the last of the lower half, which has all before them.
        sources = [lane & -2 * width | width - 1 for lane in range(WARP_SIZE)]
        is_upper = _constant(I1, [lane & width != 0 for lane in range(WARP_SIZE)])
        combined = found.combine(builder, _permuted(builder, vector, sources), vector)
        vector = builder.select(is_upper, combined, vector)
    return vector


def _scan_tree(
    builder: ir.IRBuilder, found: Combination, first: ir.Value, present: ir.Value
) -> None:
    for width in WIDTHS:
        with cgutils.for_range(builder, I32(WARP_SIZE // (2 * width))) as part:
            start = builder.mul(part.index, I32(2 * width))
            low, high = _halves(builder, present, start, width)
            with builder.if_then(is_any(builder, low)):
                last = builder.gep(first, [builder.add(start, last_of(builder, low))])
                before = builder.load(last)
                upper = builder.gep(first, [builder.add(start, I32(width))])
                _combine_each(builder, found, before, upper, high)


def scan_before(name: str, scope: Scope, room: Buffer, call: Call) -> None:
    """Scan, and give each thread the result of the one before it, and a bit to who has one."""
    builder, found = room.builder, combination(name, call)
    is_of_block = scope is Scope.BLOCK
    if found.is_vectorizable:
        _scan_vectors(room, found, is_of_block=is_of_block, is_exclusive=True)
        return
    _scan_lanes(room, found, is_of_block=is_of_block)
    values = room.values(found.value_type)
    before = _Chain(builder, found)
    with cgutils.for_range(builder, room.warps) as loop:
        if not is_of_block:
            before.clear()
        first = builder.gep(values, [builder.mul(loop.index, I64(WARP_SIZE))])
        with each_lane(builder, room.present(loop.index)) as lane:
            place = builder.gep(first, [lane])
            own = builder.load(place)
            with builder.if_then(before.is_begun):
                builder.store(before.value, place)
                room.set_bit(loop.index, builder.zext(lane, I64))
            before.set(own)


# -- steps of single values, and the table --------------------------------------------------------


_POST_VALUE = partial(post_value, 0)


def _groups() -> dict[str, Exchange]:
    """Return what exchanges values; the votes of a block are barriers (``intrinsics.table``)."""
    exchanges = {
        f"warp.{vote}": Exchange(partial(post_predicate, 0), take)
        for vote, take in (("any", _take_any), ("all", _take_all), ("count", _take_count))
    }
    for scope in (Scope.WARP, Scope.BLOCK):
        group = scope.name.lower()
        for operation in ("sum", "max", "min", "reduce"):
            name = f"{group}.{operation}"
            take = partial(_take_common, name, scope)
            exchanges[name] = Exchange(_POST_VALUE, take, partial(reduce_values, name, scope))
        name = f"{group}.inclusive_scan"
        combine = partial(scan_values, name, scope)
        exchanges[name] = Exchange(_POST_VALUE, partial(_take_own, name), combine)
        name = f"{group}.exclusive_scan"
        combine = partial(scan_before, name, scope)
        exchanges[name] = Exchange(_POST_VALUE, partial(_take_before, name), combine)
        exchanges[f"{group}.broadcast"] = Exchange(
            partial(_post_source, scope),
            partial(_take_common, f"{group}.broadcast", scope),
        )
        exchanges[f"{group}.exchange"] = Exchange(_POST_VALUE, partial(_take_source, scope))
        exchanges[f"{group}.sort"] = Exchange(
            post_pairs, take_pair, partial(sort_pairs, scope), words=SORT_WORDS
        )
    return exchanges


def _post_source(scope: Scope, room: Buffer, call: Call) -> None:
    """Write the value of the thread that the others name to the place that they read."""
    builder, (value, source) = room.builder, call.args
    own, first = room.number, I64(0)
    if scope is Scope.WARP:
        own, first = room.lane, room.first
    with builder.if_then(builder.icmp_signed("==", own, builder.sext(source, I64))):
        room.set_value(value, first)


def _take_source(scope: Scope, room: Buffer, call: Call) -> ir.Value:
    builder, (value, source) = room.builder, call.args
    wanted = builder.sext(source, I64)
    count = builder.mul(room.warps, I64(WARP_SIZE))
    if scope is Scope.WARP:
        is_lane = builder.icmp_unsigned("<", wanted, I64(WARP_SIZE))
        wanted = builder.add(room.first, wanted)
        wanted = builder.select(is_lane, wanted, room.number)
    is_thread = builder.icmp_unsigned("<", wanted, count)
    wanted = builder.select(is_thread, wanted, room.number)
    present = room.present(builder.udiv(wanted, I64(WARP_SIZE)))
    lane = builder.trunc(builder.urem(wanted, I64(WARP_SIZE)), I32)
    takes_part = builder.trunc(builder.lshr(present, lane), I1)
    wanted = builder.select(takes_part, wanted, room.number)
    return room.value(value.type, wanted)


def _take_own(name: str, room: Buffer, call: Call) -> ir.Value:
    found = combination(name, call)
    return found.finish(room.builder, room.value(found.value_type, room.number))


def _take_common(name: str, scope: Scope, room: Buffer, call: Call) -> ir.Value:
    """Return the result of the warp or of the block, which is in its first thread's place."""
    builder, found = room.builder, combination(name, call)
    first = I64(0) if scope is Scope.BLOCK else room.first
    return found.finish(builder, room.value(found.value_type, first))


def _take_before(name: str, room: Buffer, call: Call) -> ir.Value:
    builder, found = room.builder, combination(name, call)
    has_any = builder.trunc(builder.lshr(room.bits(), builder.trunc(room.lane, I32)), I1)
    before = room.value(found.value_type, room.number)
    return found.finish(builder, after_initial(call, found, has_any, before))


def _take_any(room: Buffer, call: Call) -> ir.Value:
    return is_any(room.builder, room.bits())


def _take_all(room: Buffer, call: Call) -> ir.Value:
    return room.builder.icmp_unsigned("==", room.bits(), room.present(room.warp))


def _take_count(room: Buffer, call: Call) -> ir.Value:
    return room.builder.ctpop(room.bits())


GROUPS: dict[str, Exchange] = _groups()
