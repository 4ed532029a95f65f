"""Tuples: known by their members while a kernel is read, and values where Numba takes one."""

from __future__ import annotations

from typing import Any

from numba import types

from kerneldsl.ir.frontend.members import NamedMembers
from kerneldsl.ir.frontend.reader import Reader
from kerneldsl.ir.operations import Operation, Value

__all__ = ["packed", "unpacked"]


def packed(reader: Reader, found: Any) -> Value:
    """Return a value, or a tuple as one."""
    if isinstance(found, Value):
        return found
    members = [packed(reader, each) for each in found]
    named = found.named if isinstance(found, NamedMembers) else None
    kind = types.BaseTuple.from_types([member.type for member in members], named)
    return reader.add("tuple.make", members, (kind,)).result


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
