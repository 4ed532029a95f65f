"""Contenders, reference and bounds of a kernel that ``tiles.py`` measures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["BOUNDS", "Bound", "Case", "Prepared"]


@dataclass(frozen=True)
class Bound:
    """A ratio of times that ours must reach.

    Parameters
    ----------
    over : str
        ``"best peer"``, ``"copy"``, or the beginning of the names of contenders.
    at_least : float
        Their time over ours; of ``"copy"`` our share of the bandwidth of a copy, where a case says
        how many bytes it has to move.
    """

    over: str
    at_least: float


#: Of each kind of device.
BOUNDS: dict[str, tuple[Bound, ...]] = {
    "gpu": (Bound("best peer", 1.0), Bound("copy", 0.9)),
    "cpu": (Bound("NumPy", 1.5), Bound("prange", 0.9)),
}


@dataclass(frozen=True)
class Prepared:
    """A case with its arrays.

    Parameters
    ----------
    contenders : dict
        Name to a launch; ours is called ``"ours"``. A launch returns its result, or ``None`` where
        the result is in `out`.
    out : dict
        Name to the array that a contender writes, for poisoning and checking.
    error : callable
        Takes a result, and returns its largest error relative to the reference's largest value.
    tolerance : float
        Of that error.
    moved : int
        Bytes that must be read and written; 0 where memory is not what binds.
    count : int
        Launches of a sample.
    """

    contenders: dict[str, Callable[[], Any]]
    out: dict[str, Any]
    error: Callable[[Any], float]
    tolerance: float
    moved: int
    count: int = 4


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    name: str
    prepare: Callable[[], Prepared]
