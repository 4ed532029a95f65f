"""Assignments and expression statements."""

from __future__ import annotations

import ast
from typing import Any

from numba import errors, types

from kerneldsl.contract.findings import Part
from kerneldsl.ir.frontend.arrays import load, place_of
from kerneldsl.ir.frontend.calls import read_call
from kerneldsl.ir.frontend.expressions import IN_PLACE, binary, read_name
from kerneldsl.ir.frontend.reader import Reader, reads_statement
from kerneldsl.ir.operations import Effect, Value
from kerneldsl.language.intrinsics.intrinsic import Typing


@reads_statement(ast.Assign)
def read_assign(reader: Reader, node: ast.Assign) -> None:
    value = reader.value(node.value)
    for target in node.targets:
        bind_target(reader, target, value, node.value)
    use = reader.unit.use_of(node.value)
    if use is not None and use.intrinsic.typing is Typing.ELEMENT and use.intrinsic.name == "store":
        made = reader.operations[-1]
        if made.name == "array.store":
            made.attributes["hint"] = use.static["cache"]


@reads_statement(ast.AnnAssign)
def read_annotated(reader: Reader, node: ast.AnnAssign) -> None:
    if node.value is not None:
        bind_target(reader, node.target, reader.value(node.value), node.value)


@reads_statement(ast.AugAssign)
def read_augmented(reader: Reader, node: ast.AugAssign) -> None:
    function = IN_PLACE[type(node.op)]
    match node.target:
        case ast.Name() as variable:
            old = read_name(reader, variable)
            value = binary(reader, function, old, reader.value(node.value))
            reader.bind(variable, value, node.value)
        case target:
            place = place_of(reader, target)
            place.store(binary(reader, function, place.load(), reader.value(node.value)))


@reads_statement(ast.Expr)
def read_expression(reader: Reader, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Call):
        reader.source = Part(reader.unit, node.value)
        read_call(reader, node.value)


@reads_statement(ast.Pass)
def read_nothing(reader: Reader, node: ast.Pass) -> None:
    """Read nothing."""


def bind_target(
    reader: Reader, target: ast.expr, value: Any, source: ast.expr | None = None
) -> None:
    """Assign a value to a name, to an element, or to several of these."""
    match target:
        case ast.Name() as variable:
            reader.bind(variable, value, source)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            if isinstance(value, Value) and isinstance(value.type, types.Array) and value.type.ndim:
                if reader.raises:
                    attributes = {"count": len(targets)}
                    reader.add("unpack.check", [value], (), attributes, effect=Effect.WRITE)
                places = range(len(targets))  # an array of another length is an error of the kernel
                value = tuple(load(reader, value, [reader.constant(n)]) for n in places)
            if not isinstance(value, tuple):
                raise errors.TypingError(f"failed to unpack {value.type}")
            if len(value) != len(targets):
                raise errors.TypingError(f"{len(value)} values for {len(targets)} targets")
            parts = source.elts if isinstance(source, ast.Tuple) else [None] * len(targets)
            for each, result, part in zip(targets, value, parts, strict=True):
                bind_target(reader, each, result, part)
        case _:
            place_of(reader, target).store(value)
