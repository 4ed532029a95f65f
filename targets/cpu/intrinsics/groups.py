"""Compute together what the threads of a warp or a block have: posted, combined, taken.

Each thread that takes part writes its value to its place in memory of the block. Then the values
are combined there, natively, and each thread takes its result. A whole warp is a vector; of another
one the words of :mod:`targets.cpu.intrinsics.warp` say which lanes take part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, lower_cast, models, register_model

from kerneldsl.language.intrinsics.intrinsic import Scope
from kerneldsl.language.intrinsics.table import INTRINSICS
from kerneldsl.lowering.calls import Call
from kerneldsl.lowering.groups import Combination, combination
from kerneldsl.lowering.numba_internals.arrays import make_array
from kerneldsl.lowering.typing_rules import typing_rule
from targets.cpu.ids import WARP_SIZE
from targets.cpu.intrinsics.warp import Exchange

__all__ = ["GROUPS", "nothing_posted"]

_I1, _I32, _I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
_WIDTHS = (1, 2, 4, 8, 16)


class _Room:
    """The memory of a block as an operation uses it.

    `number` is the thread that posts or takes, or how many threads the block has.
    """

    def __init__(
        self, builder: ir.IRBuilder, values: Any, lanes: Any, number: ir.Value, warps: ir.Value
    ) -> None:
        self.builder = builder
        self.number = number
        self.warps = warps
        self._values = values
        self._lanes = lanes

    @property
    def warp(self) -> ir.Value:
        """The thread's warp."""
        return self.builder.udiv(self.number, _I64(WARP_SIZE))

    @property
    def lane(self) -> ir.Value:
        """The thread's index in it."""
        return self.builder.urem(self.number, _I64(WARP_SIZE))

    def values(self, kind: ir.Type) -> ir.Value:
        """Return the address of the first thread's value."""
        return self.builder.bitcast(self._values, kind.as_pointer())

    def word(self, warp: ir.Value) -> ir.Value:
        """Return the address of a warp's word."""
        return self.builder.gep(self._lanes, [warp])

    def present(self, warp: ir.Value) -> ir.Value:
        """Return the lanes of a warp that take part, as an i32."""
        return self.builder.trunc(self.builder.load(self.word(warp)), _I32)


class _Posted(types.Type):
    """The type of what a post returns, which tells the types of the arguments; it has no value."""

    def __init__(self, arguments: tuple[Any, ...] = ()) -> None:
        self.arguments = arguments
        super().__init__(name=f"Posted{arguments}")

    def unify(self, typingctx: Any, other: Any) -> Any:
        """Return where two ways meet, the type of which anything is known."""
        return self if self.arguments else other


register_model(_Posted)(models.OpaqueModel)


@lower_cast(_Posted, _Posted)
def _same(context: Any, builder: Any, found: Any, wanted: Any, value: Any) -> Any:
    return value


@intrinsic
def nothing_posted(typingctx: Any) -> Any:
    """Return what a post would, for a block in which no thread takes part."""
    return _Posted()(), lambda context, builder, signature, args: context.get_dummy_value()


#: Writes a step of an operation.
_Step = Callable[[_Room, Call], ir.Value]


def _operation(name: str, step: _Step, result: Callable[[Any], Any]) -> Callable[..., Any]:
    """Make the function of a step; `result` gives its Numba type for the call's signature."""
    rule = typing_rule(INTRINSICS[name])

    @intrinsic
    def call(typingctx: Any, values: Any, lanes: Any, number: Any, *args: Any) -> Any:
        is_posted = bool(args) and isinstance(args[0], _Posted)
        if is_posted and not args[0].arguments:
            return types.none(values, lanes, types.int64, types.StarArgTuple(args)), _nothing
        typed = rule(args[0].arguments if is_posted else args, {})

        def generate(context: Any, builder: Any, packed: Any, given: Any) -> Any:
            words = make_array(values)(context, builder, given[0])
            masks = make_array(lanes)(context, builder, given[1])
            room = _Room(builder, words.data, masks.data, given[2], masks.nitems)
            members: tuple[ir.Value, ...] = ()
            if not is_posted:
                members = tuple(cgutils.unpack_tuple(builder, given[3], len(typed.args)))
            return step(room, Call(context, builder, typed, members, {}))

        taken = args if is_posted else typed.args
        arguments = (values, lanes, types.int64, types.StarArgTuple(taken))
        return result(typed)(*arguments), generate

    return call  # type: ignore[no-any-return]


def _nothing(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return context.get_dummy_value()


def _exchange(name: str, post: _Step, take: _Step, combine: _Step | None = None) -> Exchange:
    return Exchange(
        _operation(name, post, lambda typed: _Posted(typed.args)),
        _operation(name, take, lambda typed: typed.return_type),
        _operation(name, combine, lambda typed: types.none) if combine is not None else None,
        words=2,  # of a complex128
    )


# -- values -----------------------------------------------------------------------------------


def _post_value(room: _Room, call: Call) -> ir.Value:
    value = call.args[0]
    room.builder.store(value, room.builder.gep(room.values(value.type), [room.number]))
    return call.context.get_dummy_value()


def _take_own(name: str, room: _Room, call: Call) -> ir.Value:
    found = combination(name, call)
    place = room.builder.gep(room.values(found.value_type), [room.number])
    return found.finish(room.builder, room.builder.load(place))


def _take_common(name: str, scope: Scope, room: _Room, call: Call) -> ir.Value:
    """Return the result of the warp or of the block, which stands in its first thread's place."""
    builder, found = room.builder, combination(name, call)
    first = _I64(0) if scope is Scope.BLOCK else builder.sub(room.number, room.lane)
    return found.finish(builder, builder.load(builder.gep(room.values(found.value_type), [first])))


# -- reductions -------------------------------------------------------------------------------


def _reduce(name: str, scope: Scope, room: _Room, call: Call) -> ir.Value:
    builder, found = room.builder, combination(name, call)
    values = room.values(found.value_type)
    with cgutils.for_range(builder, room.warps) as loop:
        first = builder.gep(values, [builder.mul(loop.index, _I64(WARP_SIZE))])
        _of_warp(builder, found, room.present(loop.index), first, _reduce_vector, _reduce_tree)
    if scope is Scope.BLOCK:
        total = _Chain(builder, found)
        with cgutils.for_range(builder, room.warps) as loop:
            is_here = builder.icmp_unsigned("!=", room.present(loop.index), _I32(0))
            with builder.if_then(is_here):
                first = builder.mul(loop.index, _I64(WARP_SIZE))
                total.add(builder.load(builder.gep(values, [first])))
        with builder.if_then(total.is_begun):
            builder.store(total.value, values)
    return call.context.get_dummy_value()


def _of_warp(
    builder: ir.IRBuilder,
    found: Combination,
    present: ir.Value,
    first: ir.Value,
    of_vector: Callable[[ir.IRBuilder, Combination, ir.Value, ir.Value], None],
    of_lanes: Callable[[ir.IRBuilder, Combination, ir.Value, ir.Value], None],
) -> None:
    """Combine the values of one warp in place: of a whole one as a vector, where that can be."""
    if not found.is_vectorizable:
        of_lanes(builder, found, first, present)
        return
    is_whole = builder.icmp_unsigned("==", present, _I32(0xFFFFFFFF))
    with builder.if_else(is_whole) as (whole, part):
        with whole:
            kind = ir.VectorType(found.value_type, WARP_SIZE)
            place = builder.bitcast(first, kind.as_pointer())
            of_vector(builder, found, place, builder.load(place, align=_ALIGNMENT))
        with part:
            of_lanes(builder, found, first, present)


#: A value's place is a multiple of its size, of which this is the least.
_ALIGNMENT = 1


def _permuted(builder: ir.IRBuilder, vector: ir.Value, lanes: list[int]) -> ir.Value:
    return builder.shuffle_vector(vector, vector, _constant(_I32, lanes))


def _constant(kind: ir.Type, values: list[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(kind, len(values)), values)


def _reduce_vector(
    builder: ir.IRBuilder, found: Combination, place: ir.Value, vector: ir.Value
) -> None:
    for width in _WIDTHS:
        count = WARP_SIZE // width
        even = _permuted(builder, vector, list(range(0, count, 2)))
        odd = _permuted(builder, vector, list(range(1, count, 2)))
        vector = found.combine(builder, even, odd)
    first = builder.bitcast(place, found.value_type.as_pointer())
    builder.store(builder.extract_element(vector, _I32(0)), first)


def _reduce_tree(
    builder: ir.IRBuilder, found: Combination, first: ir.Value, present: ir.Value
) -> None:
    """Combine neighbouring lanes, then neighbouring pairs, and so on; who is absent is left out.

    What a part of the warp gives stands at its beginning.
    """
    for width in _WIDTHS:
        with cgutils.for_range(builder, _I32(WARP_SIZE // (2 * width))) as part:
            start = builder.mul(part.index, _I32(2 * width))
            low, high = _halves(builder, present, start, width)
            with builder.if_then(_is_any(builder, high)):
                one = builder.gep(first, [start])
                other = builder.load(builder.gep(one, [_I32(width)]))
                with builder.if_else(_is_any(builder, low)) as (both, alone):
                    with both:
                        builder.store(found.combine(builder, builder.load(one), other), one)
                    with alone:
                        builder.store(other, one)


def _halves(
    builder: ir.IRBuilder, present: ir.Value, start: ir.Value, width: int
) -> tuple[ir.Value, ir.Value]:
    """Return who is there of the two halves of a part of a warp, each from bit 0 on."""
    lanes = _I32((1 << width) - 1)
    low = builder.lshr(present, start)
    return builder.and_(low, lanes), builder.and_(builder.lshr(low, _I32(width)), lanes)


def _is_any(builder: ir.IRBuilder, lanes: ir.Value) -> ir.Value:
    return builder.icmp_unsigned("!=", lanes, lanes.type(0))


def _last(builder: ir.IRBuilder, lanes: ir.Value) -> ir.Value:
    """Return the last of some lanes, of which there is one."""
    return builder.sub(_I32(WARP_SIZE - 1), builder.ctlz(lanes, _I1(1)))


class _Chain:
    """Values that are combined one after the other; the first is taken as it is."""

    def __init__(self, builder: ir.IRBuilder, found: Combination) -> None:
        self._builder = builder
        self._found = found
        self._value = cgutils.alloca_once(builder, found.value_type)
        self._is_begun = cgutils.alloca_once(builder, _I1)
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
        """Begin anew."""
        self._builder.store(_I1(0), self._is_begun)

    def set(self, value: ir.Value) -> None:
        """Go on from a value that is all values so far."""
        self._builder.store(value, self._value)
        self._builder.store(_I1(1), self._is_begun)

    def add(self, value: ir.Value) -> None:
        """Add a value at the end."""
        builder = self._builder
        with builder.if_else(self.is_begun) as (later, first):
            with later:
                builder.store(self._found.combine(builder, self.value, value), self._value)
            with first:
                self.set(value)


# -- scans ------------------------------------------------------------------------------------


def _scan(name: str, scope: Scope, room: _Room, call: Call) -> ir.Value:
    """Combine each value with those before it."""
    builder, found = room.builder, combination(name, call)
    values = room.values(found.value_type)
    before = _Chain(builder, found)
    with cgutils.for_range(builder, room.warps) as loop:
        present = room.present(loop.index)
        first = builder.gep(values, [builder.mul(loop.index, _I64(WARP_SIZE))])
        with builder.if_then(_is_any(builder, present)):
            _of_warp(builder, found, present, first, _scan_vector, _scan_tree)
            if scope is Scope.BLOCK:
                with builder.if_then(before.is_begun):
                    _behind(builder, found, before.value, first, present)
                before.set(builder.load(builder.gep(first, [_last(builder, present)])))
    return call.context.get_dummy_value()


def _behind(
    builder: ir.IRBuilder,
    found: Combination,
    before: ir.Value,
    first: ir.Value,
    present: ir.Value,
) -> None:
    """Combine what is before a warp with each of its values."""
    with _each(builder, present) as lane:
        place = builder.gep(first, [lane])
        builder.store(found.combine(builder, before, builder.load(place)), place)


@contextmanager
def _each(builder: ir.IRBuilder, present: ir.Value) -> Iterator[ir.Value]:
    """Go over the lanes that are there."""
    with cgutils.for_range(builder, _I32(WARP_SIZE)) as loop:
        bit = builder.lshr(present, loop.index)
        with builder.if_then(builder.trunc(bit, _I1)):
            yield loop.index


def _scan_vector(
    builder: ir.IRBuilder, found: Combination, place: ir.Value, vector: ir.Value
) -> None:
    for width in _WIDTHS:
        # Lanes of an upper half meet the last of the lower half, which has all before them.
        sources = [lane & -2 * width | width - 1 for lane in range(WARP_SIZE)]
        is_upper = _constant(_I1, [lane & width != 0 for lane in range(WARP_SIZE)])
        combined = found.combine(builder, _permuted(builder, vector, sources), vector)
        vector = builder.select(is_upper, combined, vector)
    builder.store(vector, place, align=_ALIGNMENT)


def _scan_tree(
    builder: ir.IRBuilder, found: Combination, first: ir.Value, present: ir.Value
) -> None:
    for width in _WIDTHS:
        with cgutils.for_range(builder, _I32(WARP_SIZE // (2 * width))) as part:
            start = builder.mul(part.index, _I32(2 * width))
            low, high = _halves(builder, present, start, width)
            with builder.if_then(_is_any(builder, low)):
                last = builder.gep(first, [builder.add(start, _last(builder, low))])
                before = builder.load(last)
                upper = builder.gep(first, [builder.add(start, _I32(width))])
                _behind(builder, found, before, upper, high)


def _shift(name: str, scope: Scope, room: _Room, call: Call) -> ir.Value:
    """Scan, and give each thread the result of the one before it; 0 to the first."""
    _scan(name, scope, room, call)
    builder, found = room.builder, combination(name, call)
    values = room.values(found.value_type)
    zero = found.value_type(None)
    before = cgutils.alloca_once(builder, found.value_type)
    builder.store(zero, before)
    with cgutils.for_range(builder, room.warps) as loop:
        if scope is Scope.WARP:
            builder.store(zero, before)
        first = builder.gep(values, [builder.mul(loop.index, _I64(WARP_SIZE))])
        with _each(builder, room.present(loop.index)) as lane:
            place = builder.gep(first, [lane])
            own = builder.load(place)
            builder.store(builder.load(before), place)
            builder.store(own, before)
    return call.context.get_dummy_value()


# -- votes ------------------------------------------------------------------------------------


def _post_predicate(room: _Room, call: Call) -> ir.Value:
    builder = room.builder
    is_true = call.context.is_true(builder, call.signature.args[0], call.args[0])
    place = room.word(room.warp)
    bit = builder.shl(builder.zext(is_true, _I64), builder.add(room.lane, _I64(WARP_SIZE)))
    builder.store(builder.or_(builder.load(place), bit), place)
    return call.context.get_dummy_value()


def _true(room: _Room) -> ir.Value:
    """Return the lanes of the thread's warp whose predicate is true; no other one has posted."""
    word = room.builder.load(room.word(room.warp))
    return room.builder.trunc(room.builder.lshr(word, _I64(WARP_SIZE)), _I32)


def _take_any(room: _Room, call: Call) -> ir.Value:
    return _is_any(room.builder, _true(room))


def _take_all(room: _Room, call: Call) -> ir.Value:
    return room.builder.icmp_unsigned("==", _true(room), room.present(room.warp))


def _take_count(room: _Room, call: Call) -> ir.Value:
    return room.builder.ctpop(_true(room))


def _groups() -> dict[str, Exchange]:
    """Return what exchanges values; the votes of a block are barriers (``intrinsics.table``)."""
    exchanges = {
        f"warp.{vote}": _exchange(f"warp.{vote}", _post_predicate, take)
        for vote, take in (("any", _take_any), ("all", _take_all), ("count", _take_count))
    }
    for scope in (Scope.WARP, Scope.BLOCK):
        group = scope.name.lower()
        for operation in ("sum", "max", "min"):
            name = f"{group}.{operation}"
            take = partial(_take_common, name, scope)
            exchanges[name] = _exchange(name, _post_value, take, partial(_reduce, name, scope))
        for operation, combine in (("inclusive_scan", _scan), ("exclusive_scan", _shift)):
            name = f"{group}.{operation}"
            take = partial(_take_own, name)
            exchanges[name] = _exchange(name, _post_value, take, partial(combine, name, scope))
    return exchanges


GROUPS: dict[str, Exchange] = _groups()
