"""Attributes that are computed once, in a process that forks while another thread computes one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

__all__ = ["cached_property"]

_T = TypeVar("_T")

if sys.version_info >= (3, 12):
    from functools import cached_property  # noqa: TID251 -- it has no lock any more
else:

    class cached_property(Generic[_T]):
        """Compute an attribute once, as :class:`functools.cached_property` does, without a lock.

        That of Python 3.11 has a lock for all instances while one is computed, which a child that
        is forked meanwhile finds taken permanently. Here two threads may both compute the value;
        the first one's stays.
        """

        def __init__(self, function: Callable[[Any], _T]) -> None:
            self._function = function
            self._name = function.__name__
            self.__doc__ = function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        @overload
        def __get__(self, instance: None, owner: type) -> cached_property[_T]: ...
        @overload
        def __get__(self, instance: object, owner: type | None = None) -> _T: ...
        def __get__(
            self, instance: object | None, owner: type | None = None
        ) -> cached_property[_T] | _T:
            """Return the value, computed where the instance does not have it yet."""
            if instance is None:
                return self
            value: _T = instance.__dict__.setdefault(self._name, self._function(instance))
            return value
