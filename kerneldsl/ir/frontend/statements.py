"""Assignments and expression statements."""

from __future__ import annotations

import ast
from typing import Any

from numba import types

from kerneldsl.frontend.operators import BINARY_OPERATORS, IN_PLACE
from kerneldsl.frontend.parts import Part
from kerneldsl.ir.frontend.arrays import Place, load, place_of, store_text
from kerneldsl.ir.frontend.expressions import binary, read_call, read_name
from kerneldsl.ir.frontend.faults import check_divisor
from kerneldsl.ir.frontend.members import is_tile, type_of
from kerneldsl.ir.frontend.reader import Reader, constant_of, reads_statement
from kerneldsl.ir.operations import Effect, Value
from kerneldsl.ir.refusals import Refusal, unpacking_refusal
from kerneldsl.language.intrinsics.intrinsic import Typing


@reads_statement(ast.Assign)
def read_assign(reader: Reader, node: ast.Assign) -> None:
    target = node.targets[0]
    if len(node.targets) == 1 and _may_be_row(reader, target):
        from kerneldsl.ir.frontend.rows import assign_row, row_of_target

        row = row_of_target(reader, target)
        if row is not None and assign_row(reader, node, target, row):
            return
    are_elements = all(isinstance(each, ast.Subscript | ast.Attribute) for each in node.targets)
    try:
        value = (reader.value if are_elements else reader.value_or_tile)(node.value)
    except Refusal as refusal:
        if refusal.array is not None and refusal.source == Part(reader.unit, node.value):
            # If the target is one element, binding raises first: an element cannot hold an array.
            value = reader.add("undefined", [], (refusal.array,)).result
            bind_target(reader, node.targets[0], value, node.value)
        raise
    for target in node.targets:
        bind_target(reader, target, value, node.value)
    use = reader.unit.use_of(node.value)
    if use is not None and use.intrinsic.typing is Typing.ELEMENT and use.intrinsic.name == "store":
        made = reader.operations[-1]
        if made.name == "array.store":
            made.attributes["hint"] = use.static["cache"]


def _may_be_row(reader: Reader, target: ast.expr) -> bool:
    """Return whether a target may be an array with axes, and no element."""
    match target:
        case ast.Subscript(value=ast.Name(id=name), slice=index) if name in reader.variables:
            kind = type_of(reader.known(name))
            parts = index.elts if isinstance(index, ast.Tuple) else [index]
            has_slices = any(isinstance(each, ast.Slice) for each in parts)
            return has_slices or (isinstance(kind, types.Array) and kind.ndim > len(parts))
    return isinstance(target, ast.Subscript)


@reads_statement(ast.AnnAssign)
def read_annotated(reader: Reader, node: ast.AnnAssign) -> None:
    if node.value is not None:
        bind_target(reader, node.target, reader.value(node.value), node.value)


@reads_statement(ast.AugAssign)
def read_augmented(reader: Reader, node: ast.AugAssign) -> None:
    function = IN_PLACE[BINARY_OPERATORS[type(node.op)]]
    place: Place | None = None
    match node.target:
        case ast.Name() as variable:
            old = read_name(reader, variable)
            if reader.tiles is not None and is_tile(old):
                found = reader.tiles.augmented(node)
                reader.note(node, found)
                bind_target(reader, variable, found, node.value)
                return
        case target:
            place = place_of(reader, target)
            old = place.load()
            if isinstance(type_of(old), types.Array) and type_of(old).ndim:
                from kerneldsl.ir.frontend.rows import assign_row

                if assign_row(reader, node, target, old):
                    return
    value = reader.value(node.value)
    if reader.faults is not None:
        check_divisor(reader, node, old, value)
    found = binary(reader, function, old, value)
    reader.note(node, found)
    if place is None:
        bind_target(reader, node.target, found, node.value)
    else:
        place.store(found)


@reads_statement(ast.Expr)
def read_expression(reader: Reader, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Call):
        reader.source = Part(reader.unit, node.value)
        if reader.tiles is not None:
            reader.tiles.effect(node.value)
            return
        found = read_call(reader, node.value)
        if found is not None:
            reader.note(node.value, found)
    elif reader.faults is not None and reader.tiles is None:
        reader.value(node.value)  # for its checks


@reads_statement(ast.Pass)
def read_nothing(reader: Reader, node: ast.Pass) -> None:
    """Read nothing."""


def bind_target(
    reader: Reader, target: ast.expr, value: Any, source: ast.expr | None = None
) -> None:
    """Assign a value to a name, to an element, or to several of these.

    `source` is what the statement assigns, if it is known.
    """
    if not isinstance(target, ast.Subscript | ast.Attribute):
        reader.note(target, value)
    if reader.tiles is not None and is_tile(value) and not isinstance(target, ast.Name):
        from kerneldsl.ir.frontend.tile_refusals import refuse_tile

        refuse_tile(reader.unit, source or target)
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
            if not isinstance(value, tuple) or len(value) != len(targets):
                refusal = unpacking_refusal(type_of(value), len(targets))
                raise refusal.at(Part(reader.unit, target))
            parts = source.elts if isinstance(source, ast.Tuple) else [None] * len(targets)
            for each, result, part in zip(targets, value, parts, strict=True):
                bind_target(reader, each, result, part)
        case _:
            try:
                place, text = place_of(reader, target), _text_of(reader, value)
                if text is None:
                    place.store(value)
                else:
                    store_text(reader, place.load(), text)
            except Refusal as refusal:
                shown = source if refusal.is_of_value and source else target
                refusal.at(Part(reader.unit, shown))
                raise


def _text_of(reader: Reader, value: Any) -> str | bytes | None:
    """Return the constant text that a program of numba.cuda's stores, ``None`` for other values."""
    text = constant_of(value) if isinstance(value, Value) and reader.unit.follows_numba else None
    return text if isinstance(text, str | bytes) else None
