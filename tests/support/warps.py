"""What the exchanges between the lanes of a warp give, for the slow references.

What CUDA leaves undefined is what the CPU target defines: a lane that takes no part has no value to
give.

References
----------
PTX ISA, section "shfl.sync".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
}
#: Names of the exchanges.
EXCHANGES = frozenset((*_SOURCES, *_VOTES))


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
    mask, value, *rest = given[lane]
    named = {other for other in given if int(mask) >> other & 1}
    if name in _VOTES:
        return _VOTES[name](named, {other for other in named if given[other][1]})
    source = _SOURCES[name](lane, int(rest[0]) % WARP_SIZE)
    return _widened(given[source][1] if source in named else value)
