"""Exchange values between the lanes of a warp, and between warps through shared memory."""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.ir.ranges import WARP_SIZE
from kerneldsl.language.intrinsics.groups import GROUP_SLOTS_BYTES, GROUP_WORDS_BYTES
from kerneldsl.lowering.calls import loop_while
from kerneldsl.lowering.groups import Combination, is_any
from targets.cuda.intrinsics.ids import read_register
from targets.cuda.intrinsics.memory import SHARED_SPACE
from targets.cuda.intrinsics.synchronize import barrier, by_words, call_nvvm, shuffle

__all__ = ["SLOTS", "WORDS", "Block", "Warp", "Words", "first_of", "last_of"]

_i1 = ir.IntType(1)
_i8 = ir.IntType(8)
_i32 = ir.IntType(32)


class Warp:
    """The lanes of a warp that reach an operation together."""

    def __init__(self, builder: ir.IRBuilder) -> None:
        self.builder = builder
        #: A bit for each of them.
        self.present = call_nvvm(builder, "activemask", _i32, [])
        #: Index of this lane.
        self.lane = builder.trunc(read_register(builder, "laneid"), _i32)

    def read(self, value: ir.Value, lane: ir.Value) -> ir.Value:
        """Return the value of a lane that takes part."""
        return shuffle(self.builder, "idx", self.present, value, lane)

    def half(self, start: ir.Value, width: int) -> ir.Value:
        """Return who takes part of some lanes, from bit 0 on."""
        return self.builder.and_(self.builder.lshr(self.present, start), _i32((1 << width) - 1))

    def start_of(self, width: int) -> ir.Value:
        """Return the first lane of the aligned part of the warp in which this lane is."""
        return self.builder.and_(self.lane, _i32(-width))

    def is_upper(self, width: int) -> ir.Value:
        """Return whether this lane is in the upper half of a part of twice the width."""
        return is_any(self.builder, self.builder.and_(self.lane, _i32(width)))

    def before(self) -> ir.Value:
        """Return the lanes before this one that take part."""
        below = self.builder.sub(self.builder.shl(_i32(1), self.lane), _i32(1))
        return self.builder.and_(self.present, below)


def first_of(builder: ir.IRBuilder, lanes: ir.Value) -> ir.Value:
    """Return the first of some lanes; of none it is not defined."""
    return builder.cttz(lanes, _i1(1))


def last_of(builder: ir.IRBuilder, lanes: ir.Value) -> ir.Value:
    """Return the last of some lanes; -1 if there is none."""
    return builder.sub(_i32(WARP_SIZE - 1), builder.ctlz(lanes, _i1(0)))


#: The shared memory of all operations of a kernel: a slot for each warp that a block can have, and
#: after them a word that says which warps have written theirs.
SLOTS = "kd_group_slots"
_SLOT_BYTES = 16
#: The shared memory in which each thread of a block gives a word to another one.
WORDS = "kd_group_words"
#: Slots that a thread reads before it combines them: it waits for all of these loads at once.
_SLOTS_AT_ONCE = 8


class Block:
    """The threads of a block at an operation, in which each warp gives one value.

    Making it is a barrier, after which no thread reads the slots any more.
    """

    def __init__(self, builder: ir.IRBuilder, kind: ir.Type) -> None:
        self.builder = builder
        #: Type of the values.
        self._kind = kind
        self._slots = _shared(builder, SLOTS, GROUP_SLOTS_BYTES)
        x, y, z = (read_register(builder, f"tid.{axis}") for axis in "xyz")
        width, height, depth = (read_register(builder, f"ntid.{axis}") for axis in "xyz")
        row = builder.add(builder.mul(z, height), y)
        thread = builder.trunc(builder.add(builder.mul(row, width), x), _i32)
        #: Index of this thread, and of its warp.
        self.thread = thread
        self.warp_index = builder.lshr(thread, _i32(5))
        #: Threads of the block.
        self.threads = builder.trunc(builder.mul(builder.mul(width, height), depth), _i32)
        living = call_nvvm(
            builder, "barrier.cta.red.popc.aligned.all", _i32, [_i32(0), ir.Constant(_i1, 1)]
        )
        self._has_returned = builder.icmp_unsigned("!=", living, self.threads)
        #: The lanes of this warp that have not returned.
        self.warp = Warp(builder)

    def share(self, value: ir.Value, giver: ir.Value) -> ir.Value:
        """Let a lane of each warp give its value; return the warps that have, as bits.

        `giver` is the lane that gives the warp's value.
        """
        builder = self.builder
        written = builder.bitcast(
            builder.gep(self._slots, [_i32(WARP_SIZE * _SLOT_BYTES)]), _pointer(_i32)
        )
        is_giver = builder.icmp_unsigned("==", self.warp.lane, giver)
        with builder.if_then(self._has_returned):
            builder.store(_i32(0), written)
            barrier(builder)
            with builder.if_then(is_giver):
                bit = builder.shl(_i32(1), self.warp_index)
                builder.atomic_rmw("or", written, bit, "monotonic")
        with builder.if_then(is_giver):
            builder.store(value, self._slot(self.warp_index))
        barrier(builder)
        warps = builder.lshr(builder.add(self.threads, _i32(WARP_SIZE - 1)), _i32(5))
        every = builder.lshr(_i32(0xFFFFFFFF), builder.sub(_i32(WARP_SIZE), warps))
        result = cgutils.alloca_once_value(builder, every)
        with builder.if_then(self._has_returned):
            builder.store(builder.load(written), result)
        return builder.load(result)

    def give(self, value: ir.Value, slot: ir.Value | None = None) -> None:
        """Put a value into a slot, the first one by default."""
        self.builder.store(value, self._slot(_i32(0) if slot is None else slot))

    def spare(self, offset: int, kind: ir.Type) -> ir.Value:
        """Return the address of memory that no operation of a group writes: of bytes 4 to 15."""
        start = _i32(WARP_SIZE * _SLOT_BYTES + offset)
        return self.builder.bitcast(self.builder.gep(self._slots, [start]), _pointer(kind))

    def value_of(self, warp: ir.Value) -> ir.Value:
        """Return the value that a warp has given."""
        return self.builder.load(self._slot(warp))

    def fold(self, found: Combination, warps: ir.Value) -> ir.Value:
        """Return the values of some warps combined in their order; of none it is not defined."""
        builder = self.builder
        # The last bit, so that there is a slot to read where the result is not used.
        first = first_of(builder, builder.or_(warps, _i32(1 << (WARP_SIZE - 1))))
        total = cgutils.alloca_once_value(builder, self.value_of(first))
        rest = cgutils.alloca_once_value(builder, builder.and_(warps, builder.sub(warps, _i32(1))))
        start = cgutils.alloca_once_value(builder, _i32(0))
        with loop_while(builder, lambda: is_any(builder, builder.load(rest))):
            left, begin = builder.load(rest), builder.load(start)
            count = 1 if found.is_called else _SLOTS_AT_ONCE
            values = [self.value_of(builder.add(begin, _i32(offset))) for offset in range(count)]
            value = builder.load(total)
            for offset, other in enumerate(values):
                is_there = builder.trunc(builder.lshr(left, _i32(offset)), _i1)
                value = builder.select(is_there, found.combine(builder, value, other), value)
            builder.store(value, total)
            builder.store(builder.lshr(left, _i32(count)), rest)
            builder.store(builder.add(begin, _i32(count)), start)
        return builder.load(total)

    def before(self, warps: ir.Value) -> ir.Value:
        """Return those of some warps that are before this thread's."""
        below = self.builder.sub(self.builder.shl(_i32(1), self.warp_index), _i32(1))
        return self.builder.and_(warps, below)

    def slot(self, number: ir.Value, kind: ir.Type) -> ir.Value:
        place = self.builder.gep(
            self._slots, [self.builder.mul(number, _i32(_SLOT_BYTES))], inbounds=True
        )
        return self.builder.bitcast(place, _pointer(kind))

    def _slot(self, number: ir.Value) -> ir.Value:
        return self.slot(number, self._kind)


def _pointer(kind: ir.Type) -> ir.Type:
    return kind.as_pointer(SHARED_SPACE)


def _shared(builder: ir.IRBuilder, name: str, nbytes: int) -> ir.Value:
    """Return the address of shared memory that all functions of a kernel have in common."""
    module = builder.module
    memory = module.globals.get(name)
    if memory is None:
        content = ir.ArrayType(_i8, nbytes)
        memory = cgutils.add_global_variable(module, content, name, addrspace=SHARED_SPACE)
        memory.linkage = "linkonce_odr"
        memory.initializer = ir.Constant(content, ir.Undefined)
        memory.align = _SLOT_BYTES
    return builder.bitcast(memory, _pointer(_i8))


class Words:
    """Shared memory through which each thread of a block gives 32 bits to another one.

    Between two exchanges is a barrier.
    """

    def __init__(self, builder: ir.IRBuilder) -> None:
        self._builder = builder
        self._words = builder.bitcast(_shared(builder, WORDS, GROUP_WORDS_BYTES), _pointer(_i32))

    def exchange(self, value: ir.Value, own: ir.Value, source: ir.Value) -> ir.Value:
        """Put a value at one place of the block, and return what was put at another."""
        builder = self._builder

        def change(word: ir.Value) -> ir.Value:
            builder.store(word, builder.gep(self._words, [own], inbounds=True))
            barrier(builder)
            other = builder.load(builder.gep(self._words, [source], inbounds=True))
            barrier(builder)
            return other

        return by_words(builder, value, change)
