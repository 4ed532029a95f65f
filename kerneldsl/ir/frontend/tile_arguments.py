"""Arguments of tile operations: of calls, of methods, and dtypes."""

from __future__ import annotations

import ast
from typing import Any

from kerneldsl.frontend.expressions import written
from kerneldsl.frontend.library_names import outside_value
from kerneldsl.frontend.parts import Part
from kerneldsl.frontend.statics import dtype_name
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.ir.frontend.tile_refusals import fail
from kerneldsl.language.intrinsics.intrinsic import Intrinsic

__all__ = ["dtype_of", "given_to", "given_to_method", "named_dtypes"]

#: Parameters of methods that are constants, with what one may write for them.
_CONSTANTS = {"axis": "0 or 1", "exclusive": "True or False"}


def given_to(node: ast.Call, use: IntrinsicUse) -> dict[str, Any]:
    """Return what an operation is given, by parameter: nodes, and constants as their values."""
    dynamic = [each for each in use.intrinsic.parameters if each not in use.static]
    return {**dict(zip(dynamic, node.args, strict=False)), **use.static}


def given_to_method(
    unit: FunctionUnit, node: ast.Call, row: Intrinsic, owner: Any
) -> dict[str, Any]:
    """Return what a method of a tile is given."""
    parameters = row.parameters[1:]
    given: dict[str, Any] = {"tile": owner, **row.defaults}
    given.update(zip(parameters, node.args, strict=False))
    given.update({each.arg: each.value for each in node.keywords if each.arg})
    unknown = [each for each in given if each not in ("tile", *parameters)]
    missing = [each for each in parameters if each not in given]
    if len(node.args) > len(parameters) or unknown or missing:
        signature = f"t.{row.name.rpartition('.')[2]}({', '.join(parameters)})"
        fail(Part(unit, node), f"{written(node, unit)} does not fit", f"Call it as {signature}")
    for parameter, example in _CONSTANTS.items():
        if isinstance(given.get(parameter), ast.expr):
            given[parameter] = _constant(unit, given[parameter], parameter, example)
    return given


def _constant(unit: FunctionUnit, node: ast.expr, parameter: str, example: str) -> object:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in unit.constants:
            return unit.constants[name].value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
            return -value
    fail(
        Part(unit, node),
        f"{parameter} is {written(node, unit)}, which is not a constant",
        f"Write {example}, or capture it from a global or a closure",
        limit="It must be known when the kernel is compiled",
    )


def dtype_of(unit: FunctionUnit, node: ast.expr) -> str:
    """Return the dtype that an expression names; raise if it names none."""
    name = _named_dtype(unit, node)
    if name is None:
        fail(
            Part(unit, node),
            f"{written(node, unit)} is not a dtype that is known when the kernel is compiled",
            "Name the dtype, as kd.float32",
        )
    return name


def _named_dtype(unit: FunctionUnit, node: ast.expr) -> str | None:
    if isinstance(node, ast.Name) and node.id in unit.constants:
        return dtype_name(unit.constants[node.id].value)
    return dtype_name(outside_value(node, unit.namespace))


def named_dtypes(unit: FunctionUnit) -> set[str | None]:
    """Return the dtypes that methods of tiles are given, in a kernel and what it calls."""
    return {
        _named_dtype(each, argument)
        for each in unit.reachable()
        for node in walk_here(each.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "astype"
        for argument in (*node.args, *(keyword.value for keyword in node.keywords))
    }
