"""Places of operations in the source, and the text that is shown of them."""

from __future__ import annotations

from typing import Any

from kerneldsl.errors import SourceLocation
from kerneldsl.frontend.parts import Part
from kerneldsl.frontend.user_places import is_own
from kerneldsl.ir.operations import Operation, SourcePlace
from kerneldsl.utilities.cached_property import cached_property

__all__ = ["Site", "site_of"]


class Site:
    """Place in the source that an operation was read from.

    Operations of one node are at one site: those of a function that is called at several places.
    """

    def __init__(self, source: Part, place: SourcePlace) -> None:
        self.source = source
        self._place = place
        self.node: Any = source.node
        #: The normal form of the function.
        self.unit = source.unit

    @cached_property
    def where(self) -> SourceLocation:
        """The place, or that of the call by which a user comes to it."""
        each = self._place
        while each.caller is not None:
            if is_own(each.unit) and not is_own(each.caller.unit):
                found: SourceLocation = each.caller.call.where
                return found
            each = each.caller
        return self._shown.where

    @property
    def is_shown(self) -> bool:
        """False in our files if a user's call leads to it."""
        return bool(self.where == self._shown.where)

    @cached_property
    def text(self) -> str:
        """The text in the normal form."""
        return self._shown.printed

    @property
    def _shown(self) -> Part:
        """The expression or statement, of a branch its condition, of a loop what it is over."""
        return self.source.shown if self.source.is_control else self.source


def site_of(operation: Operation, source: Part | None = None) -> Site:
    """Return what an operation, or a part of it, was read from."""
    return Site(source or operation.source, operation.place)
