"""Members of named tuples, while a kernel is read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kerneldsl.ir.refusals import Refusal, attribute_refusal

__all__ = ["NamedMembers", "class_of", "like"]


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
