"""Attributes of values and of outside objects."""

from __future__ import annotations

import ast
from typing import Any

from numba import types

from kerneldsl.ir.frontend.members import NamedMembers, record_of, type_of, unpacked
from kerneldsl.ir.frontend.reader import Reader, reads
from kerneldsl.ir.operations import Effect, Value
from kerneldsl.ir.refusals import attribute_refusal
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.lowering.numba_internals.overloads import is_of_program, member_template
from kerneldsl.lowering.types import PackedView

__all__ = ["attribute"]

_INT64 = types.int64


@reads(ast.Attribute)
def read_attribute(reader: Reader, node: ast.Attribute) -> Any:
    outside = reader.outside(node)
    if outside is not None:
        return reader.constant(outside)
    return attribute(reader, reader.value(node.value), node.attr, node)


def attribute(reader: Reader, owner: Any, name: str, node: ast.expr | None = None) -> Any:
    if isinstance(owner, NamedMembers):
        return owner.member(name)
    if isinstance(owner, tuple):
        raise attribute_refusal(type_of(owner), name)
    kind = owner.type
    if isinstance(kind, types.Array) and name in getattr(kind.dtype, "fields", ()):
        owner = record_of(reader, owner)
        kind = owner.type
    if isinstance(kind, types.Array) and name in _OF_ARRAYS:
        return _OF_ARRAYS[name](reader, owner)
    if isinstance(kind, PackedView) and name in ("shape", "size", "ndim"):
        return _OF_ARRAYS[name](reader, owner)
    if isinstance(kind, types.DType) and name == "itemsize":
        dtype = kind.dtype
        size = dtype.size if isinstance(dtype, types.Record) else ELEMENT_TYPES[str(dtype)].nbytes
        return reader.constant(size)
    overload = member_template(kind, name)
    if overload is not None and node is not None:
        return _overloaded(reader, owner, node, *overload)
    found = reader.typing.context.resolve_getattr(kind, name)
    if found is None:
        raise attribute_refusal(kind, name)
    if isinstance(found, types.BoundFunction):
        return reader.add("bound", [owner], (found,)).result
    may_read = isinstance(kind, types.Record) or is_of_program(type(kind))
    effect = Effect.READ if may_read else Effect.NONE
    made = reader.add("attribute", [owner], (found,), {"attribute": name}, effect=effect)
    return unpacked(reader, made.result)


def _overloaded(
    reader: Reader, owner: Value, node: ast.expr, template: Any, is_method: bool
) -> Any:
    """Return an attribute or method that a program has added to a type."""
    if is_method:
        kind = types.BoundFunction(template, owner.type)
        return reader.add("bound", [owner], (kind,), {"overload": template}).result
    from kerneldsl.ir.frontend.overloads import call_overload  # few programs have overloads

    return call_overload(reader, node, ast.unparse(node), [template], [owner], {})


def _size(reader: Reader, array: Value) -> Value:
    return reader.add("array.size", [array], (_INT64,)).result


def _of_axes(reader: Reader, array: Value, name: str) -> tuple[Value, ...]:
    return tuple(
        reader.add(name, [array], (_INT64,), {"axis": axis}).result
        for axis in range(array.type.ndim)
    )


def _transposed(reader: Reader, array: Value) -> Value:
    if array.type.ndim < 2:
        return array
    kind = reader.typing.context.resolve_getattr(array.type, "T")
    return reader.add("array.transpose", [array], (kind,)).result


_OF_ARRAYS = {
    "size": _size,
    "shape": lambda reader, array: _of_axes(reader, array, "array.extent"),
    "strides": lambda reader, array: _of_axes(reader, array, "array.stride"),
    "ndim": lambda reader, array: reader.constant(array.type.ndim, _INT64),
    "T": _transposed,
}
