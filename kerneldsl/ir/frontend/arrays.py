"""Elements, parts and views of arrays, fields of records, members of tuples."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from numba import types

from kerneldsl.ir.frontend.faults import read_index
from kerneldsl.ir.frontend.members import packed, record_of, unpacked
from kerneldsl.ir.frontend.reader import NotReadError, Reader, constant_of, reads
from kerneldsl.ir.operations import Effect, Value
from kerneldsl.ir.refusals import (
    Refusal,
    attribute_refusal,
    field_refusal,
    index_refusal,
    store_refusal,
    tuple_index_refusal,
)
from kerneldsl.lowering.types import PackedView

__all__ = ["Place", "load", "packed_number", "place_of", "store_text"]

_Indices = list[Value]


class Place(NamedTuple):
    """The target of a subscript or an attribute, with functions that read and write it."""

    load: Callable[[], Any]
    store: Callable[[Any], None]


@reads(ast.Subscript)
def read_subscript(reader: Reader, node: ast.Subscript) -> Any:
    return subscript(reader, node).load()


@reads(ast.Slice)
def read_slice(reader: Reader, node: ast.Slice) -> Value:
    parts = [node.lower, node.upper, *([node.step] if node.step else [])]
    values = [reader.constant(None) if part is None else reader.number(part) for part in parts]
    function = reader.typing.function(slice)
    signature = reader.typing.call(function, tuple(v.type for v in values))
    attributes = {"function": function, "signature": signature}
    return reader.add("numba", values, (signature.return_type,), attributes).result


def place_of(reader: Reader, node: ast.expr) -> Place:
    """Return what a target names; its parts are computed once."""
    match node:
        case ast.Subscript():
            found = subscript(reader, node)
        case _:
            raise NotReadError(ast.unparse(node))
    return Place(*(partial(reader.at, node, act) for act in found))


def subscript(reader: Reader, node: ast.Subscript) -> Place:
    owner = reader.value(node.value)
    if isinstance(owner, tuple) and isinstance(node.slice, ast.Slice):
        return Place(partial(_members, reader, owner, node.slice), _refuse_store)
    if reader.faults is None:
        index = reader.value(node.slice)
    else:
        index = read_index(reader, node, node.value, owner, node.slice)
    if isinstance(owner, tuple):
        return Place(lambda: _member(reader, owner, index), _refuse_store)
    name = constant_of(index) if isinstance(index, Value) else None
    if type(name) is int and isinstance(owner.type, types.Record):  # as the items of a tuple
        names = tuple(owner.type.fields)
        if not -len(names) <= name < len(names):
            raise tuple_index_refusal()
        name = names[name]
    if isinstance(name, str):
        owner = record_of(reader, owner)
        if isinstance(node.ctx, ast.Store) and not isinstance(owner.type, types.Record):
            raise field_refusal(owner.type, name)
        return Place(
            lambda: _item(reader, owner, name), lambda value: _set_item(reader, owner, name, value)
        )
    indices = list(index) if isinstance(index, tuple) else [index]
    are_values = all(isinstance(each, Value) for each in indices)
    if are_values and isinstance(owner.type, types.Array):
        return Place(
            lambda: load(reader, owner, indices),
            lambda value: store(reader, owner, indices, packed(reader, value)),
        )
    if are_values and isinstance(owner.type, PackedView) and _are_integers(indices):
        return Place(
            lambda: packed_number(reader, owner, indices),
            lambda value: _set_by_numba(
                reader, owner, packed(reader, index), packed(reader, value)
            ),
        )
    return Place(
        lambda: unpacked(reader, reader.numba(operator.getitem, [owner, packed(reader, index)])),
        lambda value: _set_by_numba(reader, owner, packed(reader, index), packed(reader, value)),
    )


# -- tuples and records ---------------------------------------------------------------------------


def _member(reader: Reader, owner: tuple[Any, ...], index: Any) -> Any:
    number = constant_of(index) if isinstance(index, Value) else None
    if type(number) is int:
        if not -len(owner) <= number < len(owner):
            raise tuple_index_refusal()
        return owner[number]
    whole = packed(reader, owner)
    return unpacked(reader, reader.numba(operator.getitem, [whole, packed(reader, index)]))


def _members(reader: Reader, owner: tuple[Any, ...], node: ast.Slice) -> tuple[Any, ...]:
    parts = []
    for part in (node.lower, node.upper, node.step):
        value = None if part is None else constant_of(reader.number(part))
        if part is not None and type(value) is not int:
            raise Refusal("a slice of a tuple is not constant", "Give it constant bounds")
        parts.append(value)
    return tuple(owner[slice(*parts)])


def _refuse_store(value: Any) -> None:
    raise Refusal("a member of a tuple is assigned", "Make a new tuple of its members")


def _item(reader: Reader, owner: Value, name: str) -> Any:
    """Return a field by its name in brackets."""
    signature = reader.typing.context.resolve_static_getitem(owner.type, name)
    if signature is None:
        raise index_refusal(owner.type, types.unicode_type) or attribute_refusal(owner.type, name)
    kinds = (signature.return_type,)
    # Implementations are registered for the value of a literal.
    literal = kinds[0](owner.type, types.literal(name))
    attributes = {"index": name, "signature": literal}
    made = reader.add("item", [owner], kinds, attributes, effect=Effect.READ)
    return unpacked(reader, made.result)


def _set_item(reader: Reader, owner: Value, name: str, value: Any) -> None:
    given = packed(reader, value)
    signature = reader.typing.context.resolve_static_setitem(owner.type, name, given.type)
    if signature is None:
        raise store_refusal(owner.type, types.unicode_type, given.type)
    attributes = {"index": name, "signature": signature}
    reader.add("item.set", [owner, given], (), attributes, effect=Effect.WRITE)


# -- arrays ---------------------------------------------------------------------------------------


def load(reader: Reader, array: Value, indices: _Indices) -> Any:
    """Return an element, a part or a view."""
    kind = array.type
    if len(indices) == kind.ndim and _are_integers(indices):
        operands = [array, *_widened(reader, indices)]
        return reader.add("array.load", operands, (kind.dtype,), effect=Effect.READ).result
    index = tuple(each.type for each in indices)
    whole = index[0] if len(index) == 1 else types.BaseTuple.from_types(index)
    found = reader.typing.operator(operator.getitem, (kind, whole)).return_type
    if _are_integers(indices):
        if not isinstance(found, types.Array):  # an array without axes, by an empty tuple
            return reader.add("array.load", [array], (found,), effect=Effect.READ).result
        return reader.add("array.part", [array, *_widened(reader, indices)], (found,)).result
    if not all(isinstance(each, _OF_VIEWS) for each in index):
        return unpacked(
            reader, reader.numba(operator.getitem, [array, packed(reader, (*indices,))])
        )
    made = reader.add("array.view", [array, *indices], (found,), {"kinds": _index_kinds(index)})
    return made.result


def store(reader: Reader, array: Value, indices: _Indices, value: Value) -> None:
    """Store an element, or the elements of a part."""
    kind = array.type
    if isinstance(kind.dtype, types.Record):
        value = record_of(reader, value)
    is_element = len(indices) == kind.ndim and _are_integers(indices)
    if is_element and kind.mutable and not isinstance(value.type, types.Array):
        context = reader.typing.context
        if value.type == kind.dtype or context.can_convert(value.type, kind.dtype) is not None:
            operands = [array, *_widened(reader, indices), reader.cast(value, kind.dtype)]
            reader.add("array.store", operands, effect=Effect.WRITE)
            return
    index = indices[0] if len(indices) == 1 else packed(reader, (*indices,))
    _set_by_numba(reader, array, index, value)


def store_text(reader: Reader, place: Any, text: str | bytes) -> None:
    """Store the numbers of the characters of a constant, and then zeros, as NumPy does.

    - `place`: the array of a record that holds them, or a record of that alone.
    """
    kind = place.type if isinstance(place, Value) else None
    if isinstance(kind, types.Record) and len(kind.fields) == 1:
        place = _item(reader, place, next(iter(kind.fields)))
    kind = place.type if isinstance(place, Value) else None
    dtype = types.uint32 if isinstance(text, str) else types.uint8
    if not isinstance(kind, types.NestedArray) or kind.ndim != 1 or kind.dtype != dtype:
        found = "a value of another type" if kind is None else f"a value of type {kind}"
        raise Refusal(
            f"the text {text!r} is assigned to {found}",
            "Assign a str to an element of an array of dtype U, and bytes to one of dtype S",
        )
    (length,) = kind.shape
    numbers = list(map(ord, text)) if isinstance(text, str) else list(text)
    for position in range(length):
        number = numbers[position] if position < len(numbers) else 0
        store(reader, place, [reader.constant(position)], reader.constant(number, dtype))


def packed_number(reader: Reader, view: Value, indices: _Indices) -> Value:
    """Read a number of a view of packed numbers, by an integer for each axis."""
    index = indices[0] if len(indices) == 1 else packed(reader, (*indices,))
    found = reader.typing.operator(operator.getitem, (view.type, index.type)).return_type
    return reader.add("packed.load", [view, *indices], (found,), effect=Effect.READ).result


def _set_by_numba(reader: Reader, owner: Value, index: Value, value: Value) -> None:
    operands = [owner, index, value]
    signature = reader.typing.operator(operator.setitem, tuple(each.type for each in operands))
    attributes = {"function": operator.setitem, "signature": signature}
    reader.add("numba", operands, (), attributes, effect=Effect.READ | Effect.WRITE)


_OF_VIEWS = (types.Integer, types.SliceType, types.NoneType, types.EllipsisType)


def _are_integers(indices: _Indices) -> bool:
    return all(isinstance(each.type, types.Integer) for each in indices)


def _widened(reader: Reader, indices: _Indices) -> _Indices:
    return [reader.cast(each, types.int64) if each.type.bitwidth < 64 else each for each in indices]


def _index_kinds(kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the types in which a view takes an index."""
    return tuple(
        (types.int64 if kind.signed else types.uint64) if isinstance(kind, types.Integer) else kind
        for kind in kinds
    )
