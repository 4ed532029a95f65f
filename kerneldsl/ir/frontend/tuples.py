"""Tuples: known by their members while a kernel is read, and values where Numba takes one."""

from __future__ import annotations

from typing import Any

from numba import types

from kerneldsl.ir.frontend.members import NamedMembers
from kerneldsl.ir.frontend.reader import Reader
from kerneldsl.ir.operations import Operation, Value

__all__ = ["packed", "type_of", "unpacked"]


def packed(reader: Reader, found: Any) -> Value:
    """Return a value, or a tuple as one."""
    if isinstance(found, Value):
        return found
    members = [packed(reader, each) for each in found]
    return reader.add("tuple.make", members, (type_of(found),)).result


def type_of(found: Any) -> Any:
    """Return the type of a value, or of a tuple as one."""
    if isinstance(found, Value):
        return found.type
    named = found.named if isinstance(found, NamedMembers) else None
    return types.BaseTuple.from_types([type_of(each) for each in found], named)


def unpacked(reader: Reader, value: Value) -> Any:
    """Return a value, or the members of one that is a tuple."""
    if not isinstance(value.type, types.BaseTuple):
        return value
    made = value.owner
    if isinstance(made, Operation) and made.name == "tuple.make":
        parts = made.operands
    else:
        parts = [
            reader.add("tuple.member", [value], (kind,), {"number": number}).result
            for number, kind in enumerate(value.type.types)
        ]
    members = tuple(unpacked(reader, each) for each in parts)
    named = getattr(value.type, "instance_class", None)
    return members if named is None else NamedMembers(members, named)
