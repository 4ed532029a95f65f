"""Elements, parts and attributes of arrays."""

from __future__ import annotations

import ast
from typing import Any

from numba import types

from kerneldsl.analysis.library_names import outside_value
from kerneldsl.ir.frontend.reader import NotReadError, Reader, constant_of, reads
from kerneldsl.ir.operations import Effect, Value

__all__ = ["indexed", "load", "store"]


@reads(ast.Attribute)
def read_attribute(reader: Reader, node: ast.Attribute) -> Any:
    return attribute(reader, node, node.value, node.attr)


@reads(ast.Subscript)
def read_subscript(reader: Reader, node: ast.Subscript) -> Any:
    found = reader.value(node.value)
    if isinstance(found, tuple):
        index = constant_of(reader.number(node.slice))
        if type(index) is not int:
            raise NotReadError("an index of a tuple")
        return found[index]
    array, indices = indexed(reader, node)
    return load(reader, array, indices)


def attribute(reader: Reader, node: ast.Attribute, inner: ast.expr, attribute: str) -> Any:
    if isinstance(inner, ast.Name) and isinstance(reader.variables.get(inner.id), Value):
        array = reader.variables[inner.id]
        if attribute == "size" and isinstance(array.type, types.Array):
            return reader.add("array.size", [array], (types.int64,)).result
        if attribute == "shape" and isinstance(array.type, types.Array):
            return tuple(
                reader.add("array.extent", [array], (types.int64,), {"axis": axis}).result
                for axis in range(array.type.ndim)
            )
        if attribute == "ndim" and isinstance(array.type, types.Array):
            return reader.constant(array.type.ndim, types.int64)
    value = outside_value(node, reader.unit.namespace)
    if isinstance(value, int | float):
        return reader.constant(value)
    raise NotReadError(ast.unparse(node))


def indexed(reader: Reader, node: ast.Subscript) -> tuple[Value, list[Value]]:
    array = reader.number(node.value)
    if not isinstance(array.type, types.Array) or array.type.layout != "C":
        raise NotReadError(f"{ast.unparse(node)}: {array.type}")
    if any(isinstance(each, ast.Slice) for each in ast.walk(node.slice)):
        raise NotReadError("a slice")
    found = reader.value(node.slice)
    indices = list(found) if isinstance(found, tuple) else [found]
    if not all(isinstance(v.type, types.Integer) for v in indices):
        raise NotReadError(f"{ast.unparse(node)}: an index that is no integer")
    return array, [reader.cast(v, types.int64) if v.type.bitwidth < 64 else v for v in indices]


def load(reader: Reader, array: Value, indices: list[Value]) -> Value:
    missing = array.type.ndim - len(indices)
    if missing:
        part = types.Array(array.type.dtype, missing, "C", readonly=not array.type.mutable)
        return reader.add("array.part", [array, *indices], (part,)).result
    return reader.add(
        "array.load", [array, *indices], (array.type.dtype,), effect=Effect.READ
    ).result


def store(reader: Reader, array: Value, indices: list[Value], value: Value) -> None:
    if array.type.ndim != len(indices):
        raise NotReadError("a store of a row")
    value = reader.cast(value, array.type.dtype)
    reader.add("array.store", [array, *indices, value], effect=Effect.WRITE)
