"""Readers of captured values at a later launch: from globals, a closure, or an attribute.

Readers are objects and not functions, so that a native launcher can see what they would do, and
look at the same place without calling them.
"""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable
from typing import Any

__all__ = [
    "AttributeReader",
    "CellReader",
    "GlobalReader",
    "ItemReader",
    "Reader",
    "steady_reader",
]


class Reader:
    """Reads a value; raises ``NameError`` if it has been deleted."""

    __slots__ = ()

    def __call__(self) -> Any:
        """Read the value as it is now."""
        raise NotImplementedError


class GlobalReader(Reader):
    """Reads a name of a module, or the builtin that it does not hide.

    Parameters
    ----------
    namespace : dict
        The module's globals.
    name : str
        The name.
    """

    __slots__ = ("name", "namespace")

    def __init__(self, namespace: dict[str, Any], name: str) -> None:
        self.namespace = namespace
        self.name = name

    def __call__(self) -> Any:
        """Read the global, else the builtin."""
        for names in (self.namespace, vars(builtins)):
            if self.name in names:
                return names[self.name]
        raise NameError(f"the captured name {self.name!r} has been deleted")


class CellReader(Reader):
    """Reads a variable of an enclosing function.

    Parameters
    ----------
    cell : cell
        Of the closure.
    name : str
        Its name there.
    """

    __slots__ = ("cell", "name")

    def __init__(self, cell: types.CellType, name: str) -> None:
        self.cell = cell
        self.name = name

    def __call__(self) -> Any:
        """Read the cell."""
        try:
            return self.cell.cell_contents
        except ValueError:
            raise NameError(f"the captured name {self.name!r} has been deleted") from None


class AttributeReader(Reader):
    """Reads an attribute of what another reader reads.

    Parameters
    ----------
    owner : callable
        Reads the owner.
    attribute : str
        The attribute's name.
    """

    __slots__ = ("attribute", "owner")

    def __init__(self, owner: Callable[[], Any], attribute: str) -> None:
        self.owner = owner
        self.attribute = attribute

    def __call__(self) -> Any:
        """Read the owner, then its attribute."""
        owner = self.owner()
        try:
            return getattr(owner, self.attribute)
        except AttributeError:
            raise NameError(f"the captured attribute {self.attribute!r} has been deleted") from None


class ItemReader(Reader):
    """Reads an item of a tuple that another reader reads.

    Parameters
    ----------
    owner : callable
        Reads the tuple.
    index : int
        The item's place, from 0 on.
    """

    __slots__ = ("index", "owner")

    def __init__(self, owner: Callable[[], Any], index: int) -> None:
        self.owner = owner
        self.index = index

    def __call__(self) -> Any:
        """Read the tuple, then its item."""
        owner = self.owner()
        if not isinstance(owner, tuple) or len(owner) <= self.index:
            raise NameError(f"the captured tuple has no item {self.index} any more")
        return owner[self.index]


def steady_reader(read: Callable[[], Any]) -> Callable[[], Any]:
    """Return the innermost reader of a chain that reads the same object twice.

    An attribute that is rebuilt at each look, such as a bound method, cannot be compared by
    identity; its owner can.
    """
    while isinstance(read, AttributeReader) and read() is not read():
        read = read.owner
    return read
