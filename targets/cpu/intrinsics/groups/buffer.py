"""Write the steps of an operation of a group, in the memory of a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from llvmlite import ir
from numba import typeof, types
from numba.core import cgutils
from numba.extending import intrinsic, lower_cast, models, register_model

from kerneldsl.language.intrinsics.table import INTRINSICS
from kerneldsl.lowering.calls import Call
from kerneldsl.lowering.typing_rules import typing_rule
from targets.cpu.intrinsics.units import WARP_SIZE
from targets.cpu.intrinsics.warp import Exchange, Room, Steps

__all__ = [
    "I1",
    "I32",
    "I64",
    "WIDTHS",
    "GroupBuffer",
    "GroupStep",
    "each_lane",
    "exchange",
    "is_any",
    "last_of",
    "nothing_posted",
]

I1, I32, I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)


WIDTHS = (1, 2, 4, 8, 16)


class GroupBuffer:
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
        return self.builder.udiv(self.number, I64(WARP_SIZE))

    @property
    def lane(self) -> ir.Value:
        """The thread's index in it."""
        return self.builder.urem(self.number, I64(WARP_SIZE))

    def values(self, kind: ir.Type) -> ir.Value:
        """Return the address of the first thread's value."""
        return self.section(0, kind)

    def section(self, number: int, kind: ir.Type) -> ir.Value:
        """Return the address of the first thread's value, where each has several words.

        Each section has a word for each lane of the block's warps.
        """
        start = self.builder.mul(self.warps, I64(WARP_SIZE * number))
        return self.builder.bitcast(self.builder.gep(self._values, [start]), kind.as_pointer())

    def word(self, warp: ir.Value) -> ir.Value:
        """Return the address of a warp's word."""
        return self.builder.gep(self._lanes, [warp])

    def present(self, warp: ir.Value) -> ir.Value:
        """Return the lanes of a warp that take part, as an i32."""
        return self.builder.trunc(self.builder.load(self.word(warp)), I32)

    def set_bit(self, warp: ir.Value, lane: ir.Value) -> None:
        """Set a lane's bit of those that :meth:`bits` gives; none is set at the beginning."""
        builder, place = self.builder, self.word(warp)
        bit = builder.shl(I64(1), builder.add(lane, I64(WARP_SIZE)))
        builder.store(builder.or_(builder.load(place), bit), place)

    def bits(self) -> ir.Value:
        """Return a bit for each lane of the thread's warp."""
        word = self.builder.load(self.word(self.warp))
        return self.builder.trunc(self.builder.lshr(word, I64(WARP_SIZE)), I32)


class Posted(types.Type):
    """The type of what a post returns, which gives the types of the arguments; it has no value."""

    def __init__(self, arguments: tuple[Any, ...] = ()) -> None:
        self.arguments = arguments
        super().__init__(name=f"Posted{arguments}")

    def unify(self, typingctx: Any, other: Any) -> Any:
        """Return where two ways meet, the type of which anything is known.

        What is known of arguments grows while Numba infers types: a variable that is an int32 at
        first may be an int64 by the loop after it.
        """
        if not (self.arguments and isinstance(other, Posted) and other.arguments):
            return self if self.arguments else other
        pairs = zip(self.arguments, other.arguments, strict=True)
        arguments = tuple(typingctx.unify_pairs(*pair) for pair in pairs)
        return None if None in arguments else Posted(arguments)


register_model(Posted)(models.OpaqueModel)


@lower_cast(Posted, Posted)
def _same(context: Any, builder: Any, found: Any, wanted: Any, value: Any) -> Any:
    return value


class _Untaken(types.Type):
    """The type of an unknown result; it yields to any other type."""

    def __init__(self) -> None:
        super().__init__(name="Untaken")

    def unify(self, typingctx: Any, other: Any) -> Any:
        """Return where two ways meet, the other's type."""
        return other


register_model(_Untaken)(models.OpaqueModel)


@lower_cast(_Untaken, types.Any)
def _undefined(context: Any, builder: Any, found: Any, wanted: Any, value: Any) -> Any:
    return ir.Constant(context.get_value_type(wanted), ir.Undefined)


@intrinsic
def nothing_posted(typingctx: Any) -> Any:
    """Return what a post would, for a block in which no thread takes part."""
    return Posted()(), lambda context, builder, signature, args: context.get_dummy_value()


#: Writes a step of an operation.
GroupStep = Callable[[GroupBuffer, Call], ir.Value]


def operation(
    name: str, step: GroupStep, result: Callable[[Any, Any], Any], function: Any = None
) -> Callable[..., Any]:
    """Make what generated code calls for a step.

    `result` gives its Numba type for the types of arguments and result. A `function` that the
    intrinsic is given is no argument of the calls: what Numba remembers of them would outlive it.
    """
    rule = typing_rule(INTRINSICS[name])
    untaken = types.none if result is _no_result else _Untaken()
    place = 1  # of the function, among the intrinsic's arguments

    @intrinsic
    def call(typingctx: Any, values: Any, lanes: Any, number: Any, *args: Any) -> Any:
        is_posted = bool(args) and isinstance(args[0], Posted)
        if is_posted and not args[0].arguments:
            # Where a loop may run no time, Numba comes here before it knows more.
            return untaken(values, lanes, types.int64, types.StarArgTuple(args)), _nothing
        given_types = args[0].arguments if is_posted else args
        if function is not None:
            given_types = (*given_types[:place], typeof(function), *given_types[place:])
        typed = rule(given_types, {})
        taken = typed.args
        if function is not None:
            taken = (*taken[:place], *taken[place + 1 :])

        def generate(context: Any, builder: Any, packed: Any, given: Any) -> Any:
            room = GroupBuffer(builder, given[0], given[1], given[2], I64(lanes.count))
            members: tuple[ir.Value, ...] = ()
            if not is_posted:
                members = tuple(cgutils.unpack_tuple(builder, given[3], len(taken)))
                if function is not None:
                    members = (*members[:place], context.get_dummy_value(), *members[place:])
            return step(room, Call(context, builder, typed, members, {}))

        last = args if is_posted else taken
        arguments = (values, lanes, types.int64, types.StarArgTuple(last))
        return result(taken, typed.return_type)(*arguments), generate

    return call  # type: ignore[no-any-return]


def _no_result(arguments: Any, result: Any) -> Any:
    return types.none


def _posted(arguments: Any, result: Any) -> Any:
    return Posted(arguments)


def _own_result(arguments: Any, result: Any) -> Any:
    return result


def _nothing(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return context.get_dummy_value()


def exchange(
    name: str,
    post: GroupStep,
    take: GroupStep,
    combine: GroupStep | None = None,
    words: int = 2,
    function: Any = None,
) -> Exchange:
    """Return the steps of an operation; two words hold a complex128."""
    return Exchange(
        operation(name, post, _posted, function),
        operation(name, take, _own_result, function),
        operation(name, combine, _no_result, function) if combine is not None else None,
        words=words,
        calling=partial(exchange, name, post, take, combine, words),
        steps=Steps(
            partial(_write_step, post),
            partial(_write_step, take),
            partial(_write_step, combine) if combine is not None else None,
        ),
    )


def _write_step(
    step: GroupStep, builder: ir.IRBuilder, room: Room, number: ir.Value, call: Call
) -> ir.Value:
    return step(GroupBuffer(builder, room.values, room.lanes, number, I64(room.warps)), call)


def is_any(builder: ir.IRBuilder, lanes: ir.Value) -> ir.Value:
    return builder.icmp_unsigned("!=", lanes, lanes.type(0))


def last_of(builder: ir.IRBuilder, lanes: ir.Value) -> ir.Value:
    """Return the last of some lanes; there is at least one."""
    return builder.sub(I32(WARP_SIZE - 1), builder.ctlz(lanes, I1(1)))


@contextmanager
def each_lane(builder: ir.IRBuilder, present: ir.Value) -> Iterator[ir.Value]:
    """Go over the lanes that are there."""
    with cgutils.for_range(builder, I32(WARP_SIZE)) as loop:
        bit = builder.lshr(present, loop.index)
        with builder.if_then(builder.trunc(bit, I1)):
            yield loop.index
