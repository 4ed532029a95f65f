"""Policies of tuning: whether records count, and how long the first launch of a kind may measure.

A policy is chosen for a context by ``with kd.tune(…):``, for a kernel by ``@kd.tune(…)`` and for
the process by a plain call. The first of these that exists counts. Without any, records are used
and nothing is measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from kerneldsl.errors import ArgumentTypeError
from kerneldsl.errors.kernels import wrong_value
from kerneldsl.errors.values import a_type
from kerneldsl.utilities.scoped import ScopedValue

__all__ = [
    "RECORDS_ALONE",
    "Budget",
    "CacheState",
    "TuningPolicy",
    "policy_scope",
    "read_budget",
    "read_cache_state",
]

_MOST_SECONDS = 86_400.0

#: "warm" if the device's last-level cache holds the data of the preceding launch; "cold" if not.
CacheState: TypeAlias = Literal["warm", "cold"]


class Budget(NamedTuple):
    """Limits of what tuning may spend on a launch."""

    #: Seconds after which nothing more is measured; 0 where nothing is.
    seconds: float
    #: Whether every plan is measured, not only the likely ones.
    is_exhaustive: bool = False
    #: Whether earlier measurements are reused.
    uses_records: bool = True


class TuningPolicy(NamedTuple):
    """Policy of tuning the first launch of a kind; the parameters of :class:`kerneldsl.tune`."""

    budget: Budget
    cache: CacheState = "warm"
    reference: Callable[..., Any] | None = None
    rtol: float | None = None


#: Policy of a launch for which none was chosen: stored measurements alone are used.
RECORDS_ALONE = TuningPolicy(Budget(0.0))
policy_scope: ScopedValue[TuningPolicy] = ScopedValue("kerneldsl_tune")


def read_budget(budget: object) -> Budget:
    """Read a budget.

    - `budget`: seconds; ``"5s"``, ``"250ms"``, ``"2min"``; ``"full"`` for all plans, ``"cached"``
      for what was measured before alone, ``"never"`` for the planner's own choice whatever was
      measured.
    - raises `ArgumentTypeError`, `ArgumentValueError` for any other value.

    Examples
    --------
    >>> read_budget("1.5s").seconds, read_budget("2min").seconds, read_budget("cached").seconds
    (1.5, 120.0, 0.0)
    >>> read_budget("full")
    Budget(seconds=inf, is_exhaustive=True, uses_records=True)
    """
    limit = 'It must be a number of seconds, "5s", "2min", "full", "cached" or "never"'
    if isinstance(budget, bool) or not isinstance(budget, int | float | str):
        raise ArgumentTypeError(f"budget is {a_type(budget)}", value=budget, limit=limit)
    seconds = math.nan
    if isinstance(budget, str):
        named = _NAMED.get(budget)
        if named is not None:
            return named
        for unit, each in (("min", 60.0), ("ms", 1e-3), ("s", 1.0)):
            number = budget.strip().removesuffix(unit)
            if number != budget.strip():
                with suppress(ValueError):
                    seconds = float(number) * each
                break
    elif abs(budget) <= _MOST_SECONDS:  # a huge int is no float
        seconds = float(budget)
    if not 0.0 < seconds <= _MOST_SECONDS:
        raise wrong_value("budget", budget, limit)
    return Budget(seconds)


_NAMED = {
    "full": Budget(math.inf, is_exhaustive=True),
    "cached": Budget(0.0),
    "never": Budget(0.0, uses_records=False),
}


def read_cache_state(cache: object) -> CacheState:
    """Read in which state of the last cache launches are timed.

    - raises `ArgumentValueError` if it is neither ``"warm"`` nor ``"cold"``.
    """
    if not isinstance(cache, str) or cache not in ("warm", "cold"):
        raise wrong_value("cache", cache, 'Launches are timed with a "warm" or a "cold" cache')
    return cast(CacheState, cache)
