"""Bounds of ``benchmarks/cpu_lanes.py``, and how the figures of a run stand to them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["BOUNDS", "described", "summarized", "within_bounds"]

#: For each rival: the least that every case must reach, as its time over ours, and the least
#: geometric mean.
BOUNDS: Mapping[str, tuple[float, float]] = {"C": (0.7, 1.0), "prange": (1.0, 1.0)}


def summarized(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return for each rival the number of cases, their geometric mean and the slow ones.

    Parameters
    ----------
    rows : sequence of mapping
        ``name`` of each case, and ``seconds`` of each contender.
    """
    found: dict[str, dict[str, Any]] = {}
    for rival in dict.fromkeys(name for row in rows for name in row["seconds"] if name != "ours"):
        ratios = {
            row["name"]: row["seconds"][rival] / row["seconds"]["ours"]
            for row in rows
            if rival in row["seconds"]
        }
        each, mean = BOUNDS.get(rival, (None, None))
        found[rival] = {
            "cases": len(ratios),
            "geometric_mean": math.exp(math.fsum(map(math.log, ratios.values())) / len(ratios)),
            "least": each,
            "least_mean": mean,
            "slow": [] if each is None else [name for name, r in ratios.items() if r < each],
        }
    return found


def described(rival: str, found: Mapping[str, Any]) -> str:
    """Return a rival's summary as a line, with the cases below its bound."""
    line = f"{rival:12s} {found['cases']:2d} cases, geometric mean {found['geometric_mean']:.2f}x"
    if found["least"] is None:
        return line
    reached = found["cases"] - len(found["slow"])
    line += f" (bound {found['least_mean']:.1f}x); {reached} reach {found['least']:.1f}x"
    return line + "".join(f"\n    below: {name}" for name in found["slow"])


def within_bounds(found: Mapping[str, Any]) -> bool:
    """Return whether a rival's summary keeps its bounds; one without bounds does."""
    return found["least"] is None or (
        not found["slow"] and found["geometric_mean"] >= found["least_mean"]
    )
