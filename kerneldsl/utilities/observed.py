"""Methods that a profile records: marked in their class, wrapped while a profiler observes them.

A class with observed methods derives from `Observable`, and its methods are marked with
`observed`. Overriding methods of subclasses, of any target, count as marked. Without an
observer, the methods are the plain functions they were written as, so that nothing is slower. An
observer has each of them replaced by a function that it makes, in classes made meanwhile too.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeAlias, TypeVar

from kerneldsl.utilities.locks import ForkSafeLock

__all__ = ["Observable", "Observer", "observe", "observed", "stop_observing"]

F = TypeVar("F", bound=Callable[..., Any])
#: Makes the replacement of a method from the kind in its mark and the method.
Observer: TypeAlias = Callable[[str, FunctionType], Callable[..., Any]]

_lock = ForkSafeLock()
#: Every observable class; targets' classes live as long as the process.
_classes: list[type] = []
_observer: Observer | None = None
#: Replaced methods: the class, the name, and the original function.
_replaced: list[tuple[type, str, FunctionType]] = []


class Observable:
    """Base of classes with methods that are marked."""

    __slots__ = ()

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        with _lock:
            _classes.append(cls)
            if _observer is not None:
                _replace(cls, _observer)


def observed(kind: str) -> Callable[[F], F]:
    """Mark a method of an observable class, and what overrides it; a decorator.

    Parameters
    ----------
    kind : str
        The kind of the method, for observers.
    """

    def mark(method: F) -> F:
        method.observed_kind = kind  # type: ignore[attr-defined]
        return method

    return mark


def observe(observer: Observer) -> None:
    """Let an observer's functions take the place of the marked methods; there is one at a time."""
    global _observer  # noqa: PLW0603 -- one for the process
    with _lock:
        assert _observer is None
        _observer = observer
        for each in _classes:
            _replace(each, observer)


def stop_observing() -> None:
    """Put the methods back as they were written."""
    global _observer  # noqa: PLW0603 -- one for the process
    with _lock:
        _observer = None
        while _replaced:
            owner, name, method = _replaced.pop()
            setattr(owner, name, method)


def _replace(owner: type, observer: Observer) -> None:
    kinds = {
        name: kind
        for base in reversed(owner.__mro__)
        for name, value in vars(base).items()
        if (kind := getattr(value, "observed_kind", None)) is not None
    }
    for name, kind in kinds.items():
        method = vars(owner).get(name)
        if isinstance(method, FunctionType) and not getattr(method, "__isabstractmethod__", False):
            instead = observer(kind, method)
            instead.observed_kind = kind  # type: ignore[attr-defined]
            _replaced.append((owner, name, method))
            setattr(owner, name, instead)
