"""The look-back of ``kd.chain``, in LLVM's instructions of every machine.

In Merrill and Garland's look-back, each block publishes the sum of its part. It publishes the sum
up to its end, too, when it knows the sum before. A block adds the sums of parts before it until it
finds a sum up to an end. Which one it finds depends on time, and so do the bits of a sum of floats.

Here, blocks publish the nodes of a tree of a fixed shape. Nodes are the parts, groups of 32 parts,
groups of 32 of these, and so on. The block of the last part of a node publishes it. The sum before
a part is that of at most 31 nodes of each level. The number of levels is that of the digits of the
part's number to the base of 32. So a block waits for nodes only. The longest chain of nodes that
wait for each other has as many steps as there are levels.

The state of a chain is an array of 64-bit words. The lower half of the first word counts parts, the
upper half launches; the block of the last part begins the next launch. The lower half of any other
word has 32 bits of a value, the upper half the number of the launch that wrote them. So nothing is
reset between launches. A value is complete when all of its words are of this launch. No access
orders another.

Words are slow to write and to read while others in the same sector of a cache are written. So each
node has a separate sector if the state is large enough.

References
----------
D. Merrill and M. Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", NVIDIA
Technical Report NVR-2016-002 (2016).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from kerneldsl.language.intrinsics.chains import CHAIN_SECTOR, CHAIN_SPREAD_WORDS
from kerneldsl.lowering.calls import Call, loop_while
from kerneldsl.lowering.groups import Combination, combination
from kerneldsl.lowering.numba_internals.arrays import make_array
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["Before", "Climb", "Nodes", "SequentialLookBack", "State"]

_I1, _I32, _I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)

#: Nodes per node of the next level, as a power of 2.
_FANOUT_BITS = 5
_FANOUT = 1 << _FANOUT_BITS


@dataclass(frozen=True)
class State:
    """The words of a chain, and how a machine reads and writes them."""

    builder: ir.IRBuilder
    #: Address of the first word, and how many there are, an i64.
    words: ir.Value
    size: ir.Value
    #: LLVM's scope and order of the accesses.
    order: str

    @classmethod
    def of(cls, call: Call, order: str) -> State:
        """Return the state that is the first argument of a call."""
        array = make_array(call.signature.args[0])(call.context, call.builder, call.args[0])
        words = call.builder.bitcast(array.data, _I64.as_pointer())
        return cls(call.builder, words, array.nitems, order)

    def read(self, number: ir.Value) -> ir.Value:
        place = self.builder.gep(self.words, [number], inbounds=True)
        return self.builder.load_atomic(place, self.order, 8)

    def write(self, number: ir.Value, word: ir.Value) -> None:
        place = self.builder.gep(self.words, [number], inbounds=True)
        self.builder.store_atomic(word, place, self.order, 8)

    def launch(self) -> ir.Value:
        """Return what words of this launch have as their upper half; 0 is in none."""
        return self.launch_of(self.read(_I64(0)))

    def launch_of(self, word: ir.Value) -> ir.Value:
        """Return the same for the first word."""
        launches = self.builder.trunc(self.builder.lshr(word, _I64(32)), _I32)
        return self.builder.add(launches, _I32(1))

    def count_part(self) -> ir.Value:
        """Count a part more; return the first word as it was before."""
        return self.builder.atomic_rmw("add", self.words, _I64(1), self.order)

    def part_of(self, word: ir.Value) -> ir.Value:
        """Return the number of the next part, an i64, of the first word."""
        return self.builder.and_(word, _I64(0xFFFFFFFF))


@dataclass(frozen=True)
class Nodes:
    """The nodes of a launch: values of an LLVM type of 1 to 64 bits."""

    state: State
    #: Type of the values.
    kind: ir.Type
    #: Upper half of the words of this launch, from :meth:`State.launch`.
    launch: ir.Value
    #: The number of parts, an i64.
    blocks: ir.Value

    @property
    def _pieces(self) -> int:
        return 2 if self.kind in (_I64, ir.DoubleType()) else 1

    def publish(self, node: ir.Value, value: ir.Value) -> None:
        builder = self.state.builder
        bits = self._bits(value)
        tag = builder.shl(builder.zext(self.launch, _I64), _I64(32))
        for piece in range(self._pieces):
            half = builder.and_(builder.lshr(bits, _I64(32 * piece)), _I64(0xFFFFFFFF))
            self.state.write(self._number(node, piece), builder.or_(tag, half))

    def look(self, node: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Return whether a node is published, and its value."""
        builder = self.state.builder
        is_there: ir.Value = _I1(1)
        bits: ir.Value = _I64(0)
        for piece in range(self._pieces):
            word = self.state.read(self._number(node, piece))
            tag = builder.trunc(builder.lshr(word, _I64(32)), _I32)
            is_there = builder.and_(is_there, builder.icmp_unsigned("==", tag, self.launch))
            half = builder.and_(word, _I64(0xFFFFFFFF))
            bits = builder.or_(bits, builder.shl(half, _I64(32 * piece)))
        return is_there, self._value(bits)

    def end(self, part: ir.Value) -> None:
        """Begin the next launch after the last part. All blocks know the number of this one."""
        builder = self.state.builder
        is_end = builder.icmp_unsigned("==", builder.add(part, _I64(1)), self.blocks)
        with builder.if_then(is_end):
            word = builder.shl(builder.zext(self.launch, _I64), _I64(32))
            self.state.write(_I64(0), word)

    def _number(self, node: ir.Value, piece: int) -> ir.Value:
        """Return the number of a node's word: there are less than 32 / 31 nodes for each part."""
        builder = self.state.builder
        needed = builder.mul(self.blocks, _I64(CHAIN_SPREAD_WORDS))
        has_room = builder.icmp_unsigned(">=", self.state.size, needed)
        spread = builder.mul(builder.add(node, _I64(1)), _I64(CHAIN_SECTOR))
        dense = builder.add(builder.mul(node, _I64(self._pieces)), _I64(1))
        return builder.add(builder.select(has_room, spread, dense), _I64(piece))

    def _bits(self, value: ir.Value) -> ir.Value:
        builder = self.state.builder
        if isinstance(value.type, ir.FloatType | ir.DoubleType):
            value = builder.bitcast(value, _I64 if self._pieces == 2 else _I32)
        return value if value.type == _I64 else builder.zext(value, _I64)

    def _value(self, bits: ir.Value) -> ir.Value:
        builder = self.state.builder
        if self._pieces == 1 and isinstance(self.kind, ir.FloatType):
            return builder.bitcast(builder.trunc(bits, _I32), self.kind)
        if self.kind == _I64:
            return bits
        if self.kind == ir.DoubleType():
            return builder.bitcast(bits, self.kind)
        return builder.trunc(bits, self.kind)


class Climb:
    """The nodes before a part, level by level; parts are those of the first.

    `blocks` is the number of parts; both are i64. There is no level any more when :meth:`goes_on`
    is false.
    """

    def __init__(self, builder: ir.IRBuilder, part: ir.Value, blocks: ir.Value) -> None:
        self._builder = builder
        #: Node of the level that the part is in, the level's first node, and how many it has.
        self._index = cgutils.alloca_once_value(builder, part)
        self._start = cgutils.alloca_once_value(builder, _I64(0))
        self._length = cgutils.alloca_once_value(builder, blocks)

    def goes_on(self) -> ir.Value:
        """Return whether there are nodes before the part in this level or a higher one."""
        return self._builder.icmp_unsigned("!=", self._builder.load(self._index), _I64(0))

    def count(self) -> ir.Value:
        """Return how many nodes of this level are before the part and in no node above, 0 to 31."""
        return self._builder.and_(self._builder.load(self._index), _I64(_FANOUT - 1))

    def is_full(self) -> ir.Value:
        """Return whether the part's node is the last of its parent."""
        return self._builder.icmp_unsigned("==", self.count(), _I64(_FANOUT - 1))

    def first(self) -> ir.Value:
        """Return the first of these nodes."""
        builder = self._builder
        own = builder.add(builder.load(self._start), builder.load(self._index))
        return builder.sub(own, self.count())

    def parent(self) -> ir.Value:
        """Return the node of the next level that the part is in."""
        builder = self._builder
        level = builder.add(builder.load(self._start), builder.load(self._length))
        return builder.add(level, builder.lshr(builder.load(self._index), _I64(_FANOUT_BITS)))

    def go_up(self) -> None:
        builder = self._builder
        start = builder.add(builder.load(self._start), builder.load(self._length))
        builder.store(start, self._start)
        for place in (self._length, self._index):
            builder.store(builder.lshr(builder.load(place), _I64(_FANOUT_BITS)), place)


class Before:
    """Gathers the nodes before a part, from the lowest level to the highest."""

    def __init__(self, call: Call, found: Combination) -> None:
        self._call = call
        self._found = found
        self._value = cgutils.alloca_once(call.builder, found.value_type)
        self._has_any = cgutils.alloca_once_value(call.builder, _I1(0))

    def add(self, total: ir.Value) -> None:
        """Put the nodes of a level before those of the levels below."""
        builder = self._call.builder
        with builder.if_else(builder.load(self._has_any)) as (later, at_first):
            with later:
                combined = self._found.combine(builder, total, builder.load(self._value))
                builder.store(combined, self._value)
            with at_first:
                builder.store(total, self._value)
        builder.store(_I1(1), self._has_any)

    def result(self) -> ir.Value:
        """Return the result of the call: its last argument combined with the parts before."""
        builder, initial = self._call.builder, self._call.args[-1]
        is_any = builder.load(self._has_any)
        if self._call.signature.args[-1] == types.none:
            nothing = self._found.value_type(None)
            result = builder.select(is_any, builder.load(self._value), nothing)
        else:
            place = cgutils.alloca_once_value(builder, initial)
            with builder.if_then(is_any):
                combined = self._found.combine(builder, initial, builder.load(self._value))
                builder.store(combined, place)
            result = builder.load(place)
        return self._found.finish(builder, result)


class SequentialLookBack(ABC):
    """The look-back of one thread; a machine says how it waits for a node.

    `call` is that of ``chain.before``.
    """

    def __init__(self, call: Call, nodes: Nodes) -> None:
        self.builder = call.builder
        self.nodes = nodes
        self._call = call
        self._found = combination("chain.before", call)

    @abstractmethod
    def wait(self, node: ir.Value) -> ir.Value:
        """Return a node's value when it is published."""

    def run(self) -> ir.Value:
        """Publish the part's value, and the nodes that it ends; return the result of the call."""
        builder = self.builder
        part, value = self._call.args[1:3]
        before = Before(self._call, self._found)
        own = cgutils.alloca_once_value(builder, value)
        ends_node = cgutils.alloca_once_value(builder, _I1(1))
        self.nodes.publish(part, value)
        climb = Climb(builder, part, self.nodes.blocks)
        with loop_while(builder, climb.goes_on):
            is_end = builder.and_(builder.load(ends_node), climb.is_full())
            builder.store(is_end, ends_node)
            count = climb.count()
            with builder.if_then(builder.icmp_unsigned("!=", count, _I64(0))):
                total = self._combined(climb.first(), count)
                with builder.if_then(is_end):
                    node = self._found.combine(builder, total, builder.load(own))
                    self.nodes.publish(climb.parent(), node)
                    builder.store(node, own)
                before.add(total)
            climb.go_up()
        self.nodes.end(part)
        return before.result()

    def _combined(self, first: ir.Value, count: ir.Value) -> ir.Value:
        """Combine nodes as the lanes of a warp are: neighbours first, then pairs, and so on.

        Nodes are counted in binary: the place of bit n has the combination of 2 ** n nodes.
        """
        builder, combine = self.builder, self._found.combine
        kind = self._found.value_type
        places = cgutils.alloca_once(builder, kind, size=_FANOUT_BITS)
        value, place, carry = (cgutils.alloca_once(builder, x) for x in (kind, _I64, _I64))

        def at(position: ir.Value) -> Any:
            return builder.gep(places, [position])

        def has_carry() -> ir.Value:
            return builder.trunc(builder.load(carry), _I1)

        with cgutils.for_range(builder, count) as loop:
            builder.store(self.wait(builder.add(first, loop.index)), value)
            builder.store(_I64(0), place)
            builder.store(loop.index, carry)
            with loop_while(builder, has_carry):
                lower = builder.load(at(builder.load(place)))
                builder.store(combine(builder, lower, builder.load(value)), value)
                builder.store(builder.add(builder.load(place), _I64(1)), place)
                builder.store(builder.lshr(builder.load(carry), _I64(1)), carry)
            builder.store(builder.load(value), at(builder.load(place)))
        builder.store(builder.load(at(builder.cttz(count, _I1(1)))), value)
        builder.store(builder.and_(count, builder.sub(count, _I64(1))), carry)
        with loop_while(builder, lambda: builder.icmp_unsigned("!=", builder.load(carry), _I64(0))):
            left = builder.load(carry)
            lower = builder.load(at(builder.cttz(left, _I1(1))))
            builder.store(combine(builder, lower, builder.load(value)), value)
            builder.store(builder.and_(left, builder.sub(left, _I64(1))), carry)
        return builder.load(value)
