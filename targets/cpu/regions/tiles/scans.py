"""Sums up to each element of a tile, in the order of :mod:`kerneldsl.lowering.tile_plan`.

A segment is three steps for the threads of a warp. Each adds its neighbours. The sums of all meet
in a tree. Then the sum of the elements before is added to each element. LLVM vectorizes the loops.
"""

from __future__ import annotations

from llvmlite import ir

from kerneldsl.ir.operations import Operation
from kerneldsl.lowering.groups import Combination, combination_of
from targets.cpu.intrinsics.groups.buffer import WIDTHS
from targets.cpu.intrinsics.groups.combine import scan_vector
from targets.cpu.intrinsics.units import WARP_SIZE
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.tiles.writer import Elements, TileCode

__all__ = ["write_scan"]

_I64 = ir.IntType(64)


def write_scan(emitter: CpuEmitter, operation: Operation) -> None:
    """Write the sums up to each element."""
    code, builder = TileCode(emitter, operation), emitter.builder
    target = code.elements(operation.operands[0])
    code.each(lambda index, places: target.set(index, code.element(index, places)))
    axis, is_exclusive = (operation.attributes[name] for name in ("axis", "exclusive"))
    if axis == 0:
        _columns(code, target, is_exclusive=is_exclusive)
    elif axis is None:
        layout = code.layout
        scan = _Segments(code, target, layout.group, layout.threads, is_exclusive=is_exclusive)
        scan.write(_I64(0), code.count)
    else:
        rows, columns = code.shape
        scan = _Segments(code, target, 1, WARP_SIZE, is_exclusive=is_exclusive)
        with code.repeat(0, rows) as row:
            scan.write(builder.mul(row, _I64(columns)), columns)


def _added(code: TileCode, kind: object, one: ir.Value, two: ir.Value) -> ir.Value:
    """Return a sum with which nothing is contracted."""
    return combination_of("sum", code.emitter.context, kind).combine(code.builder, one, two)


def _constant(code: TileCode, kind: ir.Type, number: float) -> ir.Constant:
    """Return 0 or -0 as a value of a type; integers have no -0."""
    if isinstance(kind, ir.LiteralStructType):
        return ir.Constant(kind, [_constant(code, part, number) for part in kind.elements])
    return ir.Constant(kind, 0 if isinstance(kind, ir.IntType) else number)


def _columns(code: TileCode, target: Elements, *, is_exclusive: bool) -> None:
    """Add the rows one after the other."""
    builder, (rows, columns) = code.builder, code.shape
    totals = code.buffer(target.kind, columns) if is_exclusive else target
    if is_exclusive:
        zero = _zero(code, target.kind)
        with code.loop(0, columns) as place:
            totals.set(place, target.get(place))
            target.set(place, zero)
    with code.repeat(1, rows) as row:
        start = builder.mul(row, _I64(columns))
        with code.loop(0, columns) as place:
            index = builder.add(start, place)
            own = target.get(index)
            if is_exclusive:
                before = totals.get(place)
                target.set(index, before)
                totals.set(place, _added(code, target.kind, before, own))
            else:
                above = target.get(builder.sub(index, _I64(columns)))
                target.set(index, _added(code, target.kind, above, own))


def _zero(code: TileCode, kind: object) -> ir.Value:
    """Return the sum of no elements."""
    return _constant(code, code.emitter.context.get_value_type(kind), 0.0)


class _Segments:
    """Writes the segments of one operation."""

    def __init__(
        self, code: TileCode, target: Elements, group: int, threads: int, *, is_exclusive: bool
    ) -> None:
        self._code = code
        self._builder = code.builder
        self._target = target
        self._group = group
        self._threads = threads
        self._is_exclusive = is_exclusive
        kind = target.kind
        self._found = combination_of("sum", code.emitter.context, kind)
        value_type = code.emitter.context.get_value_type(kind)
        #: What changes no number that it is added to.
        self._nothing = _constant(code, value_type, -0.0)
        #: What each thread has added by each of its places; the last one from place 1 on.
        self._own = [code.buffer(kind, WARP_SIZE) for _ in range(group - 1)]
        self._sums = code.buffer(kind, WARP_SIZE + 1)
        self._carry = code.variable(self._nothing)

    def write(self, start: ir.Value, count: int) -> None:
        """Write the sums of some neighbours."""
        code, builder, width = self._code, self._builder, WARP_SIZE * self._group
        self._carry.set(self._nothing)
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
            self._target.set(start, _zero(code, self._target.kind))

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

    def _added(self, one: ir.Value, two: ir.Value) -> ir.Value:
        return self._found.combine(self._builder, one, two)

    def _segment(self, start: ir.Value, lanes: ir.Value) -> None:
        """Write the sums of one segment."""
        code, builder, target = self._code, self._builder, self._target

        def place(lane: ir.Value, number: int) -> ir.Value:
            scaled = builder.mul(lane, _I64(self._group))
            return builder.add(builder.add(start, scaled), _I64(number))

        self._sums.set(_I64(0), self._nothing)
        with code.loop(0, lanes) as lane:
            value = target.get(place(lane, 0))
            for number, own in enumerate(self._own):
                own.set(lane, value)
                value = self._added(value, target.get(place(lane, number + 1)))
            self._sums.set(builder.add(lane, _I64(1)), value)
        _scan_lanes(self._found, self._sums)
        with code.loop(0, lanes) as lane:
            before = self._added(self._carry.get(), self._sums.get(lane))
            kept = [own.get(lane) for own in self._own]
            if self._is_exclusive:
                results = [before, *(self._added(before, own) for own in kept)]
            else:
                # The tree has been at the last sum of a thread, which is computed once more.
                last = target.get(place(lane, self._group - 1))
                kept.append(self._added(kept[-1], last) if kept else last)
                results = [self._added(before, own) for own in kept]
            for number, result in enumerate(results):
                target.set(place(lane, number), result)
        self._carry.set(self._added(self._carry.get(), self._sums.get(lanes)))


def _scan_lanes(found: Combination, sums: Elements) -> None:
    """Add to each of as many elements as a warp has lanes, from place 1 on, those before it."""
    builder, first = sums.emitter.builder, sums.place(_I64(1))
    if found.is_vectorizable and found.value_type == first.type.pointee:
        kind = ir.VectorType(found.value_type, WARP_SIZE)
        place = builder.bitcast(first, kind.as_pointer())
        scan_vector(builder, found, place, builder.load(place, align=1))
        return
    values = [sums.get(_I64(1 + lane)) for lane in range(WARP_SIZE)]
    for width in WIDTHS:
        for lane in range(WARP_SIZE):
            if lane & width:
                before = values[lane & -2 * width | width - 1]
                values[lane] = found.combine(builder, before, values[lane])
    for lane, value in enumerate(values):
        sums.set(_I64(1 + lane), value)
