"""Variables that are no values while a kernel is read: named tuples, and those read later."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kerneldsl.ir.refusals import Refusal, attribute_refusal

__all__ = ["MISSING", "Lazy", "NamedMembers", "class_of", "like", "settled"]


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
        """Return a member by its name."""
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


#: Value of a variable on a path that does not assign it.
MISSING: Any = object()


class Lazy:
    """A variable that is determined when it is first read."""

    def __init__(self, find: Callable[[], Any]) -> None:
        self._find: Callable[[], Any] | None = find
        self._found: Any = None

    def get(self) -> Any:
        """Return the variable's value."""
        if self._find is not None:
            self._found = self._find()
            self._find = None
        return self._found


def settled(value: Any) -> Any:
    """Return a value that is not lazy."""
    while isinstance(value, Lazy):
        value = value.get()
    return value
