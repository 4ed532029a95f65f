"""Assignments and expression statements."""

from __future__ import annotations

import ast

from kerneldsl.ir.frontend.arrays import place_of
from kerneldsl.ir.frontend.calls import read_call
from kerneldsl.ir.frontend.expressions import BINARY, binary
from kerneldsl.ir.frontend.reader import NotReadError, Reader, reads_statement


@reads_statement(ast.Assign)
def read_assign(reader: Reader, node: ast.Assign) -> None:
    if len(node.targets) != 1:
        raise NotReadError("several targets")
    assign(reader, node.targets[0], node.value)


@reads_statement(ast.AugAssign)
def read_augmented(reader: Reader, node: ast.AugAssign) -> None:
    function = BINARY[type(node.op)][1]
    match node.target:
        case ast.Name(id=name):
            old = reader.variables[name]
            reader.bind(name, binary(reader, function, old, reader.value(node.value)))
        case target:
            place = place_of(reader, target)
            place.store(binary(reader, function, place.load(), reader.value(node.value)))


@reads_statement(ast.Expr)
def read_expression(reader: Reader, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Call):
        read_call(reader, node.value)


@reads_statement(ast.Pass, ast.Assert, ast.Raise)
def read_nothing(reader: Reader, node: ast.stmt) -> None:
    """Exceptions act in debug mode alone."""


@reads_statement(ast.Return)
def read_return(reader: Reader, node: ast.Return) -> None:
    if node.value is not None or node is not reader.unit.tree.body[-1]:
        raise NotReadError("a return before the end")


def assign(reader: Reader, target: ast.expr, value: ast.expr) -> None:
    match target, value:
        case ast.Name(id=name), _:
            reader.bind(name, reader.value(value))
        case ast.Tuple(elts=targets), _:
            found = reader.value(value)
            if not isinstance(found, tuple) or len(found) != len(targets):
                raise NotReadError("a tuple of targets")
            for each, result in zip(targets, found, strict=True):
                if not isinstance(each, ast.Name):
                    raise NotReadError("a tuple of targets")
                reader.bind(each.id, result)
        case _:
            result = reader.value(value)
            place_of(reader, target).store(result)
