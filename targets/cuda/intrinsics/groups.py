"""Compute together what the threads of a warp or a block have: by shuffles, by one value a warp.

The lanes that reach an operation together take part; a block's threads that have returned do not.
Values of a warp meet in a tree over its lanes, in log2(32) shuffles; those of a block's warps stand
in shared memory, where every thread combines them one after the other.

References
----------
PTX ISA, sections "activemask", "shfl.sync", "vote.sync" and "barrier{.cta}.red".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.language.intrinsics.groups import GROUP_SLOTS_BYTES
from kerneldsl.lowering.calls import Call, Emitter
from kerneldsl.lowering.groups import Combination, combination
from targets.cuda.intrinsics.ids import read_register
from targets.cuda.intrinsics.memory import SHARED_SPACE
from targets.cuda.intrinsics.synchronize import call_nvvm

__all__ = ["EMITTERS", "SLOTS"]

_void, _i1, _i8 = ir.VoidType(), ir.IntType(1), ir.IntType(8)
_i32, _i64 = ir.IntType(32), ir.IntType(64)
_WARP_SIZE = 32
_WIDTHS = (1, 2, 4, 8, 16)

#: The shared memory of all operations of a kernel: a slot for each warp that a block can have, and
#: behind them a word that says which warps have written theirs.
SLOTS = "kd_group_slots"
_SLOT_BYTES = 16
#: Slots that a thread reads before it combines them: it waits for all of these loads at once.
_SLOTS_AT_ONCE = 8


class _Warp:
    """The lanes of a warp that reach an operation together."""

    def __init__(self, builder: ir.IRBuilder) -> None:
        self.builder = builder
        #: A bit for each of them.
        self.present = call_nvvm(builder, "activemask", _i32, [])
        #: This one's index.
        self.lane = builder.trunc(read_register(builder, "laneid"), _i32)

    def read(self, value: ir.Value, lane: ir.Value) -> ir.Value:
        """Return the value of a lane that takes part."""

        def exchange(word: ir.Value) -> ir.Value:
            arguments = [self.present, word, lane, _i32(_WARP_SIZE - 1)]
            return call_nvvm(self.builder, "shfl.sync.idx.i32", _i32, arguments)

        return _by_words(self.builder, value, exchange)

    def half(self, start: ir.Value, width: int) -> ir.Value:
        """Return who takes part of some lanes, from bit 0 on."""
        return self.builder.and_(self.builder.lshr(self.present, start), _i32((1 << width) - 1))

    def start_of(self, width: int) -> ir.Value:
        """Return the first lane of the aligned part of the warp in which this lane is."""
        return self.builder.and_(self.lane, _i32(-width))

    def is_upper(self, width: int) -> ir.Value:
        """Return whether this lane is in the upper half of a part of twice the width."""
        return _is_any(self.builder, self.builder.and_(self.lane, _i32(width)))

    def before(self) -> ir.Value:
        """Return the lanes before this one that take part."""
        below = self.builder.sub(self.builder.shl(_i32(1), self.lane), _i32(1))
        return self.builder.and_(self.present, below)


def _by_words(
    builder: ir.IRBuilder, value: ir.Value, change: Callable[[ir.Value], ir.Value]
) -> ir.Value:
    """Change a value 32 bits at a time."""
    kind = value.type
    if isinstance(kind, ir.LiteralStructType):
        for position in range(len(kind.elements)):
            part = _by_words(builder, builder.extract_value(value, position), change)
            value = builder.insert_value(value, part, position)
        return value
    if isinstance(kind, ir.IntType) and kind.width < 32:
        return builder.trunc(change(builder.zext(value, _i32)), kind)
    if kind in (_i32, ir.FloatType()):
        return builder.bitcast(change(builder.bitcast(value, _i32)), kind)
    bits = builder.bitcast(value, _i64)
    low = change(builder.trunc(bits, _i32))
    high = change(builder.trunc(builder.lshr(bits, _i64(32)), _i32))
    whole = builder.or_(builder.zext(low, _i64), builder.shl(builder.zext(high, _i64), _i64(32)))
    return builder.bitcast(whole, kind)


def _is_any(builder: ir.IRBuilder, lanes: ir.Value) -> ir.Value:
    return builder.icmp_unsigned("!=", lanes, lanes.type(0))


def _first(builder: ir.IRBuilder, lanes: ir.Value) -> ir.Value:
    """Return the first of some lanes; of none it is not defined."""
    return builder.cttz(lanes, _i1(1))


def _last(builder: ir.IRBuilder, lanes: ir.Value) -> ir.Value:
    """Return the last of some lanes; -1 where there is none."""
    return builder.sub(_i32(_WARP_SIZE - 1), builder.ctlz(lanes, _i1(0)))


# -- warps ------------------------------------------------------------------------------------


def _reduced(warp: _Warp, found: Combination, value: ir.Value) -> ir.Value:
    """Return the values of a warp combined, to each of its lanes.

    Lanes of one half of a part all have its value, so that any that takes part gives it to the
    other half; the two values are combined in the same order in both.
    """
    builder = warp.builder

    def step(width: int, source: ir.Value, mine: ir.Value) -> ir.Value:
        other = warp.read(mine, source)
        is_upper = warp.is_upper(width)
        low, high = builder.select(is_upper, other, mine), builder.select(is_upper, mine, other)
        return found.combine(builder, low, high)

    def whole(value: ir.Value) -> ir.Value:
        for width in _WIDTHS:
            value = step(width, builder.xor(warp.lane, _i32(width)), value)
        return value

    def part(value: ir.Value) -> ir.Value:
        for width in _WIDTHS:
            start = builder.xor(warp.start_of(width), _i32(width))
            others = warp.half(start, width)
            is_alone = builder.not_(_is_any(builder, others))
            source = builder.add(start, _first(builder, others))
            source = builder.select(is_alone, warp.lane, source)
            value = builder.select(is_alone, value, step(width, source, value))
        return value

    return _whole_or_part(warp, found, value, whole, part)


def _scanned(warp: _Warp, found: Combination, value: ir.Value) -> ir.Value:
    """Return each lane's value combined with those of the lanes before it."""
    builder = warp.builder

    def step(width: int, source: ir.Value, is_behind: ir.Value, mine: ir.Value) -> ir.Value:
        combined = found.combine(builder, warp.read(mine, source), mine)
        return builder.select(is_behind, combined, mine)

    def whole(value: ir.Value) -> ir.Value:
        for width in _WIDTHS:
            # The last lane of the lower half has all that is before the upper one.
            source = builder.or_(warp.start_of(2 * width), _i32(width - 1))
            value = step(width, source, warp.is_upper(width), value)
        return value

    def part(value: ir.Value) -> ir.Value:
        for width in _WIDTHS:
            start = warp.start_of(2 * width)
            lower = warp.half(start, width)
            is_behind = builder.and_(warp.is_upper(width), _is_any(builder, lower))
            source = builder.select(is_behind, builder.add(start, _last(builder, lower)), warp.lane)
            value = step(width, source, is_behind, value)
        return value

    return _whole_or_part(warp, found, value, whole, part)


def _whole_or_part(
    warp: _Warp,
    found: Combination,
    value: ir.Value,
    whole: Callable[[ir.Value], ir.Value],
    part: Callable[[ir.Value], ir.Value],
) -> ir.Value:
    """Combine the values of a warp: more quickly where all of its lanes take part."""
    builder = warp.builder
    result = cgutils.alloca_once(builder, found.value_type)
    is_whole = builder.icmp_unsigned("==", warp.present, _i32(0xFFFFFFFF))
    with builder.if_else(is_whole) as (all_lanes, some_lanes):
        with all_lanes:
            builder.store(whole(value), result)
        with some_lanes:
            builder.store(part(value), result)
    return builder.load(result)


def _shifted(warp: _Warp, value: ir.Value) -> ir.Value:
    """Return the value of the lane before this one that takes part; nothing to the first."""
    before = warp.before()
    source = warp.builder.select(
        _is_any(warp.builder, before), _last(warp.builder, before), warp.lane
    )
    return warp.read(value, source)


def _warp_reduce(name: str, call: Call) -> ir.Value:
    found = combination(name, call)
    return found.finish(call.builder, _reduced(_Warp(call.builder), found, call.args[0]))


def _warp_scan(name: str, call: Call) -> ir.Value:
    found = combination(name, call)
    return found.finish(call.builder, _scanned(_Warp(call.builder), found, call.args[0]))


def _warp_shifted_scan(name: str, call: Call) -> ir.Value:
    builder, found = call.builder, combination(name, call)
    warp = _Warp(builder)
    result = _shifted(warp, _scanned(warp, found, call.args[0]))
    is_first = builder.not_(_is_any(builder, warp.before()))
    return found.finish(builder, builder.select(is_first, found.value_type(None), result))


def _warp_vote(mode: str, call: Call) -> ir.Value:
    builder = call.builder
    predicate = call.context.is_true(builder, call.signature.args[0], call.args[0])
    present = call_nvvm(builder, "activemask", _i32, [])
    if mode == "count":
        return builder.ctpop(call_nvvm(builder, "vote.ballot.sync", _i32, [present, predicate]))
    return call_nvvm(builder, f"vote.{mode}.sync", _i1, [present, predicate])


# -- blocks -----------------------------------------------------------------------------------


class _Block:
    """The threads of a block at an operation, in which each warp gives one value.

    Making it is a barrier, behind which nobody reads the slots any more.
    """

    def __init__(self, builder: ir.IRBuilder, found: Combination) -> None:
        self.builder = builder
        self._found = found
        self._slots = _slots(builder)
        x, y, z = (read_register(builder, f"tid.{axis}") for axis in "xyz")
        width, height, depth = (read_register(builder, f"ntid.{axis}") for axis in "xyz")
        row = builder.add(builder.mul(z, height), y)
        thread = builder.trunc(builder.add(builder.mul(row, width), x), _i32)
        #: Index of this thread's warp.
        self.warp_index = builder.lshr(thread, _i32(5))
        self._threads = builder.trunc(builder.mul(builder.mul(width, height), depth), _i32)
        living = call_nvvm(
            builder, "barrier.cta.red.popc.aligned.all", _i32, [_i32(0), ir.Constant(_i1, 1)]
        )
        self._has_returned = builder.icmp_unsigned("!=", living, self._threads)
        #: The lanes of this warp that have not returned.
        self.warp = _Warp(builder)

    def share(self, value: ir.Value, giver: ir.Value) -> ir.Value:
        """Let a lane of each warp give its value; return the warps that have, as bits.

        `giver` is the lane that gives the warp's value.
        """
        builder = self.builder
        written = builder.bitcast(
            builder.gep(self._slots, [_i32(_WARP_SIZE * _SLOT_BYTES)]), _pointer(_i32)
        )
        is_giver = builder.icmp_unsigned("==", self.warp.lane, giver)
        with builder.if_then(self._has_returned):
            builder.store(_i32(0), written)
            _barrier(builder)
            with builder.if_then(is_giver):
                bit = builder.shl(_i32(1), self.warp_index)
                builder.atomic_rmw("or", written, bit, "monotonic")
        with builder.if_then(is_giver):
            builder.store(value, self._slot(self.warp_index))
        _barrier(builder)
        warps = builder.lshr(builder.add(self._threads, _i32(_WARP_SIZE - 1)), _i32(5))
        every = builder.lshr(_i32(0xFFFFFFFF), builder.sub(_i32(_WARP_SIZE), warps))
        result = cgutils.alloca_once_value(builder, every)
        with builder.if_then(self._has_returned):
            builder.store(builder.load(written), result)
        return builder.load(result)

    def fold(self, warps: ir.Value) -> ir.Value:
        """Return the values of some warps combined in their order; of none it is not defined."""
        builder, found = self.builder, self._found
        # The last bit, so that there is a slot to read where the result is not used.
        first = _first(builder, builder.or_(warps, _i32(1 << (_WARP_SIZE - 1))))
        total = cgutils.alloca_once_value(builder, builder.load(self._slot(first)))
        rest = cgutils.alloca_once_value(builder, builder.and_(warps, builder.sub(warps, _i32(1))))
        start = cgutils.alloca_once_value(builder, _i32(0))
        test, body, end = (builder.append_basic_block(f"warps.{part}") for part in _LOOP)
        builder.branch(test)
        builder.position_at_end(test)
        builder.cbranch(_is_any(builder, builder.load(rest)), body, end)
        builder.position_at_end(body)
        left, begin = builder.load(rest), builder.load(start)
        values = [
            builder.load(self._slot(builder.add(begin, _i32(offset))))
            for offset in range(_SLOTS_AT_ONCE)
        ]
        value = builder.load(total)
        for offset, other in enumerate(values):
            is_there = builder.trunc(builder.lshr(left, _i32(offset)), _i1)
            value = builder.select(is_there, found.combine(builder, value, other), value)
        builder.store(value, total)
        builder.store(builder.lshr(left, _i32(_SLOTS_AT_ONCE)), rest)
        builder.store(builder.add(begin, _i32(_SLOTS_AT_ONCE)), start)
        builder.branch(test)
        builder.position_at_end(end)
        return builder.load(total)

    def before(self, warps: ir.Value) -> ir.Value:
        """Return those of some warps that are before this thread's."""
        below = self.builder.sub(self.builder.shl(_i32(1), self.warp_index), _i32(1))
        return self.builder.and_(warps, below)

    def _slot(self, warp: ir.Value) -> ir.Value:
        place = self.builder.gep(
            self._slots, [self.builder.mul(warp, _i32(_SLOT_BYTES))], inbounds=True
        )
        return self.builder.bitcast(place, _pointer(self._found.value_type))


_LOOP = ("test", "body", "end")


def _pointer(kind: ir.Type) -> ir.Type:
    return kind.as_pointer(SHARED_SPACE)


def _barrier(builder: ir.IRBuilder) -> None:
    call_nvvm(builder, "barrier.cta.sync.aligned.all", _void, [_i32(0)])


def _slots(builder: ir.IRBuilder) -> ir.Value:
    """Return the address of the slots, of which a kernel has one set for all its functions."""
    module = builder.module
    memory = module.globals.get(SLOTS)
    if memory is None:
        content = ir.ArrayType(_i8, GROUP_SLOTS_BYTES)
        memory = cgutils.add_global_variable(module, content, SLOTS, addrspace=SHARED_SPACE)
        memory.linkage = "linkonce_odr"
        memory.initializer = ir.Constant(content, ir.Undefined)
        memory.align = _SLOT_BYTES
    return builder.bitcast(memory, _pointer(_i8))


def _block_reduce(name: str, call: Call) -> ir.Value:
    builder, found = call.builder, combination(name, call)
    block = _Block(builder, found)
    value = _reduced(block.warp, found, call.args[0])
    warps = block.share(value, _first(builder, block.warp.present))
    return found.finish(builder, block.fold(warps))


def _block_scan(name: str, call: Call) -> ir.Value:
    builder, found = call.builder, combination(name, call)
    block = _Block(builder, found)
    value = _scanned(block.warp, found, call.args[0])
    before = block.before(block.share(value, _last(builder, block.warp.present)))
    combined = found.combine(builder, block.fold(before), value)
    return found.finish(builder, builder.select(_is_any(builder, before), combined, value))


def _block_shifted_scan(name: str, call: Call) -> ir.Value:
    builder, found = call.builder, combination(name, call)
    block = _Block(builder, found)
    value = _scanned(block.warp, found, call.args[0])
    before = block.before(block.share(value, _last(builder, block.warp.present)))
    of_warps = block.fold(before)
    of_lanes = _shifted(block.warp, value)
    has_warps = _is_any(builder, before)
    has_lanes = _is_any(builder, block.warp.before())
    both = found.combine(builder, of_warps, of_lanes)
    without_warps = builder.select(has_lanes, of_lanes, found.value_type(None))
    with_warps = builder.select(has_lanes, both, of_warps)
    return found.finish(builder, builder.select(has_warps, with_warps, without_warps))


def _block_vote(mode: str, call: Call) -> ir.Value:
    predicate = call.context.is_true(call.builder, call.signature.args[0], call.args[0])
    result = _i32 if mode == "popc" else _i1
    arguments = [_i32(0), predicate]
    return call_nvvm(call.builder, f"barrier.cta.red.{mode}.aligned.all", result, arguments)


EMITTERS: dict[str, Emitter] = {
    **{
        f"{group}.{operation}": partial(reduce, f"{group}.{operation}")
        for group, reduce in (("warp", _warp_reduce), ("block", _block_reduce))
        for operation in ("sum", "max", "min")
    },
    "warp.inclusive_scan": partial(_warp_scan, "warp.inclusive_scan"),
    "warp.exclusive_scan": partial(_warp_shifted_scan, "warp.exclusive_scan"),
    "block.inclusive_scan": partial(_block_scan, "block.inclusive_scan"),
    "block.exclusive_scan": partial(_block_shifted_scan, "block.exclusive_scan"),
    **{f"warp.{vote}": partial(_warp_vote, vote) for vote in ("any", "all", "count")},
    **{
        f"block.{vote}": partial(_block_vote, mode)
        for vote, mode in (("any", "or"), ("all", "and"), ("count", "popc"))
    },
}
