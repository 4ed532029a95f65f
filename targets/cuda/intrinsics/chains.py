"""Chains of blocks: the first warp of a block takes the part, and looks back, for its block.

Every access to the state is relaxed and of device scope, since each word says by itself whether it
is written (:mod:`kerneldsl.lowering.chains`). The lanes of the warp look at the nodes of a level
together. A block of less than a warp has not a lane for each, and its first thread looks alone.

References
----------
PTX ISA, section "Memory Consistency Model".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.lowering.calls import Call, Emitter
from kerneldsl.lowering.chains import LookBack, Nodes, SequentialLookBack, State, take_part
from kerneldsl.lowering.faults import FAULT_FIELDS
from kerneldsl.lowering.loops import loop_while
from targets.cuda.compile.calling import FAULT
from targets.cuda.intrinsics.groups.lanes import WARP_SIZE, WIDTHS, by_words
from targets.cuda.intrinsics.groups.threads import Block, barrier
from targets.cuda.intrinsics.ids import read_register
from targets.cuda.intrinsics.shuffles import shuffle
from targets.cuda.intrinsics.synchronize import call_nvvm

__all__ = ["EMITTERS"]

_I1, _I8, _I32, _I64 = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)

_ORDER = 'syncscope("device") monotonic'
_ALL_LANES = 0xFFFFFFFF
_STATE_OFFSET = next(offset for name, _, offset in FAULT_FIELDS if name == "state")


class _WarpLookBack(LookBack):
    """The look-back of a whole warp; its first lane has the result."""

    def __init__(self, call: Call, nodes: Nodes, blocks: ir.Value, lane: ir.Value) -> None:
        super().__init__("chain.before", call, nodes, blocks)
        self._lane = lane

    @contextmanager
    def alone(self) -> Iterator[None]:
        builder = self.builder
        with builder.if_then(builder.icmp_unsigned("==", self._lane, _I32(0))):
            yield

    def combined(self, first: ir.Value, count: ir.Value) -> ir.Value:
        builder = self.builder
        count = builder.trunc(count, _I32)
        takes_part = builder.icmp_unsigned("<", self._lane, count)
        node = builder.select(takes_part, builder.zext(self._lane, _I64), _I64(0))
        value = self._wait(builder.add(first, node))
        for width in WIDTHS:
            lane = builder.add(self._lane, _I32(width))
            other = by_words(
                builder,
                value,
                lambda word, lane=lane: shuffle(  # type: ignore[misc]
                    builder, "idx", _I32(_ALL_LANES), word, lane
                ),
            )
            result = cgutils.alloca_once_value(builder, value)
            with builder.if_then(builder.icmp_unsigned("<", lane, count)):
                builder.store(self.found.combine(builder, value, other), result)
            value = builder.load(result)
        return value

    def _wait(self, node: ir.Value) -> ir.Value:
        """Return each lane's node when those of all lanes are published."""
        builder = self.builder
        found = cgutils.alloca_once(builder, self.nodes.kind)
        goes_on = cgutils.alloca_once_value(builder, _I1(1))
        with loop_while(builder, lambda: builder.load(goes_on)):
            is_there, value = self.nodes.look(node)
            builder.store(value, found)
            arguments = [_I32(_ALL_LANES), builder.or_(is_there, _has_failed(builder))]
            all_there = call_nvvm(builder, "vote.all.sync", _I1, arguments)
            builder.store(builder.not_(all_there), goes_on)
        return builder.load(found)


class _ThreadLookBack(SequentialLookBack):
    """The look-back of one thread."""

    def wait(self, node: ir.Value) -> ir.Value:
        builder = self.builder
        found = cgutils.alloca_once(builder, self.nodes.kind)
        goes_on = cgutils.alloca_once_value(builder, _I1(1))
        with loop_while(builder, lambda: builder.load(goes_on)):
            is_there, value = self.nodes.look(node)
            builder.store(value, found)
            is_over = builder.or_(is_there, _has_failed(builder))
            builder.store(builder.not_(is_over), goes_on)
        return builder.load(found)


def _has_failed(builder: ir.IRBuilder) -> ir.Value:
    """Return whether a thread of the launch has failed, which may never publish its node.

    Only in debug mode is there a record that says so.
    """
    record = builder.function.args[FAULT]
    result = cgutils.alloca_once_value(builder, _I1(0))
    with builder.if_then(builder.icmp_unsigned("!=", record, record.type(None))):
        place = builder.gep(record, [_I64(_STATE_OFFSET)])
        state = builder.load_atomic(builder.bitcast(place, _I32.as_pointer()), _ORDER, 4)
        builder.store(builder.icmp_unsigned("!=", state, _I32(0)), result)
    return builder.load(result)


def _next(call: Call) -> ir.Value:
    builder = call.builder
    block = Block(builder, _I64)
    with builder.if_then(builder.icmp_unsigned("==", block.thread, _I32(0))):
        block.give(take_part(State.of(call, _ORDER)))
    barrier(builder)
    return block.value_of(_I32(0))


def _before(call: Call) -> ir.Value:
    builder = call.builder
    block = Block(builder, call.context.get_value_type(call.signature.return_type))
    state = State.of(call, _ORDER)
    has_warp = builder.icmp_unsigned(">=", block.threads, _I32(WARP_SIZE))
    is_first_warp = builder.icmp_unsigned("==", block.warp_index, _I32(0))
    is_first = builder.icmp_unsigned("==", block.thread, _I32(0))
    with builder.if_else(has_warp) as (whole, part):
        with whole, builder.if_then(is_first_warp):
            _look_back_in_warp(call, block, state)
        with part, builder.if_then(is_first):
            nodes = _nodes(call, state, state.launch())
            look_back = _ThreadLookBack("chain.before", call, nodes, _blocks(builder))
            block.give(look_back.run())
    barrier(builder)
    return block.value_of(_I32(0))


def _look_back_in_warp(call: Call, block: Block, state: State) -> None:
    """Let the lanes of a warp look back; all of them know the launch from the first."""
    builder, lane = call.builder, block.thread
    is_first = builder.icmp_unsigned("==", lane, _I32(0))
    launch = cgutils.alloca_once_value(builder, _I32(0))
    with builder.if_then(is_first):
        builder.store(state.launch(), launch)
    common = shuffle(builder, "idx", _I32(_ALL_LANES), builder.load(launch), _I32(0))
    look_back = _WarpLookBack(call, _nodes(call, state, common), _blocks(builder), lane)
    result = look_back.run()
    with builder.if_then(is_first):
        block.give(result)


def _nodes(call: Call, state: State, launch: ir.Value) -> Nodes:
    return Nodes(state, call.context.get_value_type(call.signature.return_type), launch)


def _blocks(builder: ir.IRBuilder) -> ir.Value:
    x, y, z = (read_register(builder, f"nctaid.{axis}") for axis in "xyz")
    return builder.mul(builder.mul(x, y), z)


EMITTERS: dict[str, Emitter] = {"chain.next": _next, "chain.before": _before}
