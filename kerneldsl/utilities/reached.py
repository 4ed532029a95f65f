"""Walk a graph: what is reached from some places, each once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

__all__ = ["reached"]

T = TypeVar("T", bound=Hashable)


def reached(starts: Iterable[T], following: Callable[[T], Iterable[T]]) -> list[T]:
    """Return places and all that follow them, in the order in which they are found.

    Examples
    --------
    >>> reached([6], lambda n: (d for d in range(1, n) if n % d == 0))
    [6, 1, 2, 3]
    """
    found = dict.fromkeys(starts)
    pending = list(found)
    while pending:
        for each in following(pending.pop()):
            if each not in found:
                found[each] = None
                pending.append(each)
    return list(found)
