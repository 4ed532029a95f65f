"""Sort tiles along their last axis, by the integers of :mod:`kerneldsl.ir.tiles.folds`.

Long rows are distributed digit by digit, from the lowest on; digits that all elements have in
common are left out. Short ones are sorted by insertion.

References
----------
D. E. Knuth, "The Art of Computer Programming", volume 3, sections 5.2.1 and 5.2.5.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types

from kerneldsl.ir.operations import Operation
from kerneldsl.ir.tiles.folds import key_bits, key_type, number_of, sort_key
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.tiles.elements import Elements, TileCode

__all__ = ["write_argsort", "write_sort"]

_I64 = ir.IntType(64)
#: Longest row that is sorted by insertion.
_MAX_INSERTED = 48
#: Least elements for which digits of 11 bits pay: their counters have to be cleared.
_MANY = 2048


def write_sort(emitter: CpuEmitter, operation: Operation) -> None:
    """Write the sorted elements of a tile."""
    code = TileCode(emitter, operation)
    target, sort = code.tile(operation.operands[0]), _Sort(code, has_places=False)
    sort.write()
    with code.loop(0, code.count) as at:
        key = sort.keys.get(at)
        target.set(at, number_of(emitter.context, emitter.builder, sort.kind, key))


def write_argsort(emitter: CpuEmitter, operation: Operation) -> None:
    """Write where the sorted elements of a tile were in their rows."""
    code = TileCode(emitter, operation)
    target, sort = code.tile(operation.operands[0]), _Sort(code, has_places=True)
    sort.write()
    assert sort.places is not None
    with code.loop(0, code.count) as at:
        target.set(at, sort.places.get(at))


class _Sort:
    """Writes the sort of the rows of one tile.

    - `code`: writes elements and loops.
    - `has_places`: whether the places that elements had are sorted with them.
    """

    def __init__(self, code: TileCode, *, has_places: bool) -> None:
        self._code = code
        self._builder = code.builder
        self._rows, self.columns = (1, *code.shape)[-2:]
        #: Numba's type of the elements.
        self.kind = code.operation.regions[0].yielded[0].type
        self.keys = code.buffer(key_type(self.kind), code.count)
        #: The places that elements had in their rows, if they are requested.
        self.places = code.buffer(types.int64, code.count) if has_places else None

    def write(self) -> None:
        """Sort the integers of all elements, row by row."""
        code, builder = self._code, self._builder
        with code.elements() as (slot, value):
            self.keys.put(slot, sort_key(builder, self.kind, value))
        write = self._insert if self.columns <= _MAX_INSERTED else _Digits(self, code).write
        with code.repeat(0, self._rows) as row:
            first = builder.mul(row, _I64(self.columns))
            if self.places is not None:
                with code.loop(0, self.columns) as at:
                    self.places.set(builder.add(first, at), at)
            write(first)

    def _insert(self, first: ir.Value) -> None:
        """Sort a row by moving each element before the greater ones."""
        code, builder, keys = self._code, self._builder, self.keys
        arrays = [keys] if self.places is None else [keys, self.places]
        end = builder.add(first, _I64(self.columns))
        place = code.variable(first)
        with code.repeat(builder.add(first, _I64(1)), end) as at:
            carried = [each.get(at) for each in arrays]
            place.set(at)
            head, test, move, done = (
                builder.append_basic_block(f"insert.{name}")
                for name in ("head", "test", "move", "done")
            )
            builder.branch(head)
            builder.position_at_end(head)
            here = place.get()
            before = builder.sub(here, _I64(1))
            builder.cbranch(builder.icmp_signed(">", here, first), test, done)
            builder.position_at_end(test)
            is_less = builder.icmp_unsigned("<", carried[0], keys.get(before))
            builder.cbranch(is_less, move, done)
            builder.position_at_end(move)
            for each in arrays:
                each.set(here, each.get(before))
            place.set(before)
            builder.branch(head)
            builder.position_at_end(done)
            for each, value in zip(arrays, carried, strict=True):
                each.set(here, value)


class _Digits:
    """Sorts a row digit by digit."""

    def __init__(self, sort: _Sort, code: TileCode) -> None:
        self._code = code
        self._builder = code.builder
        self._columns = sort.columns
        self._keys = sort.keys
        self._width = 11 if sort.columns >= _MANY else 8
        self._shifts = range(0, key_bits(str(sort.kind)), self._width)
        self._counts = [code.buffer(types.int32, 1 << self._width) for _ in self._shifts]
        #: Arrays of the sorted elements, each with memory for a copy.
        self._moved = [(sort.keys, code.buffer(sort.keys.kind, sort.columns))]
        if sort.places is not None:
            self._moved.append((sort.places, code.buffer(types.int64, sort.columns)))

    def write(self, first: ir.Value) -> None:
        """Sort the row that begins at an element."""
        code, builder, columns = self._code, self._builder, self._columns
        one, none = ir.IntType(32)(1), ir.IntType(32)(0)
        end = builder.add(first, _I64(columns))
        with code.loop(0, 1 << self._width) as at:
            for counts in self._counts:
                counts.set(at, none)
        with code.repeat(first, end) as at:
            key = self._keys.get(at)
            for shift, counts in zip(self._shifts, self._counts, strict=True):
                digit = self._digit(key, shift)
                counts.set(digit, builder.add(counts.get(digit), one))
        for shift, counts in zip(self._shifts, self._counts, strict=True):
            of_first = counts.get(self._digit(self._keys.get(first), shift))
            differ = builder.icmp_signed("<", of_first, of_first.type(columns))
            with builder.if_then(differ):
                self._starts(counts)
                with code.repeat(first, end) as at:
                    digit = self._digit(self._keys.get(at), shift)
                    number = counts.get(digit)
                    place = builder.zext(number, _I64)
                    for array, spare in self._moved:
                        spare.set(place, array.get(at))
                    counts.set(digit, builder.add(number, one))
                with code.loop(0, columns) as at:
                    for array, spare in self._moved:
                        array.set(builder.add(first, at), spare.get(at))

    def _digit(self, key: ir.Value, shift: int) -> ir.Value:
        builder = self._builder
        low = builder.lshr(key, key.type(shift)) if shift else key
        digit = builder.and_(low, key.type((1 << self._width) - 1))
        return digit if digit.type == _I64 else builder.zext(digit, _I64)

    def _starts(self, counts: Elements) -> None:
        """Replace how many elements have each digit by the place of the first of them."""
        code, builder = self._code, self._builder
        total = code.variable(ir.IntType(32)(0))
        with code.repeat(0, 1 << self._width) as at:
            own = counts.get(at)
            counts.set(at, total.get())
            total.set(builder.add(total.get(), own))
