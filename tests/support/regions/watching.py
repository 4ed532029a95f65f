"""What analyses say of a function, compared with the values of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numba import types

from kerneldsl.ir.operations import Function, Operation, Value
from kerneldsl.ir.ranges import Interval
from kerneldsl.ir.uniformity import uniformity_of
from kerneldsl.language.intrinsics.intrinsic import Scope
from tests.support.regions.numbers import is_number
from tests.support.simt import Thread
from tests.support.warps import WARP_SIZE

__all__ = ["AnalysisWatch", "WrongAnalysisError", "watch_of"]


class WrongAnalysisError(Exception):
    """An analysis says what is not true in a run."""


class AnalysisWatch:
    """Compares intervals and uniformity with what values are.

    A value that is uniform for a group is the same in all threads of the group that assign it in
    the same turns of the loops around it.

    Parameters
    ----------
    intervals : mapping
        Of integers.
    scopes : mapping
        The largest group of threads for which each value is the same.
    """

    def __init__(
        self, intervals: Mapping[Value, Interval], scopes: Mapping[Value, Scope] | None = None
    ) -> None:
        self._intervals = intervals
        self._scopes = scopes or {}
        self._seen: dict[tuple[Any, ...], bytes] = {}
        #: How many values were compared.
        self.compared = 0

    def begin(self) -> None:
        """Forget the values of other launches."""
        self._seen.clear()

    def check(
        self, value: Value, *, is_of_thread: bool = True
    ) -> Callable[[Any, Thread], None] | None:
        """Return what checks a value each time that it is assigned, ``None`` if nothing is said."""
        scoped = self._of_scope(value) if is_of_thread else None
        checks = [each for each in (self._of_interval(value), scoped) if each is not None]
        if not checks:
            return None

        def check(number: Any, thread: Thread) -> None:
            for each in checks:
                self.compared += 1
                each(number, thread)

        return check

    def _of_interval(self, value: Value) -> Callable[[Any, Thread], None] | None:
        found = self._intervals.get(value)
        if found is None or not isinstance(value.type, types.Integer):
            return None
        low, high = found
        if low <= value.type.minval and high >= value.type.maxval:
            return None

        def check(number: Any, thread: Thread) -> None:
            if not low <= number <= high:
                raise WrongAnalysisError(f"{_named(value)} is {number}, not in {found}")

        return check

    def _of_scope(self, value: Value) -> Callable[[Any, Thread], None] | None:
        scope = self._scopes.get(value, Scope.THREAD)
        if scope is Scope.THREAD or not is_number(value.type):
            return None

        def check(number: Any, thread: Thread) -> None:
            group = thread.linear // WARP_SIZE if scope is Scope.WARP else 0
            block = None if scope is Scope.GRID else thread.blockIdx
            key = value, block, group, tuple(thread.turns)
            bits = np.asarray(number).tobytes()
            if self._seen.setdefault(key, bits) != bits:
                raise WrongAnalysisError(f"{_named(value)} differs in one {scope.name}: {number}")

        return check


def _named(value: Value) -> str:
    owner = value.owner
    if isinstance(owner, Operation):
        return f"{value.name or 'a value'}, of {owner.name} at {owner.place},"
    return value.name or "an argument"


def watch_of(function: Function, intervals: Mapping[Value, Interval]) -> AnalysisWatch:
    """Return a watch for a function with its intervals, and its uniformity."""
    found = uniformity_of(function, groups=(Scope.BLOCK, Scope.GRID))
    return AnalysisWatch(intervals, found.scopes(function))
