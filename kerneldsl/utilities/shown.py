"""Values that notebooks show as cards: a base that finds the card of one when it is shown.

Cards are above everything they show, so this module cannot import them. It takes them by name,
and a program that shows nothing never has them.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, TypeVar

__all__ = ["Shown", "ShownTuple"]

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
        # For programs that request HTML alone, such as galleries.
        return self._repr_mimebundle_({"text/html"}).get("text/html")


class ShownTuple(Shown, tuple[T_co, ...]):
    """A tuple of things of one kind, which notebooks show as a table."""

    __slots__ = ()
