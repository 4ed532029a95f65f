"""The look-back of ``kd.chain``, in LLVM's instructions of every machine.

Merrill and Garland's look-back has each block publish the sum of its part and, once it knows what
is before, the sum up to its end; a block adds what it finds, part by part, until it meets the
second kind. What it meets depends on time, and so do the bits of a sum of floats. Here blocks
publish the nodes of a tree instead, whose shape is fixed: the parts, each 32 of them as one, each
32 of these, and so on. The block of the last part of a node publishes that node. What is before a
part is made of at most 31 nodes of each level, and there are as many levels as the part's number
has digits to the base of 32. So no block waits for another's look-back, but for nodes, that hang
together over as many steps as there are levels, however many parts there are.

The state of a chain is an array of 64-bit words. The lower half of the first word counts parts, the
upper half launches; the block of the last part begins the next launch. The others hold 32 bits of a
value and, above, the number of the launch that has written them. So nothing needs to be reset
between launches, and a value is whole when all of its words are of this launch; no access orders
any other.

References
----------
D. Merrill and M. Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", NVIDIA
Technical Report NVR-2016-002 (2016).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from kerneldsl.lowering.calls import Call
from kerneldsl.lowering.groups import Combination, combination
from kerneldsl.lowering.loops import loop_while
from kerneldsl.lowering.numba_internals.arrays import make_array

__all__ = ["FANOUT_BITS", "LookBack", "Nodes", "SequentialLookBack", "State", "take_part"]

_I1, _I32, _I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)

#: Binary logarithm of the nodes that one node of the next level stands for.
FANOUT_BITS = 5


@dataclass(frozen=True)
class State:
    """The words of a chain, and how a machine reads and writes them."""

    builder: ir.IRBuilder
    #: Address of the first word.
    words: ir.Value
    #: LLVM's scope and order of the accesses.
    order: str

    @classmethod
    def of(cls, call: Call, order: str) -> State:
        """Return the state that is the first argument of a call."""
        array = make_array(call.signature.args[0])(call.context, call.builder, call.args[0])
        words = call.builder.bitcast(array.data, _I64.as_pointer())
        return cls(call.builder, words, order)

    def read(self, number: ir.Value) -> ir.Value:
        place = self.builder.gep(self.words, [number], inbounds=True)
        return self.builder.load_atomic(place, self.order, 8)

    def write(self, number: ir.Value, word: ir.Value) -> None:
        place = self.builder.gep(self.words, [number], inbounds=True)
        self.builder.store_atomic(word, place, self.order, 8)

    def launch(self) -> ir.Value:
        """Return what words of this launch have as their upper half; 0 is in none."""
        launches = self.builder.lshr(self.read(_I64(0)), _I64(32))
        return self.builder.add(self.builder.trunc(launches, _I32), _I32(1))

    def begin_next(self, launch: ir.Value) -> None:
        """Begin the next launch, when every block has found out which one this is."""
        self.write(_I64(0), self.builder.shl(self.builder.zext(launch, _I64), _I64(32)))


def take_part(state: State) -> ir.Value:
    """Return the number of the next part, an i64."""
    builder = state.builder
    old = builder.atomic_rmw("add", state.words, _I64(1), state.order)
    return builder.and_(old, _I64(0xFFFFFFFF))


@dataclass(frozen=True)
class Nodes:
    """The nodes of a launch: values of an LLVM type of 1 to 64 bits."""

    state: State
    #: Type of the values.
    kind: ir.Type
    #: What :meth:`State.launch` gives.
    launch: ir.Value

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

    def _number(self, node: ir.Value, piece: int) -> ir.Value:
        builder = self.state.builder
        return builder.add(builder.mul(node, _I64(self._pieces)), _I64(1 + piece))

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


class LookBack(ABC):
    """Finds what is before a part; a machine says who of a block does so.

    `call` is that of ``chain.before``, `blocks` the number of parts, an i64.
    """

    def __init__(self, name: str, call: Call, nodes: Nodes, blocks: ir.Value) -> None:
        self.builder = call.builder
        self.nodes = nodes
        self.found: Combination = combination(name, call)
        self._call = call
        self._blocks = blocks

    @abstractmethod
    def combined(self, first: ir.Value, count: ir.Value) -> ir.Value:
        """Return some consecutive nodes combined, 1 to 31, for who is alone in :meth:`alone`.

        They are combined as the lanes of a warp are: neighbours first, then pairs, and so on.
        """

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Do what stands inside once for the block."""
        yield

    def run(self) -> ir.Value:
        """Publish the part's value, find what is before it, and return the call's result.

        Who is not alone gets one that is not defined.
        """
        builder, found, call = self.builder, self.found, self._call
        kind = found.value_type
        part, value = call.args[1:3]
        before, own = cgutils.alloca_once(builder, kind), cgutils.alloca_once_value(builder, value)
        has_any = cgutils.alloca_once_value(builder, _I1(0))
        is_last = cgutils.alloca_once_value(builder, _I1(1))
        index = cgutils.alloca_once_value(builder, part)
        level = cgutils.alloca_once_value(builder, _I64(0))  # its first node
        length = cgutils.alloca_once_value(builder, self._blocks)
        goes_on = cgutils.alloca_once_value(builder, _I1(1))
        with self.alone():
            self.nodes.publish(part, value)
        with loop_while(builder, lambda: builder.load(goes_on)):
            node = builder.load(index)
            count = builder.and_(node, _I64((1 << FANOUT_BITS) - 1))
            first = builder.add(builder.load(level), builder.sub(node, count))
            following = builder.add(builder.load(level), builder.load(length))
            parent = builder.lshr(node, _I64(FANOUT_BITS))
            is_full = builder.icmp_unsigned("==", count, _I64((1 << FANOUT_BITS) - 1))
            is_last_here = builder.and_(builder.load(is_last), is_full)
            with builder.if_then(builder.icmp_unsigned("!=", count, _I64(0))):
                total = self.combined(first, count)
                with self.alone():
                    with builder.if_then(is_last_here):
                        whole = found.combine(builder, total, builder.load(own))
                        self.nodes.publish(builder.add(following, parent), whole)
                        builder.store(whole, own)
                    self._add_before(has_any, before, total)
                builder.store(_I1(1), has_any)
            builder.store(is_last_here, is_last)
            builder.store(parent, index)
            builder.store(following, level)
            builder.store(builder.lshr(builder.load(length), _I64(FANOUT_BITS)), length)
            builder.store(builder.icmp_unsigned("!=", parent, _I64(0)), goes_on)
        is_end = builder.icmp_unsigned("==", builder.add(part, _I64(1)), self._blocks)
        with self.alone(), builder.if_then(is_end):
            self.nodes.state.begin_next(self.nodes.launch)
        return found.finish(builder, self._behind_initial(builder.load(has_any), before))

    def _add_before(self, has_any: ir.Value, before: ir.Value, total: ir.Value) -> None:
        """Put nodes of a level before those of the levels below."""
        builder = self.builder
        with builder.if_else(builder.load(has_any)) as (later, at_first):
            with later:
                combined = self.found.combine(builder, total, builder.load(before))
                builder.store(combined, before)
            with at_first:
                builder.store(total, before)

    def _behind_initial(self, has_any: ir.Value, before: ir.Value) -> ir.Value:
        builder, found, call = self.builder, self.found, self._call
        if call.signature.args[-1] == types.none:
            nothing = found.value_type(None)
            result = builder.select(has_any, builder.load(before), nothing)
        else:
            place = cgutils.alloca_once_value(builder, call.args[-1])
            with self.alone(), builder.if_then(has_any):
                combined = found.combine(builder, call.args[-1], builder.load(before))
                builder.store(combined, place)
            result = builder.load(place)
        return result


class SequentialLookBack(LookBack):
    """One thread combines nodes, one after the other; a machine says how it waits for one."""

    @abstractmethod
    def wait(self, node: ir.Value) -> ir.Value:
        """Return a node's value when it is published."""

    def combined(self, first: ir.Value, count: ir.Value) -> ir.Value:
        """Combine nodes like a binary counter: at a place are as many as its bit is worth."""
        builder, combine = self.builder, self.found.combine
        kind = self.found.value_type
        places = cgutils.alloca_once(builder, kind, size=FANOUT_BITS)
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
