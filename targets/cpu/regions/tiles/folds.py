"""Folds and scans of tiles, in the order of :mod:`kerneldsl.ir.tiles.layout`.

Elements are combined into one accumulator for each place of the block, round by round. Then
neighbours in a warp meet level by level, and warps follow each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.ir.operations import Operation
from kerneldsl.ir.ranges import WARP_SIZE
from kerneldsl.ir.tiles.elements import Slot, write_region
from kerneldsl.ir.tiles.folds import Combiner
from kerneldsl.lowering.groups import WIDTHS, Combination
from targets.cpu.intrinsics.groups import fold_neighbours, scan_vector
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.tiles.elements import Elements, TileCode

__all__ = ["write_fold", "write_scan"]


# A segment is three steps for the threads of a warp. Each combines its neighbours. What the threads
# have meets in a tree. Then it is combined with the elements after it. LLVM vectorizes the loops.
def write_scan(emitter: CpuEmitter, operation: Operation) -> None:
    """Write a scan of all elements, or along an axis."""
    code, builder = TileCode(emitter, operation), emitter.builder
    target = code.tile(operation.operands[0])
    with code.elements() as (slot, value):
        target.put(slot, value)
    combiner = Combiner(operation, target.kind, emitter.context, builder)
    axis = operation.attributes["axis"]
    if axis == 0:
        _columns(code, target, combiner)
    elif axis is None:
        layout = code.layout
        scan = _Segments(code, target, combiner, layout.group, layout.threads)
        scan.write(_I64(0), code.count)
    else:
        rows, columns = code.shape
        scan = _Segments(code, target, combiner, 1, WARP_SIZE)
        with code.repeat(0, rows) as row:
            scan.write(builder.mul(row, _I64(columns)), columns)


def _columns(code: TileCode, target: Elements, combiner: Combiner) -> None:
    """Combine the rows one after the other."""
    builder, (rows, columns) = code.builder, code.shape
    is_exclusive = code.operation.attributes["exclusive"]
    totals = code.buffer(target.kind, columns) if is_exclusive else target
    if is_exclusive:
        with code.loop(0, columns) as place:
            totals.set(place, target.get(place))
            target.set(place, combiner.nothing())
    with code.repeat(1, rows) as row:
        start = builder.mul(row, _I64(columns))
        with code.loop(0, columns) as place:
            index = builder.add(start, place)
            own = target.get(index)
            if is_exclusive:
                before = totals.get(place)
                target.set(index, before)
                totals.set(place, combiner.combined(before, own))
            else:
                above = target.get(builder.sub(index, _I64(columns)))
                target.set(index, combiner.combined(above, own))


class _Segments:
    """Writes the segments of one operation."""

    def __init__(
        self, code: TileCode, target: Elements, combiner: Combiner, group: int, threads: int
    ) -> None:
        self._code = code
        self._builder = code.builder
        self._target = target
        self._group = group
        self._threads = threads
        self._is_exclusive: bool = code.operation.attributes["exclusive"]
        self._combiner = combiner
        self._combined = combiner.combined
        kind = target.kind
        #: Partial results of each thread, by place; those of the last place are in `_sums`.
        self._own = [code.buffer(kind, WARP_SIZE) for _ in range(group - 1)]
        self._sums = code.buffer(kind, WARP_SIZE + 1)
        self._carry = code.variable(combiner.identity())

    def write(self, start: ir.Value, count: int) -> None:
        """Write the results of some neighbours."""
        code, builder, width = self._code, self._builder, WARP_SIZE * self._group
        self._carry.set(self._combiner.identity())
        if self._threads % WARP_SIZE == 0:
            whole = count // width * width
            if whole:
                with code.repeat(0, whole, width) as first:
                    self._segment(builder.add(start, first), _I64(WARP_SIZE))
            if count > whole:
                place = builder.add(start, _I64(whole))
                self._segment(place, _I64((count - whole) // self._group))
        else:
            self._rounds(start, count)
        if self._is_exclusive:
            self._target.set(start, self._combiner.nothing())

    def _rounds(self, start: ir.Value, count: int) -> None:
        """Write segments, some shorter: the last one of each round of the block."""
        code, builder, emitter = self._code, self._builder, self._code.emitter
        places, width = self._threads * self._group, WARP_SIZE * self._group
        with code.repeat(0, count, places) as turn:
            end = emitter.smaller(builder.add(turn, _I64(places)), _I64(count))
            with code.repeat(turn, end, width) as first:
                left = emitter.smaller(builder.sub(end, first), _I64(width))
                lanes = builder.udiv(left, _I64(self._group))
                self._segment(builder.add(start, first), lanes)

    def _segment(self, start: ir.Value, lanes: ir.Value) -> None:
        """Write the results of one segment."""
        code, builder, target = self._code, self._builder, self._target
        combined = self._combined

        def place(lane: ir.Value, number: int) -> ir.Value:
            scaled = builder.mul(lane, _I64(self._group))
            return builder.add(builder.add(start, scaled), _I64(number))

        self._sums.set(_I64(0), self._combiner.identity())
        with code.loop(0, lanes) as lane:
            value = target.get(place(lane, 0))
            for number, own in enumerate(self._own):
                own.set(lane, value)
                value = combined(value, target.get(place(lane, number + 1)))
            self._sums.set(builder.add(lane, _I64(1)), value)
        _scan_lanes(self._combiner.combination, self._sums)
        with code.loop(0, lanes) as lane:
            before = combined(self._carry.get(), self._sums.get(lane))
            kept = [own.get(lane) for own in self._own]
            if self._is_exclusive:
                results = [before, *(combined(before, own) for own in kept)]
            else:
                # The tree has been at the last sum of a thread, which is computed once more.
                last = target.get(place(lane, self._group - 1))
                kept.append(combined(kept[-1], last) if kept else last)
                results = [combined(before, own) for own in kept]
            for number, result in enumerate(results):
                target.set(place(lane, number), result)
        self._carry.set(combined(self._carry.get(), self._sums.get(lanes)))


def _scan_lanes(found: Combination, sums: Elements) -> None:
    """Combine each of as many elements as a warp has lanes, from place 1 on, with those before."""
    builder, first = sums.emitter.builder, sums.place(_I64(1))
    if found.is_vectorizable and found.value_type == first.type.pointee:
        kind = ir.VectorType(found.value_type, WARP_SIZE)
        place = builder.bitcast(first, kind.as_pointer())
        scanned = scan_vector(builder, found, builder.load(place, align=1))
        builder.store(scanned, place, align=1)
        return
    values = [sums.get(_I64(1 + lane)) for lane in range(WARP_SIZE)]
    for width in WIDTHS:
        for lane in range(WARP_SIZE):
            if lane & width:
                before = values[lane & -2 * width | width - 1]
                values[lane] = found.combine(builder, before, values[lane])
    for lane, value in enumerate(values):
        sums.set(_I64(1 + lane), value)


_I64 = ir.IntType(64)
#: Writes an element by its number.
_Element: TypeAlias = Callable[[ir.Value], ir.Value]
#: Rounds of elements that are added before the accumulators are stored again.
_ROUNDS = 8
#: Most operations of an element's expression that is repeated so often.
_SHORT = 4


def write_fold(emitter: CpuEmitter, operation: Operation) -> None:
    """Write a fold of all elements of a tile, or along an axis."""
    _Fold(emitter, operation).write()


class _Fold:
    """Writes one fold."""

    def __init__(self, emitter: CpuEmitter, operation: Operation) -> None:
        self._emitter = emitter
        self._builder = emitter.builder
        self._operation = operation
        self._code = TileCode(emitter, operation)
        #: Type of the combined values.
        self._kind = operation.regions[1].arguments[0].type
        combiner = Combiner(operation, self._kind, emitter.context, emitter.builder)
        self._combined = combiner.combined

    def write(self) -> None:
        code, axis = self._code, self._operation.attributes["axis"]
        element = self._elements()
        if axis is None or len(code.shape) == 1:
            total = self._finished(self._whole(element), code.count)
            if axis is None:
                self._emitter.set(self._operation, total)
            else:
                code.tile(self._operation.operands[0]).set(_I64(0), total)
        elif axis == 0:
            self._columns(element)
        else:
            self._rows(element)

    # -- elements ---------------------------------------------------------------------------------

    def _elements(self) -> _Element:
        """Return what writes an element by its number, with what is computed before."""
        code = self._code
        if code.is_flat or len(code.shape) == 1:
            return lambda index: code.element(Slot(index, index))
        computed = code.buffer(self._kind, code.count)
        with code.elements() as (slot, value):
            computed.put(slot, value)
        return computed.get

    def _finished(self, total: ir.Value, count: int) -> ir.Value:
        """Return the result of a combination of `count` elements."""
        return write_region(self._emitter, self._operation.regions[1], total, _I64(count))

    # -- the whole --------------------------------------------------------------------------------

    def _whole(self, element: _Element) -> ir.Value:
        code, layout = self._code, self._code.layout
        places, warp = min(layout.places, code.count), WARP_SIZE * layout.group
        tile = code.only_tile()
        parts = min(warp, places), places % warp or warp
        if tile is not None and places == code.count and all(map(self._is_vector, parts)):
            return self._met(code.tile(tile), places, warp)
        totals = code.buffer(self._kind, places)
        self._rounds(totals, places, element, code.count)
        return self._met(totals, places, warp)

    def _rounds(self, totals: Elements, places: int, element: _Element, count: int) -> None:
        """Combine as many elements into each of the accumulators, round by round."""
        code, builder = self._code, self._builder

        def add(first: ir.Value, rounds: int, end: int, *, begins: bool = False) -> None:
            with code.loop(0, end) as place:
                total = None if begins else totals.get(place)
                for number in range(rounds):
                    start = builder.add(first, _I64(number * places))
                    new = element(builder.add(start, place))
                    total = new if total is None else self._combined(total, new)
                assert total is not None
                totals.set(place, total)

        whole, rest = divmod(count, places)
        is_short = len(self._operation.regions[0].operations) <= _SHORT
        step = _ROUNDS if is_short else 1
        begun = (whole - 1) % step + 1
        add(_I64(0), begun, places, begins=True)
        if whole > begun:
            with code.repeat(begun * places, whole * places, step * places) as start:
                add(start, step, places)
        if rest:
            add(_I64(whole * places), 1, rest)

    # -- neighbours -------------------------------------------------------------------------------

    def _met(self, totals: Elements, places: int, warp: int) -> ir.Value:
        """Combine accumulators: the neighbours of each warp in a tree, then warp by warp."""
        whole = places // warp * warp
        total = self._code.variable(self._neighbours(totals, _I64(0), min(warp, places)))

        def add(start: ir.Value, count: int) -> None:
            total.set(self._combined(total.get(), self._neighbours(totals, start, count)))

        if whole > warp:
            with self._code.repeat(warp, whole, warp) as start:
                add(start, warp)
        if whole and places > whole:
            add(_I64(whole), places - whole)
        return total.get()

    def _is_vector(self, count: int) -> bool:
        context, kind = self._emitter.context, self._kind
        stored = context.get_data_type(kind)
        is_plain = isinstance(stored, ir.IntType | ir.FloatType | ir.DoubleType)
        is_same = stored == context.get_value_type(kind)
        return is_plain and is_same and count & (count - 1) == 0

    def _neighbours(self, totals: Elements, start: ir.Value, count: int) -> ir.Value:
        """Combine some neighbours in a tree, as a vector if possible."""
        builder = self._builder
        if self._is_vector(count):
            first = totals.place(start)
            kind = ir.VectorType(first.type.pointee, count)
            vector = builder.load(builder.bitcast(first, kind.as_pointer()), align=1)
            return fold_neighbours(builder, vector, self._combined)

        def place(index: ir.Value) -> ir.Value:
            return builder.add(start, index)

        while count > 1:
            with cgutils.for_range(builder, _I64(count // 2)) as loop:
                even = builder.shl(loop.index, _I64(1))
                pair = totals.get(place(even)), totals.get(place(builder.or_(even, _I64(1))))
                totals.set(place(loop.index), self._combined(*pair))
            if count % 2:
                totals.set(place(_I64(count // 2)), totals.get(place(_I64(count - 1))))
            count = (count + 1) // 2
        return totals.get(start)

    # -- along an axis ----------------------------------------------------------------------------

    def _columns(self, element: _Element) -> None:
        """Combine each column, one row after the other."""
        code, builder = self._code, self._builder
        rows, columns = code.shape
        target = code.tile(self._operation.operands[0])
        totals = target if target.kind == self._kind else code.buffer(self._kind, columns)
        with code.loop(0, columns) as place:
            totals.set(place, element(place))
        with code.repeat(1, rows) as row:
            start = builder.mul(row, _I64(columns))
            with code.loop(0, columns) as place:
                below = element(builder.add(start, place))
                totals.set(place, self._combined(totals.get(place), below))
        if len(self._operation.regions[1].operations) > 1:
            with code.loop(0, columns) as place:
                target.set(place, self._finished(totals.get(place), rows))

    def _rows(self, element: _Element) -> None:
        """Combine each row: as many accumulators as a warp has lanes, then neighbours."""
        code, builder = self._code, self._builder
        rows, columns = code.shape
        target = code.tile(self._operation.operands[0])
        lanes = min(WARP_SIZE, columns)
        totals = code.buffer(self._kind, lanes)
        with code.repeat(0, rows) as row:
            start = builder.mul(row, _I64(columns))
            self._rounds(totals, lanes, lambda at: element(builder.add(start, at)), columns)
            total = self._met(totals, lanes, WARP_SIZE)
            target.set(row, self._finished(total, columns))
