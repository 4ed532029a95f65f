"""Objects as programs see them: the card that a notebook shows, the names that are completed.

Cards are above everything they show, so this module cannot import them. It takes them by name,
and a program that shows nothing never has them.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Self, TypeVar

__all__ = ["LikeFunction", "Shown", "ShownTuple"]

T_co = TypeVar("T_co", covariant=True)


class Shown:
    """Base of what Jupyter, VS Code and IPython show as a card."""

    __slots__ = ()

    def _repr_mimebundle_(
        self, include: Container[str] | None = None, exclude: Container[str] | None = None
    ) -> dict[str, str]:
        from importlib import import_module

        bundle: dict[str, str] = import_module("kerneldsl.cards.bundle").mimebundle(
            self, include, exclude
        )
        return bundle

    def _repr_html_(self) -> Any:
        # Programs that request HTML alone, such as galleries, call this method.
        return self._repr_mimebundle_({"text/html"}).get("text/html")


class ShownTuple(Shown, tuple[T_co, ...]):
    """A tuple of things of one kind, which notebooks show as a table."""

    __slots__ = ()


class LikeFunction:
    """Base of what is in a function's place, for what looks at programs.

    ``inspect.isroutine`` takes what has ``__get__`` for a routine; by it autodoc, ``help`` and
    doctest find functions in modules and classes.
    """

    __slots__ = ()

    def __get__(self, instance: object, owner: type | None = None) -> Self:
        """Return itself: in a class, too, it is no method of an instance."""
        return self
