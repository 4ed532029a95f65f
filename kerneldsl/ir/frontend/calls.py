"""Calls: of the language, of device functions, of what Numba knows."""

from __future__ import annotations

import ast
from typing import Any

from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.ir.frontend.intrinsics import read_intrinsic
from kerneldsl.ir.frontend.outside_calls import read_outside_call
from kerneldsl.ir.frontend.reader import NotReadError, Reader, reads


@reads(ast.Call)
def read_value(reader: Reader, node: ast.Call) -> Any:
    found = read_call(reader, node)
    if found is None:
        raise NotReadError(ast.unparse(node))
    return found


def read_call(reader: Reader, node: ast.Call) -> Any:
    use = reader.unit.use_of(node)
    if use is not None:
        return read_intrinsic(reader, node, use)
    callee = reader.unit.callee_of(node)
    if callee is not None:
        return read_function_body(reader, callee, [reader.value(each) for each in node.args])
    return read_outside_call(reader, node)


def read_function_body(reader: Reader, unit: FunctionUnit, arguments: list[Any]) -> Any:
    """Read the body of a device function in the place of its call."""
    if reader.depth > 20 or (
        unit.is_plain_numba and any(isinstance(n, ast.Yield) for n in ast.walk(unit.tree))
    ):
        raise NotReadError("recursion")
    *body, last = unit.tree.body
    value = last.value if isinstance(last, ast.Return) else None
    if any(isinstance(node, ast.Return) for each in body for node in ast.walk(each)):
        raise NotReadError("a device function that returns early")
    outer = reader.unit, reader.variables
    reader.unit, reader.depth = unit, reader.depth + 1
    reader.variables = dict(zip(unit.parameters, arguments, strict=True))
    try:
        reader.block(body if isinstance(last, ast.Return) else unit.tree.body)
        return None if value is None else reader.value(value)
    finally:
        reader.unit, reader.variables = outer
        reader.depth -= 1
