"""Calls: of the language, of device functions, of what Numba knows."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
from numba import types

from kerneldsl.analysis.library_names import outside_value
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.ir.frontend.intrinsics import read_intrinsic
from kerneldsl.ir.frontend.reader import NotReadError, Reader, constant_of, reads
from kerneldsl.lowering.types import element_type


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
    if node.keywords:
        raise NotReadError(f"a call of {ast.unparse(node.func)}")
    function = outside_value(node.func, reader.unit.namespace)
    if function is None and isinstance(node.func, ast.Name):
        function = {
            "min": min,
            "max": max,
            "abs": abs,
            "int": int,
            "float": float,
            "len": len,
        }.get(node.func.id)
    if function is None:
        raise NotReadError(ast.unparse(node.func))
    operands = [reader.number(each) for each in node.args]
    if function is len and isinstance(operands[0].type, types.Array):
        return reader.add("array.extent", operands, (types.int64,), {"axis": 0}).result
    if isinstance(function, type) and issubclass(function, np.generic) and len(operands) == 1:
        kind = element_type(function.__name__)
        constant = constant_of(operands[0])
        if constant is not None and isinstance(kind, types.Float):
            return reader.constant(float(kind_cast(constant, function)), kind)
        return reader.cast(operands[0], kind)
    found = reader.typing.function(function)
    signature = reader.typing.call(found, tuple(v.type for v in operands))
    return reader.add(
        "numba",
        operands,
        (signature.return_type,),
        {"function": found, "signature": signature, "name": function.__name__},
    ).result


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


def kind_cast(value: Any, function: Any) -> Any:
    """Return a number rounded to a NumPy type."""
    return function(value)
