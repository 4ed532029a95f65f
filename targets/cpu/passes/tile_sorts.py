"""Sort tiles along their last axis, by the integers of :mod:`kerneldsl.lowering.tile_sorts`.

Long rows are distributed digit by digit, from the lowest on; digits that all elements have in
common are left out. Short ones are sorted by insertion.

References
----------
D. E. Knuth, "The Art of Computer Programming", volume 3, sections 5.2.1 and 5.2.5.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from kerneldsl.analysis.tile_shapes import Shape
from kerneldsl.frontend.syntax import assign, call, load, store
from kerneldsl.lowering.tile_sorts import key_bits, key_dtype

if TYPE_CHECKING:
    from targets.cpu.passes.tiles import TileWriter

__all__ = ["SortWriter"]

#: Longest row that is sorted by insertion.
_MAX_INSERTED = 48
#: Least elements for which digits of 11 bits pay, whose counters have to be cleared.
_MANY = 2048


class SortWriter:
    """Writes the sort of one tile.

    Parameters
    ----------
    writer : TileWriter
        Writes elements and loops.
    shape : Shape
        Of the tile.
    dtype : str
        Of its elements.
    """

    def __init__(self, writer: TileWriter, shape: Shape, dtype: str) -> None:
        self._writer = writer
        self._shape = shape
        self._dtype = dtype
        self._rows, self._columns = (1, *shape)[-2:]
        self._at = writer.names.make("at")
        #: Array of the places that elements had in their rows, if they are requested.
        self._places: str | None = None

    def write_places(self, target: str, node: ast.expr) -> list[ast.stmt]:
        """Return the statements that give the target where the sorted elements were."""
        self._places = self._writer.buffer(self._rows * self._columns, "int64")
        return self._write(target, node, self._writer.at(self._places, load(self._at)))

    def write(self, target: str, node: ast.expr) -> list[ast.stmt]:
        """Return the statements that give the target the sorted elements."""
        return self._write(target, node, None)

    def _write(self, target: str, node: ast.expr, given: ast.expr | None) -> list[ast.stmt]:
        """Return the statements that sort, and give the target an expression or the elements."""
        writer, count = self._writer, self._rows * self._columns
        keys = writer.buffer(count, key_dtype(self._dtype))
        row = writer.names.make("row")
        start = ast.BinOp(load(row), ast.Mult(), ast.Constant(self._columns))
        key = call("kd_sort_key", call(f"kd_as_{self._dtype}", node))
        each = call("kd_range", ast.Constant(self._rows))
        sorted_rows: ast.stmt
        if self._columns <= _MAX_INSERTED:
            sorted_rows = ast.For(store(row), each, self._inserted(keys, start), [])
        else:
            sorted_rows = ast.For(store(row), each, self._distributed(keys, start), [])
        number = given or call(f"kd_sort_number_{self._dtype}", writer.at(keys, load(self._at)))
        taken = writer.loop(self._at, 0, count, [writer.set(target, load(self._at), number)])
        return [*writer.fill(keys, key, self._shape), sorted_rows, taken]

    def _numbered(self, first: str) -> list[ast.stmt]:
        """Return what notes the places of a row's elements."""
        if self._places is None:
            return []
        place = ast.BinOp(load(first), ast.Add(), load(self._at))
        body = [self._writer.set(self._places, place, load(self._at))]
        return [self._writer.loop(self._at, 0, self._columns, body)]

    def _moved(self, target: str, to: ast.expr, source: str, of: ast.expr) -> list[ast.stmt]:
        """Return what gives an element of one array of places to another one."""
        if self._places is None:
            return []
        return [self._writer.set(target, to, self._writer.at(source, of))]

    def _inserted(self, keys: str, start: ast.expr) -> list[ast.stmt]:
        """Sort a row by moving each element before the greater ones."""
        writer, names = self._writer, self._writer.names
        key, place, first = (names.make(stem) for stem in ("key", "place", "first"))
        before = ast.BinOp(load(place), ast.Sub(), ast.Constant(1))
        has_more = ast.Compare(load(place), [ast.Gt()], [load(first)])
        is_less = ast.Compare(load(key), [ast.Lt()], [writer.at(keys, before)])
        places, carried = self._places or "", names.make("carried")
        moved: list[ast.stmt] = [
            writer.set(keys, load(place), writer.at(keys, before)),
            *self._moved(places, load(place), places, before),
            assign(place, before),
        ]
        body: list[ast.stmt] = [
            assign(key, writer.at(keys, load(self._at))),
            assign(place, load(self._at)),
            ast.While(ast.BoolOp(ast.And(), [has_more, is_less]), moved, []),
            writer.set(keys, load(place), load(key)),
        ]
        if self._places is not None:
            body.insert(0, assign(carried, writer.at(places, load(self._at))))
            body.append(writer.set(places, load(place), load(carried)))
        low = ast.BinOp(load(first), ast.Add(), ast.Constant(1))
        high = ast.BinOp(load(first), ast.Add(), ast.Constant(self._columns))
        each = ast.For(store(self._at), call("kd_range", low, high), body, [])
        return [assign(first, start), *self._numbered(first), each]

    def _distributed(self, keys: str, start: ast.expr) -> list[ast.stmt]:
        """Sort a row digit by digit."""
        writer, names = self._writer, self._writer.names
        first, end = names.make("first"), names.make("end")
        width = 11 if self._columns >= _MANY else 8
        shifts = range(0, key_bits(self._dtype), width)
        counts = [writer.buffer(1 << width, "int32") for _ in shifts]
        spare = writer.buffer(self._columns, key_dtype(self._dtype))
        places, others = self._places or "", ""
        if self._places is not None:
            others = writer.buffer(self._columns, "int64")
        key, place = names.make("key"), names.make("place")

        def digit(shift: int) -> ast.expr:
            low = ast.BinOp(load(key), ast.RShift(), ast.Constant(shift)) if shift else load(key)
            return ast.BinOp(low, ast.BitAnd(), ast.Constant((1 << width) - 1))

        one = ast.Constant(1)
        cleared = [writer.set(each, load(self._at), ast.Constant(0)) for each in counts]
        counted: list[ast.stmt] = [assign(key, writer.at(keys, load(self._at)))]
        for shift, each in zip(shifts, counts, strict=True):
            more = ast.BinOp(writer.at(each, digit(shift)), ast.Add(), one)
            counted.append(writer.set(each, digit(shift), more))
        row = call("kd_range", load(first), load(end))
        out: list[ast.stmt] = [
            assign(first, start),
            assign(end, ast.BinOp(load(first), ast.Add(), ast.Constant(self._columns))),
            *self._numbered(first),
            writer.loop(self._at, 0, 1 << width, cleared),
            ast.For(store(self._at), row, counted, []),
        ]
        for shift, each in zip(shifts, counts, strict=True):
            of_first = writer.at(each, digit(shift))
            differ = ast.Compare(of_first, [ast.Lt()], [ast.Constant(self._columns)])
            given: list[ast.stmt] = [
                assign(key, writer.at(keys, load(self._at))),
                assign(place, writer.at(each, digit(shift))),
                writer.set(spare, load(place), load(key)),
                *self._moved(others, load(place), places, load(self._at)),
                writer.set(each, digit(shift), ast.BinOp(load(place), ast.Add(), one)),
            ]
            behind = ast.BinOp(load(first), ast.Add(), load(self._at))
            back = writer.set(keys, behind, writer.at(spare, load(self._at)))
            out += [
                assign(key, writer.at(keys, load(first))),
                ast.If(
                    differ,
                    [
                        *self._starts(each, 1 << width),
                        ast.For(store(self._at), row, given, []),
                        writer.loop(
                            self._at,
                            0,
                            self._columns,
                            [back, *self._moved(places, behind, others, load(self._at))],
                        ),
                    ],
                    [],
                ),
            ]
        return out

    def _starts(self, counts: str, digits: int) -> list[ast.stmt]:
        """Replace how many elements have each digit by the place of the first of them."""
        writer = self._writer
        total, own = writer.names.make("total"), writer.names.make("own")
        body: list[ast.stmt] = [
            assign(own, writer.at(counts, load(self._at))),
            writer.set(counts, load(self._at), load(total)),
            assign(total, ast.BinOp(load(total), ast.Add(), load(own))),
        ]
        each = call("kd_range", ast.Constant(digits))
        return [assign(total, ast.Constant(0)), ast.For(store(self._at), each, body, [])]
