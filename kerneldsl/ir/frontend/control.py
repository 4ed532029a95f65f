"""Branches and loops, as operations with regions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import Any

from numba import types

from kerneldsl.ir.frontend.reader import NotReadError, Reader, reads_statement
from kerneldsl.ir.operations import Region, Value

__all__ = ["assigned"]


@reads_statement(ast.If)
def read_branch(reader: Reader, node: ast.If) -> None:
    condition = reader.truth(reader.value(node.test))
    before = reader.variables
    found = []
    for body in (node.body, node.orelse):
        region = Region()
        reader.variables = dict(before)
        reader.into(region, partial(reader.block, body))
        found.append((region, reader.variables))
    (yes, in_yes), (no, in_no) = found
    names = [
        name
        for name in dict.fromkeys((*in_yes, *in_no))
        if in_yes.get(name) is not before.get(name) or in_no.get(name) is not before.get(name)
    ]
    if any(isinstance(v.get(name), tuple) for name in names for v in (in_yes, in_no)):
        raise NotReadError("a tuple that a branch assigns")
    merged = [name for name in names if name in in_yes and name in in_no]
    kinds = [reader.typing.unify(in_yes[name].type, in_no[name].type) for name in merged]
    for region, variables in found:
        chosen = [variables[name] for name in merged]
        reader.into(
            region,
            partial(reader.casts, chosen, kinds),
        )
    if any(not isinstance(kind, types.Number | types.Boolean) for kind in kinds):
        raise NotReadError("an array or tile that a branch assigns")
    made = reader.add("if", [condition], tuple(kinds), None, [yes, no])
    reader.variables = {k: v for k, v in before.items() if k in in_yes and k in in_no}
    for name, result in zip(merged, made.results, strict=True):
        reader.bind(name, result)


@reads_statement(ast.While)
def read_while(reader: Reader, node: ast.While) -> None:
    if node.orelse:
        raise NotReadError("else of a loop")
    _loop(reader, node.body, lambda kinds, carried: _while(reader, node, kinds, carried))


def _while(reader: Reader, node: ast.While, kinds: list[Any], names: list[str]) -> list[Any]:
    before, body = Region(tuple(kinds)), Region(tuple(kinds))
    outer = reader.variables
    reader.variables = {**outer, **_named(reader, names, before.arguments)}
    reader.into(before, lambda: [reader.truth(reader.value(node.test))])
    reader.variables = {**outer, **_named(reader, names, body.arguments)}
    reader.into(body, lambda: reader.block(node.body))
    found = _loop_kinds(reader, names, kinds, reader.variables)
    if found == kinds:
        last = reader.variables
        reader.into(
            body, lambda: [reader.cast(last[n], k) for n, k in zip(names, kinds, strict=True)]
        )
        reader.variables = outer
        given = [reader.cast(outer[n], k) for n, k in zip(names, kinds, strict=True)]
        made = reader.add("while", given, tuple(kinds), None, [before, body])
        for name, result in zip(names, made.results, strict=True):
            reader.bind(name, result)
    reader.variables = outer
    return found


@reads_statement(ast.For)
def read_for(reader: Reader, node: ast.For) -> None:
    if node.orelse or not isinstance(node.target, ast.Name):
        raise NotReadError("a loop over several variables")
    target = node.target.id
    match node.iter:
        case ast.Tuple(elts=parts):
            numbers = [reader.unit.literal(part) for part in parts]
            if None in numbers:
                raise NotReadError("a loop over values")
            name, bounds, kind = "for_each", [], types.int64
            attributes: dict[str, Any] = {"values": tuple(numbers)}
        case ast.Call(func=ast.Name(id="range"), args=args) if (
            "range" not in reader.unit.namespace or (reader.unit.namespace["range"] is range)
        ):
            found = [reader.value(each) for each in args]
            signature = reader.typing.call(
                reader.typing.function(range), tuple(v.type for v in found)
            )
            kind = signature.return_type.dtype
            if len(found) == 1:
                found.insert(0, reader.constant(0, kind))
            if len(found) == 2:
                found.append(reader.constant(1, kind))
            name, bounds, attributes = "for", [reader.cast(v, kind) for v in found], {}
        case _:
            raise NotReadError(ast.unparse(node.iter))
    _loop(
        reader,
        node.body,
        lambda kinds, names: _for(
            reader, node, target, name, bounds, kind, attributes, kinds, names
        ),
    )


def _for(
    reader: Reader,
    node: ast.For,
    target: str,
    name: str,
    bounds: list[Value],
    kind: Any,
    attributes: dict[str, Any],
    kinds: list[Any],
    names: list[str],
) -> list[Any]:
    body = Region((kind, *kinds))
    body.arguments[0].name = target
    outer = reader.variables
    reader.variables = {
        **outer,
        **_named(reader, names, body.arguments[1:]),
        target: body.arguments[0],
    }
    reader.into(body, lambda: reader.block(node.body))
    found = _loop_kinds(reader, names, kinds, reader.variables)
    if found == kinds:
        last = reader.variables
        reader.into(
            body, lambda: [reader.cast(last[n], k) for n, k in zip(names, kinds, strict=True)]
        )
        reader.variables = outer
        given = [reader.cast(outer[n], k) for n, k in zip(names, kinds, strict=True)]
        made = reader.add(name, [*bounds, *given], tuple(kinds), dict(attributes), [body])
        for each, result in zip(names, made.results, strict=True):
            reader.bind(each, result)
        outer.pop(target, None)
    reader.variables = outer
    return found


def _loop(
    reader: Reader, body: list[ast.stmt], read: Callable[[list[Any], list[str]], list[Any]]
) -> None:
    names = [name for name in assigned(body) if name in reader.variables]
    if any(isinstance(reader.variables[name], tuple) for name in names):
        raise NotReadError("a tuple that a loop assigns")
    kinds = [reader.variables[name].type for name in names]
    if any(not isinstance(kind, types.Number | types.Boolean) for kind in kinds):
        raise NotReadError("an array or tile that a loop assigns")
    while True:
        mark = len(reader.operations)
        found = read(kinds, names)
        if found == kinds:
            return
        del reader.operations[mark:]
        kinds = found


def _named(reader: Reader, names: list[str], values: list[Value]) -> dict[str, Value]:
    for name, value in zip(names, values, strict=True):
        value.name = name
    return dict(zip(names, values, strict=True))


def _loop_kinds(
    reader: Reader, names: list[str], kinds: list[Any], variables: dict[str, Value]
) -> list[Any]:
    return [
        reader.typing.unify(kind, variables[name].type)
        for name, kind in zip(names, kinds, strict=True)
    ]


def assigned(body: list[ast.stmt]) -> list[str]:
    """Return the names that statements assign, in their order."""
    found: dict[str, None] = {}
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found[node.id] = None
    return list(found)
