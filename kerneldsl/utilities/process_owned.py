"""Singletons of a process: a copy is the object itself, and they cannot be pickled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, NoReturn, Self, SupportsIndex

from kerneldsl.errors import ArgumentTypeError
from kerneldsl.errors.values import a_type

__all__ = ["CopiedAsItself", "ProcessOwned", "public_names"]


class CopiedAsItself:
    """Base of what a copy is the same of, also within a structure that is copied deeply."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class ProcessOwned(CopiedAsItself):
    """Base of what stands for something of a device or of this process.

    A second object for the same thing could use it after the first one has closed it.
    """

    __slots__ = ()

    #: Object to send to another process instead; begins with a verb.
    _send_instead: ClassVar[str] = "Make another one there"
    #: Names without an underscore that kerneldsl alone uses.
    _internal: ClassVar[frozenset[str]] = frozenset()

    def __dir__(self) -> list[str]:
        return public_names(super().__dir__(), self._internal)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise ArgumentTypeError(
            f"{a_type(self)} cannot be pickled",
            value=self,
            limit="It belongs to this process",
            remedy=self._send_instead,
        )


def public_names(names: Iterable[str], internal: Iterable[str] = ()) -> list[str]:
    """Return names for ``__dir__``: those with two underscores, and public ones but the internal.

    Examples
    --------
    >>> public_names(["__len__", "_block", "shape", "seal"], internal=["seal"])
    ['__len__', 'shape']
    """
    hidden = set(internal)
    return sorted(
        name
        for name in set(names)
        if name not in hidden and (not name.startswith("_") or name.startswith("__"))
    )
