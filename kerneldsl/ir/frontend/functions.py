"""Bodies of kernels and of the functions that they call."""

from __future__ import annotations

import ast
from typing import Any

from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.ir.frontend.exits import RESULT, labeled, returns_early
from kerneldsl.ir.frontend.reader import NotReadError, Reader

__all__ = ["read_call_of", "read_kernel_body"]


def read_kernel_body(reader: Reader) -> None:
    """Read the body of a kernel into the region that is open.

    A kernel that ends early for some threads, ``if i >= n: return``, has a branch around what
    follows.
    """
    _read_body(reader, _with_branches(reader.unit.tree.body))
    if not reader.region.is_left:
        reader.add("yield", [])


def _with_branches(body: list[ast.stmt]) -> list[ast.stmt]:
    for number, statement in enumerate(body):
        match statement:
            case ast.If(body=[ast.Return(value=None)], orelse=[]):
                rest = _with_branches(body[number + 1 :]) or [ast.Pass()]
                negated = ast.copy_location(ast.UnaryOp(ast.Not(), statement.test), statement.test)
                branch = ast.copy_location(ast.If(negated, rest, []), statement)
                return [*body[:number], branch]
    return body


def read_call_of(reader: Reader, unit: FunctionUnit, arguments: list[Any]) -> Any:
    """Read the body of a device function in the place of its call; return its result."""
    if unit.linked is not None:
        raise NotReadError("a linked function")
    if reader.depth > 20:
        raise NotReadError("recursion")
    outer = reader.unit, reader.variables, reader.exits, reader.place
    reader.unit, reader.depth = unit, reader.depth + 1
    reader.variables = dict(zip(unit.parameters, arguments, strict=True))
    reader.exits = {}
    try:
        return _read_body(reader, unit.tree.body)
    finally:
        reader.unit, reader.variables, reader.exits, reader.place = outer
        reader.depth -= 1


def _read_body(reader: Reader, body: list[ast.stmt]) -> Any:
    """Read the statements of a function; return its result."""
    returns = any(isinstance(node, ast.Return) for each in body for node in ast.walk(each))
    if not returns:
        reader.block(body)
        return reader.constant(None) if reader.depth and not reader.region.is_left else None
    if returns_early(body):
        reader.variables = {**reader.variables, RESULT: reader.constant(None)}
        labeled(reader, "return", lambda: reader.block(body))
    else:
        reader.block(body)
    return reader.known(RESULT)
