"""Expressions that are no values while a kernel is read: tuples, and those read later.

A tuple is known by its members. It is a value where Numba takes one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from numba import types

from kerneldsl.ir.operations import Effect, Operation, Value
from kerneldsl.ir.refusals import Refusal, attribute_refusal
from kerneldsl.lowering.types import NumbaTile
from kerneldsl.utilities.dataclasses import dataclass

if TYPE_CHECKING:
    from kerneldsl.ir.frontend.reader import Reader

__all__ = [
    "MISSING",
    "Lazy",
    "NamedMembers",
    "TileExpression",
    "class_of",
    "is_tile",
    "is_typed",
    "leaves",
    "like",
    "packed",
    "record_of",
    "settled",
    "type_of",
    "unpacked",
]


class NamedMembers(tuple[Any, ...]):
    """The members of a named tuple, with its class."""

    named: type

    def __new__(cls, members: Iterable[Any], named: type) -> NamedMembers:
        """Return the members of a tuple of a class."""
        made = super().__new__(cls, members)
        made.named = named
        return made

    @classmethod
    def called(
        cls, named: Any, arguments: list[Any], keywords: dict[str, Any], default: Any
    ) -> NamedMembers:
        """Return what a call of a class makes; `default` reads a default value."""
        names = named._fields
        given = {**dict(zip(names, arguments, strict=False)), **keywords}
        defaults = named._field_defaults
        missing = [name for name in names if name not in given and name not in defaults]
        is_named_twice = len(given) < len(arguments) + len(keywords)
        if missing or is_named_twice or set(given) - set(names):
            raise Refusal(f"{named.__name__} takes {', '.join(names)}", "Give each of them once")
        return cls((given[n] if n in given else default(defaults[n]) for n in names), named)

    def member(self, name: str) -> Any:
        names: tuple[str, ...] = self.named._fields  # type: ignore[attr-defined]
        if name not in names:
            raise attribute_refusal(self.named.__name__, name)
        return self[names.index(name)]


def class_of(function: Any) -> Any:
    """Return a class of named tuples; ``None`` for any other object."""
    is_class = isinstance(function, type) and issubclass(function, tuple)
    return function if is_class and hasattr(function, "_fields") else None


def like(value: Any, members: Iterable[Any]) -> Any:
    """Return members as a tuple of the class of another one."""
    return NamedMembers(members, value.named) if isinstance(value, NamedMembers) else tuple(members)


@dataclass(frozen=True, eq=False)
class TileExpression:
    """An expression of tiles. It is computed when it is used."""

    node: ast.expr
    shape: tuple[int, ...]
    #: Reads an element.
    element: Callable[[], Any]
    #: The tile, if it is one with its axes exchanged.
    exchanged: Value | None = None


def is_tile(found: Any) -> bool:
    """Return whether what was read is a tile, computed or not."""
    return isinstance(found, TileExpression) or (
        isinstance(found, Value) and isinstance(found.type, NumbaTile)
    )


#: Value of a variable on a path that does not assign it.
MISSING: Any = object()


class Lazy:
    """A variable that is determined when it is first read."""

    def __init__(self, find: Callable[[], Any]) -> None:
        self._find: Callable[[], Any] | None = find
        self._found: Any = None

    def get(self) -> Any:
        if self._find is not None:
            self._found = self._find()
            self._find = None
        return self._found

    @property
    def seen(self) -> Any:
        """The value that was found; ``None`` if the variable was not read yet."""
        return self._found.seen if isinstance(self._found, Lazy) else self._found


def settled(value: Any) -> Any:
    """Return a value that is not lazy."""
    while isinstance(value, Lazy):
        value = value.get()
    return value


def is_typed(found: Any) -> bool:
    """Return whether the type of a value, and of each member of a tuple, is known."""
    return not any(isinstance(each, Value) and each.type is None for each in leaves(found))


def leaves(found: Any) -> list[Any]:
    """Return a value, or the members of a tuple that are no tuples."""
    if isinstance(found, tuple):
        return [value for each in found for value in leaves(each)]
    return [found]


def packed(reader: Reader, found: Any) -> Value:
    """Return a value, or a tuple as one."""
    if isinstance(found, Value):
        return found
    members = [packed(reader, each) for each in found]
    return reader.add("tuple.make", members, (type_of(found),)).result


def record_of(reader: Reader, found: Value) -> Value:
    """Return the record in an array that has no axes, or else what was found.

    A record that a kernel writes is passed as such an array.
    """
    kind = found.type
    if not (isinstance(kind, types.Array) and isinstance(kind.dtype, types.Record)) or kind.ndim:
        return found
    return reader.add("array.load", [found], (kind.dtype,), effect=Effect.READ).result


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
