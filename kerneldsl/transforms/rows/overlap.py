"""Refuse assignments of rows that may overlap the rows they are computed from."""

from __future__ import annotations

import ast

from kerneldsl.analysis.expressions import base_name, index_parts
from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.transforms.rows.elements import ElementWriter, is_full

__all__ = ["refuse_overlap"]


def refuse_overlap(
    unit: FunctionUnit, node: ast.stmt, target: ast.expr, value: ast.expr, writer: ElementWriter
) -> None:
    """Raise if an assignment reads another part of the array that it writes.

    Rows of one array that are cut out by the same slices are the same row or apart, whatever their
    other indices are: each element depends on its own alone.

    Raises
    ------
    UnsupportedConstructError
        With the row that is read.
    """
    written = _pattern(unit, target, writer)
    for read in _rows_in(value, writer):
        found = _pattern(unit, read, writer)
        if found[0] == written[0] and found != written:
            raise UnsupportedConstructError(
                f"{ast.unparse(target)} is assigned from {ast.unparse(read)}, which may overlap it",
                where=unit.locate(node),
                limit="A row is assigned element by element; nothing is copied before",
                remedy="Write the loop in the order that is meant, or copy through a "
                "kd.local.array",
            )


def _rows_in(value: ast.expr, writer: ElementWriter) -> list[ast.expr]:
    """Return the rows in an expression over rows."""
    if writer.array(value) is not None:
        return [value]
    return [row for part in writer.parts(value) for row in _rows_in(part, writer)]


def _pattern(
    unit: FunctionUnit, node: ast.expr, writer: ElementWriter
) -> tuple[str | None, tuple[str, ...] | str]:
    """Return the array that a view is of, and its slices by axis; an integer is no matter which.

    A variable that holds a view is followed to what it is bound to, if that is one thing.
    """
    seen: set[str] = set()
    while isinstance(node, ast.Name) and node.id not in seen:
        seen.add(node.id)
        bound = writer.bound_once(node.id)
        if bound is None or writer.array(bound) is None:
            break
        node = bound
    if isinstance(node, ast.Name):
        return node.id, ()
    if isinstance(node, ast.Subscript):
        whole = writer.array(node.value)
        if whole is None:  # an array of a tuple
            return ast.unparse(node), ()
        root, slices = _pattern(unit, node.value, writer)
        texts = [_text(part) for part in index_parts(node)]
        texts += [":"] * (whole.ndim - len(texts))
        if slices == ():
            return root, tuple(texts)
        if isinstance(slices, tuple) and slices.count(":") == len(texts):
            inner = iter(texts)
            return root, tuple(next(inner) if each == ":" else each for each in slices)
    return base_name(node), ast.unparse(node)


def _text(part: ast.expr) -> str:
    if is_full(part):
        return ":"
    return ast.unparse(part) if isinstance(part, ast.Slice) else "an integer"
