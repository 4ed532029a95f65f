"""Sort tiles, by a bitonic network in registers and shared memory.

A *chunk* is as many elements as a thread has in registers at a time: neighbours along some bits of
their indices. A pass reads the chunks, compares along those bits, and writes them back. The passes
of a phase go from the high bits of an index to the low ones. They merge runs into runs of twice the
length. Every second run must be in falling order. Its elements are complemented meanwhile, so all
comparisons have the smaller element first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from llvmlite import ir
from numba import types

from kerneldsl.ir.operations import Operation
from kerneldsl.ir.ranges import WARP_SIZE
from kerneldsl.ir.tiles.elements import Slot
from kerneldsl.ir.tiles.folds import key_type, number_of, sort_key, write_number
from kerneldsl.lowering.groups import combination_of
from targets.cuda.compile.tiles.elements import OperationCode
from targets.cuda.compile.tiles.thread_code import Memory

if TYPE_CHECKING:
    from targets.cuda.compile.tiles.writer import TileWriter

__all__ = ["MAX_CHUNK_BITS", "Key", "Sort", "merge_pairs", "sort_pairs", "write_sort"]


# Integers of 64 bits are sorted: the integer by which an element is sorted above its place, so that
# no two are equal. One of 64 bits itself is sorted by its lower half first. Its upper half is then
# sorted together with the place of the element after the first sort and its first place.
_HALF = 32
#: Bits of a place: shared memory has room for fewer integers.
_PLACE_BITS = 16


def write_argsort(writer: TileWriter, operation: Operation) -> None:
    """Write the places of a tile's sorted elements."""
    sort = Sort(writer, operation, types.uint64)
    if sort.bits == 0:
        with writer.written(sort.target):
            sort.write_target(lambda slot: _I64(0))
        return
    builder = writer.code.builder
    sort.declare()
    if key_type(sort.element_kind) == types.uint64:
        _sort_by_halves(writer, sort)
        bits = _PLACE_BITS
    else:
        sort.sort(lambda slot: _above(builder, sort.key_of(slot), sort.column(slot.index)))
        bits = _HALF
    sort.write_target(lambda slot: _low(builder, sort.sorted_key(slot.index), bits))
    sort.release()


def _sort_by_halves(writer: TileWriter, sort: Sort) -> None:
    code, builder, layout = writer.code, writer.code.builder, sort.layout
    count = math.prod(writer.shape(sort.operation))
    keys = writer.room(sort.operation, types.uint64, count, "keys")
    first = code.local(types.int64, layout.rounds * layout.group)

    def lower(slot: Slot) -> ir.Value:
        return _above(builder, keys.get(slot.index), sort.column(slot.index))

    def upper(slot: Slot) -> ir.Value:
        column = sort.column(slot.index)
        was = first.get(slot.slot)
        place = builder.add(builder.sub(slot.index, column), was)
        key = builder.lshr(keys.get(place), _I64(_HALF))
        places = builder.add(builder.shl(column, _I64(_PLACE_BITS)), was)
        return _above(builder, key, places)

    with code.slots(layout) as slot:
        keys.set(slot.index, sort.key_of(slot))
    code.wait()
    sort.sort(lower)
    with code.slots(layout) as slot:
        first.set(slot.slot, _low(builder, sort.sorted_key(slot.index), _HALF))
    code.wait()
    sort.sort(upper)


def _above(builder: ir.IRBuilder, key: ir.Value, low: ir.Value) -> ir.Value:
    """Return an integer of the lower half of a key, and 32 bits below it."""
    wide = key if key.type == _I64 else builder.zext(key, _I64)
    return builder.or_(builder.shl(wide, _I64(_HALF)), low)


def _low(builder: ir.IRBuilder, key: ir.Value, bits: int) -> ir.Value:
    """Return the lowest bits of an integer, as a place."""
    return builder.and_(key, _I64((1 << bits) - 1))


_I64 = ir.IntType(64)
#: Writes the integer of one of a thread's elements.
Key: TypeAlias = Callable[[Slot], ir.Value]
#: Bits of a lane's index.
_LANE_BITS = 5


def write_sort(writer: TileWriter, operation: Operation) -> None:
    """Write the sort of a tile along its last axis."""
    sort = Sort(writer, operation, key_type(operation.result.type.dtype))
    context, builder, kind = writer.code.context, writer.code.builder, sort.element_kind

    def number(key: ir.Value) -> ir.Value:
        return number_of(context, builder, kind, key)

    if sort.bits == 0:
        with writer.written(sort.target):
            sort.write_target(lambda slot: number(sort.key_of(slot)))
        return
    sort.declare()
    sort.sort(sort.key_of)
    sort.write_target(lambda slot: number(sort.sorted_key(slot.index)))
    sort.release()


class Sort:
    """Sorts integers of the elements of one tile.

    - `writer`: writes elements.
    - `operation`: the sort or argsort.
    - `key`: type of the integers.
    """

    def __init__(self, writer: TileWriter, operation: Operation, key: Any) -> None:
        self.writer = writer
        self.code = writer.code
        self.operation = operation
        self.element_kind = operation.regions[0].yielded[0].type
        self.key = key
        self.layout = writer.layout(operation)
        self.target = writer.storage(operation.result)
        self.rows, self.columns = (1, *writer.shape(operation))[-2:]
        #: Bits of an index in a row; its extent is made a power of two.
        self.bits = (self.columns - 1).bit_length()
        self._chunk_bits = self._choose_chunk_bits()
        self._chunk = 1 << self._chunk_bits
        self._row_chunks = 1 << (self.bits - self._chunk_bits)
        self._room: Memory
        self._own: Memory

    def declare(self) -> None:
        """Declare the memory in which integers are sorted."""
        count = self.rows * self._padded(1 << self.bits)
        self._room = self.writer.room(self.operation, self.key, count)
        self._own = self.code.local(self.key, self._chunk)

    def sort(self, key: Key) -> None:
        """Sort integers, which :meth:`sorted_key` reads then."""
        self._begin(key)
        if self.bits > self._chunk_bits:
            self._phases()
        self.code.wait()

    def sorted_key(self, index: ir.Value) -> ir.Value:
        """Return the integer that comes at a place, counted along the last axis first."""
        return self._room.get(self._room_place(index))

    def _room_place(self, index: ir.Value) -> ir.Value:
        if self.rows == 1:
            return self._padded_place(index)
        line, column = self.code.line_and_place(index, self.columns)
        return self.code.at(line, self._padded(1 << self.bits), self._padded_place(column))

    def column(self, index: ir.Value) -> ir.Value:
        """Return the place of an element in its row."""
        return index if self.rows == 1 else self.code.line_and_place(index, self.columns)[1]

    def key_of(self, slot: Slot) -> ir.Value:
        """Return the integer by which an element is sorted."""
        element = OperationCode(self.writer, self.operation).element(slot)
        return sort_key(self.code.builder, self.element_kind, element)

    def write_target(self, number: Key) -> None:
        """Give the result its elements."""
        with self.code.slots(self.layout) as slot:
            self.target.put(slot, number(slot))

    def release(self) -> None:
        """Let threads wait if others may still read what is written next."""
        if self.target.is_shared or self.writer.loop_depth:
            self.code.wait()

    # -- sizes ------------------------------------------------------------------------------------

    def _choose_chunk_bits(self) -> int:
        """Return how many bits a chunk has: many, as long as a quarter of the threads has one."""
        elements = self.rows << self.bits
        most = min(MAX_CHUNK_BITS, self.bits)
        return next(
            (n for n in range(most, 1, -1) if 4 * (elements >> n) >= self.code.threads),
            most and 1,
        )

    def _padded(self, place: int) -> int:
        """Return where an index is in shared memory: a chunk's neighbours are in another bank."""
        return place + (place >> self._chunk_bits)

    def _padded_place(self, place: ir.Value) -> ir.Value:
        builder = self.code.builder
        return builder.add(place, builder.lshr(place, _I64(self._chunk_bits)))

    def _low_bit(self, group: int) -> int:
        """Return the lowest bit of the indices along which a pass has its chunks."""
        return min(group * self._chunk_bits, self.bits - self._chunk_bits)

    def _is_of_warps(self, *low_bits: int) -> bool:
        """Return whether passes with these chunks exchange elements only within warps."""
        if self.code.threads % WARP_SIZE:
            return False
        return self._row_chunks <= WARP_SIZE or max(low_bits) <= _LANE_BITS

    # -- the first pass ---------------------------------------------------------------------------

    def _begin(self, key: Key) -> None:
        """Sort every chunk."""
        code, slots = self.code, self.layout.rounds * self.layout.group
        is_own = self.rows == 1 and self._chunk == slots
        if is_own and self._chunk * code.threads == 1 << self.bits == self.columns:
            # A thread's elements are a chunk: any elements will do.
            def take() -> None:
                with code.slots(self.layout) as slot:
                    self._own.set(slot.slot, key(slot))

            self._pass(0, self._sort_chunk, _I64(self._chunk_bits), take)
            self._sync(0, self._low_bit(1))
            return
        with code.slots(self.layout) as slot:
            if self.rows == 1:
                # Any place will do. Neighbouring threads take neighbouring places.
                place = self._padded_place(code.at(slot.slot, code.threads, code.thread))
            else:
                place = self._room_place(slot.index)
            self._room.set(place, key(slot))
        missing = (1 << self.bits) - self.columns
        if missing:
            self._fill(missing)
        code.wait()
        self._pass(0, self._sort_chunk, _I64(self._chunk_bits))
        self._sync(0, self._low_bit(1))

    def _fill(self, missing: int) -> None:
        """Put the last of all integers where a row has no element."""
        code = self.code
        last = write_number(code.context, code.builder, self.key, -1)
        with code.range(code.thread, self.rows * missing, code.threads) as number:
            line, column = code.line_and_place(number, missing)
            place = self._padded_place(code.builder.add(column, _I64(self.columns)))
            self._room.set(code.at(line, self._padded(1 << self.bits), place), last)

    # -- phases -----------------------------------------------------------------------------------

    def _phases(self) -> None:
        """Merge runs of more and more elements; a phase is the bits of a merged run."""
        code = self.code
        groups = (self.bits - 1) // self._chunk_bits
        with code.range(self._chunk_bits + 1, self.bits + 1) as phase:
            for group in range(groups, 0, -1):
                first = group * self._chunk_bits
                with code.when(code.builder.icmp_unsigned(">", phase, _I64(first))):
                    self._merge(group, phase)
            self._pass(0, self._merge_chunk_wholly, phase)
            self._sync_of_phase(phase, groups)

    def _merge(self, group: int, phase: ir.Value) -> None:
        low, first = self._low_bit(group), group * self._chunk_bits
        builder = self.code.builder

        def steps() -> None:
            for bit in range(self._chunk_bits - 1, first - low - 1, -1):
                with self.code.when(builder.icmp_unsigned(">", phase, _I64(low + bit))):
                    self._merge_chunk(bit)

        self._pass(low, steps)
        self._sync(low, self._low_bit(group - 1))

    def _sync_of_phase(self, phase: ir.Value, groups: int) -> None:
        """Let threads wait for what the first pass of the next phase reads."""
        code = self.code
        lows = {group: self._low_bit(group) for group in range(1, groups + 1)}
        wide = [group for group, low in lows.items() if not self._is_of_warps(0, low)]
        if not wide:
            self._sync(0, 0)
            return
        # The next phase begins with such a pass if it has one more bit than those below.
        first = _I64(wide[0] * self._chunk_bits)
        with code.builder.if_else(code.builder.icmp_unsigned(">=", phase, first)) as (yes, no):
            with yes:
                code.wait()
            with no:
                self._sync(0, 0)

    def _sync(self, *low_bits: int) -> None:
        """Let threads wait for each other between two passes."""
        if self._is_of_warps(*low_bits):
            self.code.wait_for_warp()
        else:
            self.code.wait()

    # -- passes -----------------------------------------------------------------------------------

    def _sort_chunk(self) -> None:
        self._order(sort_pairs(self._chunk))

    def _merge_chunk_wholly(self) -> None:
        for bit in range(self._chunk_bits - 1, -1, -1):
            self._merge_chunk(bit)

    def _merge_chunk(self, bit: int) -> None:
        self._order(merge_pairs(self._chunk, bit))

    def _order(self, pairs: list[tuple[int, int]]) -> None:
        """Put the smaller of each pair of a thread's integers first."""
        builder, own = self.code.builder, self._own
        places = dict.fromkeys(place for pair in pairs for place in pair)
        values = {place: own.get(_I64(place)) for place in places}
        lesser, greater = (
            combination_of(name, self.code.context, self.key) for name in ("min", "max")
        )
        for low, high in pairs:
            one, two = values[low], values[high]
            values[low], values[high] = (
                each.combine(builder, one, two) for each in (lesser, greater)
            )
        for place in places:
            own.set(_I64(place), values[place])

    def _pass(
        self,
        low: int,
        steps: Callable[[], None],
        phase: ir.Value | None = None,
        take: Callable[[], None] | None = None,
    ) -> None:
        """Write what every thread does with its chunks.

        `phase` is given for a pass at the end of a phase, in which elements are complemented for
        the next one. A constant one is the first. `take` puts a thread's only chunk into
        registers if it is not read from shared memory.
        """
        code = self.code
        chunks = self.rows * self._row_chunks

        def each(number: ir.Value) -> None:
            self._chunk_of(number, low, steps, phase, take)

        if chunks > code.threads:
            with code.range(code.thread, chunks, code.threads) as number:
                each(number)
        elif chunks == code.threads:
            each(code.thread)
        else:
            with code.when(code.is_below(code.thread, chunks)):
                each(code.thread)

    def _chunk_of(
        self,
        number: ir.Value,
        low: int,
        steps: Callable[[], None],
        phase: ir.Value | None,
        take: Callable[[], None] | None,
    ) -> None:
        code, builder, own = self.code, self.code.builder, self._own
        chunk = number
        if self.rows > 1:
            chunk = builder.urem(number, _I64(self._row_chunks))
        start = self._start(number, chunk, low)

        def place(slot: ir.Value) -> ir.Value:
            offset = builder.shl(slot, _I64(low))
            return builder.add(start, self._padded_place(offset))

        if take is not None:
            take()
        else:
            with code.unrolled(self._chunk) as slot:
                own.set(slot, self._room.get(place(slot)))
        flip: ir.Value | None = None
        if phase is not None and self.bits > self._chunk_bits:
            bit = builder.sub(phase, _I64(self._chunk_bits))
            flip = self._complement(chunk, bit)
            if isinstance(phase, ir.Constant):
                with code.unrolled(self._chunk) as slot:
                    own.set(slot, builder.xor(own.get(slot), flip))
            following = self._complement(chunk, builder.add(bit, _I64(1)))
            flip = builder.xor(flip, following)
        steps()
        with code.unrolled(self._chunk) as slot:
            value = own.get(slot)
            self._room.set(place(slot), value if flip is None else builder.xor(value, flip))

    def _start(self, number: ir.Value, chunk: ir.Value, low: int) -> ir.Value:
        """Return the place of a chunk's first element in shared memory."""
        builder = self.code.builder
        high = builder.lshr(chunk, _I64(low))
        first = builder.shl(high, _I64(low + self._chunk_bits))
        if low:
            first = builder.add(first, builder.and_(chunk, _I64((1 << low) - 1)))
        place = self._padded_place(first)
        if self.rows == 1:
            return place
        line = builder.udiv(number, _I64(self._row_chunks))
        return self.code.at(line, self._padded(1 << self.bits), place)

    def _complement(self, chunk: ir.Value, bit: ir.Value) -> ir.Value:
        """Return all ones where a bit of the chunk's number is set, else zero."""
        builder = self.code.builder
        wide = ir.IntType(self.key.bitwidth)
        is_set = builder.neg(builder.and_(builder.lshr(chunk, bit), _I64(1)))
        return is_set if wide == _I64 else builder.trunc(is_set, wide)


# Networks that sort and merge what a thread has in registers.
#
# See K. E. Batcher, "Sorting Networks and Their Applications", AFIPS Spring Joint Computer
# Conference 32 (1968).

#: A thread has at most 16 elements in registers.
MAX_CHUNK_BITS = 4


def sort_pairs(count: int) -> list[tuple[int, int]]:
    """Return the places that a network compares to sort a power of two of elements.

    Examples
    --------
    >>> sort_pairs(4)
    [(0, 1), (2, 3), (0, 2), (1, 3), (1, 2)]
    """
    found = []
    run = 1
    while run < count:
        distance = run
        while distance:
            for start in range(distance % run, count - distance, 2 * distance):
                for low in range(start, min(start + distance, count - distance)):
                    if low // (2 * run) == (low + distance) // (2 * run):
                        found.append((low, low + distance))
            distance //= 2
        run *= 2
    return found


def merge_pairs(count: int, bit: int) -> list[tuple[int, int]]:
    """Return the places that differ in one bit alone.

    Examples
    --------
    >>> merge_pairs(4, 1)
    [(0, 2), (1, 3)]
    """
    return [(low, low | 1 << bit) for low in range(count) if not low >> bit & 1]
