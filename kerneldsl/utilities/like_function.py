"""Objects that are in a function's place, as tools for documentation see them."""

from __future__ import annotations

from typing import Self

__all__ = ["LikeFunction"]


class LikeFunction:
    """Base of what is in a function's place, for what looks at programs.

    ``inspect.isroutine`` takes what has ``__get__`` for a routine; by it autodoc, ``help`` and
    doctest find functions in modules and classes.
    """

    __slots__ = ()

    def __get__(self, instance: object, owner: type | None = None) -> Self:
        """Return itself: in a class, too, it is no method of an instance."""
        return self
