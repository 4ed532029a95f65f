"""Scans of tiles, in the order of :mod:`kerneldsl.ir.tiles.layout`.

A segment is three steps for the threads of a warp. Each combines its neighbours. What the threads
have meets in a tree. Then it is combined with the elements after it. LLVM vectorizes the loops.
"""

from __future__ import annotations

from llvmlite import ir

from kerneldsl.ir.operations import Operation
from kerneldsl.ir.ranges import WARP_SIZE
from kerneldsl.ir.tiles.folds import Combiner
from kerneldsl.lowering.groups import Combination
from targets.cpu.intrinsics.exchange import WIDTHS
from targets.cpu.intrinsics.groups import scan_vector
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.tiles.writer import Elements, TileCode

__all__ = ["write_scan"]

_I64 = ir.IntType(64)


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
        #: What each thread has combined by each of its places; the last one from place 1 on.
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
