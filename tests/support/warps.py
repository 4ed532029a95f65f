"""What the exchanges between the lanes of a warp give, for the slow references.

What CUDA leaves undefined is what the CPU target defines: a lane that takes no part has no value to
give.

References
----------
PTX ISA, section "shfl.sync".
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

__all__ = ["EXCHANGES", "WARP_SIZE", "exchange"]

WARP_SIZE = 32

#: The lane that a shuffle reads, for this lane and what it is given modulo 32.
_SOURCES: dict[str, Callable[[int, int], int]] = {
    "shfl_sync": lambda lane, given: given,
    "shfl_up_sync": lambda lane, given: lane - given,
    "shfl_down_sync": lambda lane, given: lane + given,
    "shfl_xor_sync": lambda lane, given: lane ^ given,
}
#: What a vote gives, for the lanes that are named and those of them whose predicate is true.
_VOTES: dict[str, Callable[[set[int], set[int]], Any]] = {
    "ballot_sync": lambda named, true: np.uint32(sum(1 << lane for lane in true)).view(np.int32),
    "all_sync": lambda named, true: named == true,
    "any_sync": lambda named, true: bool(true),
    "eq_sync": lambda named, true: named == true or not true,
}


def _mask(lanes: Iterable[int]) -> Any:
    return np.uint32(sum(1 << lane for lane in lanes)).view(np.int32)


def _least(a: Any, b: Any) -> Any:
    """Return the lesser value: -0 is less than 0, and NaN yields to a number."""
    if np.isnan(a) or np.isnan(b):
        return b if np.isnan(a) else a
    if a == b:
        return a if np.signbit(a) else b
    return min(a, b)


def _greatest(a: Any, b: Any) -> Any:
    return -_least(-a, -b) if np.asarray(a).dtype.kind == "f" else max(a, b)


_REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "reduce_add_sync": operator.add,
    "reduce_min_sync": _least,
    "reduce_max_sync": _greatest,
    "reduce_and_sync": operator.and_,
    "reduce_or_sync": operator.or_,
    "reduce_xor_sync": operator.xor,
}
_MATCHES = frozenset(("match_any_sync", "match_all_sync"))
#: Names of the exchanges.
EXCHANGES = frozenset((*_SOURCES, *_VOTES, *_REDUCTIONS, *_MATCHES, "activemask"))


def _widened(value: Any) -> Any:
    narrow = np.asarray(value).dtype
    return np.int32(value) if narrow.kind in "biu" and narrow.itemsize < 4 else value


def exchange(name: str, given: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
    """Return what each lane gets.

    Parameters
    ----------
    name : str
        One of :data:`EXCHANGES`.
    given : mapping
        For each lane that takes part, its arguments; the first is the mask.
    """
    return {lane: _answer(name, lane, given) for lane in given}


def _answer(name: str, lane: int, given: Mapping[int, tuple[Any, ...]]) -> Any:
    if name == "activemask":
        return _mask(given).view(np.uint32)
    mask, value, *rest = given[lane]
    named = {other for other in given if int(mask) >> other & 1}
    if name in _VOTES:
        return _VOTES[name](named, {other for other in named if given[other][1]})
    if name in _REDUCTIONS:
        return _reduced(_REDUCTIONS[name], {other: _widened(given[other][1]) for other in named})
    if name in _MATCHES:
        bits = {other: np.asarray(_widened(given[other][1])).tobytes() for other in named}
        same = {other for other in named if bits[other] == bits[lane]}
        if name == "match_any_sync":
            return _mask(same)
        return (_mask(named), True) if same == named else (np.int32(0), False)
    source = _SOURCES[name](lane, int(rest[0]) % WARP_SIZE)
    return _widened(given[source][1] if source in named else value)


def _reduced(combine: Callable[[Any, Any], Any], values: Mapping[int, Any]) -> Any:
    """Combine lanes 16 apart, then 8, 4, 2 and 1, without those that take no part."""
    found = dict(values)
    for distance in (16, 8, 4, 2, 1):
        for lane in range(distance):
            pair = [found.pop(k) for k in (lane, lane + distance) if k in found]
            if pair:
                found[lane] = combine(*pair) if len(pair) == 2 else pair[0]
    return found[0]
