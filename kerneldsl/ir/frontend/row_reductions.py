"""Reductions of rows to numbers, as calls of device functions."""

from __future__ import annotations

import ast
from typing import Any

from numba import types

from kerneldsl.frontend.library_names import name_of_function
from kerneldsl.frontend.rows.reductions import FUNCTIONS, METHODS, counting_unit, reduction_unit
from kerneldsl.ir.frontend.functions import read_call_of
from kerneldsl.ir.frontend.reader import Reader
from kerneldsl.ir.operations import Value

__all__ = ["reduced_row"]


def reduced_row(reader: Reader, node: ast.Call) -> Any:
    """Read the reduction of a row; return ``None`` for any other call."""
    function, operands = reader.outside(node.func), node.args
    name = FUNCTIONS.get(name_of_function(function) or "")
    if function is None and isinstance(node.func, ast.Attribute):
        name = node.func.attr if node.func.attr in METHODS else None
        operands = [node.func.value, *operands]
    if name is None or len(operands) != 1 + (name == "dot"):
        return None
    rows = [reader.value(each) for each in operands]
    if not all(isinstance(each, Value) and isinstance(each.type, types.Array) for each in rows):
        return None
    if name == "count_nonzero":
        unit = counting_unit(rows[0].type.ndim)
    elif any(each.type.ndim != 1 for each in rows):
        return None
    else:
        unit = reduction_unit(name, *(str(each.type.dtype) for each in rows))
    found = read_call_of(reader, unit, rows)
    if reader.notes is not None:
        reader.notes.add_call(node, reader.notes.of_call(unit, rows), found)
    return found
