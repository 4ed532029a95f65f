"""Statements over rows of arrays, as loops over their elements.

A row is an array with fewer indices than axes. ``o[i] = a[i] * 2`` assigns an element if the arrays
have one axis, and a row if they have two. Each element is computed from the same element of
the rows that are read, in their order. NumPy copies first if rows of one array may overlap
otherwise, as in ``x[1:] = x[:-1]``. Such an assignment is refused.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numba import types

from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.expressions import folded, index_parts
from kerneldsl.frontend.operators import BINARY_OPERATORS, IN_PLACE, UNARY_OPERATORS
from kerneldsl.frontend.parts import Part
from kerneldsl.ir.frontend.arrays import load, store
from kerneldsl.ir.frontend.control import read_branches_of, read_loop
from kerneldsl.ir.frontend.expressions import binary, compared, signed
from kerneldsl.ir.frontend.faults import fault
from kerneldsl.ir.frontend.members import packed
from kerneldsl.ir.frontend.merging import LoopVariables
from kerneldsl.ir.frontend.outside_calls import called
from kerneldsl.ir.frontend.reader import Reader, constant_of
from kerneldsl.ir.operations import Operation, Region, Value
from kerneldsl.ir.recognize import slice_bounds, takes_all

__all__ = ["assign_row", "is_row", "row_of_target"]

#: The counter of the loops, for messages and prints.
_COUNTER = "kd__k"


class _Row(NamedTuple):
    """An array with the indices of an element; ``None`` along the axes of the loops."""

    array: Value
    indices: tuple[Value | None, ...]

    @property
    def axes(self) -> list[int]:
        return [axis for axis, index in enumerate(self.indices) if index is None]

    def at(self, counters: Sequence[Value]) -> list[Value]:
        """Return the indices of an element; the last axes go with the last counters."""
        inner = iter(counters[len(counters) - len(self.axes) :])
        return [next(inner) if each is None else each for each in self.indices]

    def extent(self, reader: Reader, number: int) -> Value:
        """Return the extent of an axis of the loops."""
        attributes = {"axis": self.axes[number]}
        return reader.add("array.extent", [self.array], (types.int64,), attributes).result


class _Expression(NamedTuple):
    """An expression over rows."""

    rank: int
    #: Reads an element, by the counters.
    element: Callable[[Sequence[Value]], Any]
    #: The rows that it reads, each with its expression.
    rows: list[tuple[ast.expr, Value]]


def is_row(found: Any) -> bool:
    """Return whether a value is an array with axes."""
    return isinstance(found, Value) and isinstance(found.type, types.Array) and found.type.ndim > 0


def row_of_target(reader: Reader, node: ast.expr) -> Value | None:
    """Return the row that a target of an assignment is, ``None`` if it is an element."""
    rank = 0 if reader.unit.is_plain_numba else _rank(reader, node)
    if rank is None:  # it is read, and what is read is left out
        known: list[Any] = []
        reader.into(Region(), lambda: known.append(reader.value(node)))
        rank = int(is_row(known[0]))
    found = reader.value(node) if rank else None
    return found if is_row(found) else None


def _rank(reader: Reader, node: ast.expr) -> int | None:
    """Return the rank of an array that an expression is, ``None`` if it is not known yet."""
    match node:
        case ast.Name(id=name) if name in reader.variables:
            found = reader.known(name)
            if isinstance(found, tuple):
                return None
            return int(found.type.ndim) if is_row(found) else 0
        case ast.Subscript(value=owner):
            rank = _rank(reader, owner)
            if not rank:
                return rank
            axes = [_axes(reader, part) for part in index_parts(node)]
            return None if None in axes else max(rank - sum(filter(None, axes)), 0)
    return None


def _axes(reader: Reader, part: ast.expr) -> int | None:
    """Return how many axes an index takes, ``None`` if that is not known yet."""
    match part:
        case ast.Slice():
            return 0
        case ast.Constant(value=value):
            return 1 if type(value) is int else None
        case ast.Name(id=name) if name in reader.variables:
            found = reader.known(name)
            return len(found) if isinstance(found, tuple) else None if is_row(found) else 1
        case ast.Call() if (use := reader.unit.use_of(part)) is not None:
            ndim: int = use.static.get("ndim", 1)
            return ndim
        case ast.BinOp() | ast.UnaryOp():
            return 1
    return None


def assign_row(
    reader: Reader,
    node: ast.Assign | ast.AugAssign,
    target: ast.expr,
    view: Value,
) -> bool:
    """Read an assignment to a row; return whether the value may be assigned to it."""
    value = _expression(reader, node.value)
    if value.rank > view.type.ndim:
        return False
    _refuse_overlap(reader, node, target, view, value)
    row = _row(view)
    for _, read in value.rows if reader.faults is not None else ():
        _check_lengths(reader, node, row, _row(read))

    def act(counters: Sequence[Value]) -> None:
        reader.begin(node)
        indices = row.at(counters)
        if isinstance(node, ast.Assign):
            found = value.element(counters)
        else:
            old = reader.at(target, load, reader, row.array, indices)
            function = IN_PLACE[BINARY_OPERATORS[type(node.op)]]
            found = binary(reader, function, old, value.element(counters))
        reader.at(target, store, reader, row.array, indices, packed(reader, found))

    _loops(reader, row, act, ())
    return True


def _loops(
    reader: Reader, row: _Row, act: Callable[[Sequence[Value]], None], counters: tuple[Value, ...]
) -> None:
    """Read the loops over the axes of a row that are left, with what they repeat."""
    if len(counters) == len(row.axes):
        act(counters)
        return
    extent = row.extent(reader, len(counters))
    bounds = [reader.constant(0), extent, reader.constant(1)]

    def read(variables: LoopVariables, regions: list[Region]) -> dict[str, Any] | None:
        (body,) = regions
        (counter,) = body.arguments
        counter.name = f"{_COUNTER}_{len(counters) + 1}" if counters else _COUNTER
        reader.variables = variables.inside(0)

        def inner() -> list[Value]:
            _loops(reader, row, act, (*counters, counter))
            return []

        reader.into(body, inner)
        return reader.variables

    read_loop(reader, "for", bounds, {}, 1, [], read, (types.int64,))


def _check_lengths(reader: Reader, node: ast.stmt, written: _Row, read: _Row) -> None:
    """Check in debug mode that a row is as long as the one that is written."""
    if read == written:
        return
    offset = len(written.axes) - len(read.axes)
    message = "rows of different lengths in an assignment"
    for number in range(len(read.axes)):
        extents = [read.extent(reader, number), written.extent(reader, number + offset)]
        differs = reader.numba(operator.ne, extents)
        site = reader.faults.number(reader, node, AssertionError, message)
        read_branches_of(reader, differs, partial(fault, reader, site), lambda: None)


# -- expressions ----------------------------------------------------------------------------------


def _expression(reader: Reader, node: ast.expr) -> _Expression:
    """Read what an expression needs before the loops."""
    parts = _parts(reader, node)
    if not parts or folded(node) is not None:
        found = reader.value(node)
        if not is_row(found):
            return _Expression(0, lambda counters: found, [])
        row = _row(found)
        return _Expression(
            found.type.ndim,
            lambda counters: reader.at(node, load, reader, row.array, row.at(counters)),
            [(node, found)],
        )
    read = [_expression(reader, part) for part in parts]

    def element(counters: Sequence[Value]) -> Any:
        return reader.value(node, lambda *_: _operated(reader, node, read, counters))

    rank = max(each.rank for each in read)
    if rank == 0:
        known = element(())
        return _Expression(0, lambda counters: known, [])
    return _Expression(rank, element, [row for each in read for row in each.rows])


def _parts(reader: Reader, node: ast.expr) -> list[ast.expr]:
    """Return the operands of what is computed element by element."""
    match node:
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert(), operand=operand):
            return [operand]
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return [] if isinstance(op, ast.In | ast.NotIn) else [left, right]
        case ast.Call(func=func, args=args, keywords=[]):
            function = reader.outside(func)
            return args if isinstance(function, np.ufunc) or function is abs else []
    return []


def _operated(
    reader: Reader, node: ast.expr, operands: list[_Expression], counters: Sequence[Value]
) -> Any:
    """Return an element of what is computed of others."""
    values = [each.element(counters) for each in operands]
    match node:
        case ast.BinOp(op=op):
            return binary(reader, BINARY_OPERATORS[type(op)], *values)
        case ast.UnaryOp(op=op):
            return signed(reader, UNARY_OPERATORS[type(op)], *values)
        case ast.Compare(ops=[op]):
            return compared(reader, op, *values)
        case ast.Call():
            return called(reader, node, reader.outside(node.func), values, {})
    raise AssertionError(ast.dump(node))


# -- rows -----------------------------------------------------------------------------------------


def _row(view: Value) -> _Row:
    """Return the elements of a view, by the indices of the array if these are integers."""
    made = view.owner
    if isinstance(made, Operation) and made.name in ("array.part", "array.view"):
        base, *indices = made.operands
        found = [None if takes_all(each) else each for each in indices]
        if all(each is None or isinstance(each.type, types.Integer) for each in found):
            whole = _row(base)
            rest = iter([*found, *(None for _ in range(len(whole.axes) - len(found)))])
            return _Row(
                whole.array, tuple(next(rest) if each is None else each for each in whole.indices)
            )
    return _Row(view, (None,) * view.type.ndim)


# -- overlaps -------------------------------------------------------------------------------------


def _refuse_overlap(
    reader: Reader, node: ast.stmt, target: ast.expr, view: Value, value: _Expression
) -> None:
    """Raise if an assignment reads another part of the array that it writes.

    Rows of one array with the same slices are the same row or apart, whatever their other indices
    are. Each element depends on its own alone.

    - raises `UnsupportedConstructError` with the row that is read.
    """
    written = _pattern(view)
    for read, row in value.rows:
        found = _pattern(row)
        if found[0] is written[0] and found != written:
            raise UnsupportedConstructError(
                f"{ast.unparse(target)} is assigned from {ast.unparse(read)}, which may overlap it",
                where=Part(reader.unit, node).where,
                limit="A row is assigned element by element; nothing is copied before",
                remedy="Write a loop in the intended order, or copy through a kd.local.array",
            )


_WHOLE, _INTEGER = ":", "an integer"
_VIEWS = ("array.part", "array.transpose", "array.view")


def _pattern(view: Value) -> tuple[Value, Any]:
    """Return the array that a view is of, and its slices by axis; an integer is no matter which."""
    made = view.owner
    if not isinstance(made, Operation) or made.name not in _VIEWS:
        return view, (_WHOLE,) * view.type.ndim
    base, *indices = made.operands
    root, slices = _pattern(base)
    if made.name == "array.transpose":
        return root, view
    own = [_text(each) for each in indices]
    own += [_WHOLE] * (base.type.ndim - len(own))
    if not isinstance(slices, tuple) or len(slices) - slices.count(_INTEGER) != len(own):
        return root, view
    inner = iter(own)
    return root, tuple(each if each == _INTEGER else _cut(each, next(inner)) for each in slices)


def _cut(outer: Any, inner: Any) -> Any:
    """Return the slice that a slice takes of another one."""
    if _WHOLE in (outer, inner):
        return inner if outer == _WHOLE else outer
    return (outer, inner) if inner != _INTEGER else _INTEGER


def _text(index: Value) -> Any:
    if takes_all(index):
        return _WHOLE
    if not isinstance(index.type, types.SliceType):
        return _INTEGER
    bounds = slice_bounds(index) or [index]
    constants = map(constant_of, bounds)
    pairs = zip(bounds, constants, strict=True)
    return tuple(
        each if number is None and each.type != types.none else number for each, number in pairs
    )
