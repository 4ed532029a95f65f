"""Barriers that threads of a block might not all reach: refused or warned of.

It is asked of a kernel that is compiled and of one that comes from the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kerneldsl.contract.findings import AS_ONE, BarrierProblem
from kerneldsl.errors import BarrierDivergenceError, BarrierDivergenceWarning
from kerneldsl.utilities.tracebacks import warn_user

__all__ = ["check_barriers"]

#: Places that were warned of.
_warned: set[Any] = set()


def check_barriers(problems: Sequence[BarrierProblem]) -> None:
    """Refuse a barrier that provably diverges; warn, once for each place, of one that might."""
    for problem in problems:
        if problem.is_provable:
            raise BarrierDivergenceError(
                problem.what,
                where=problem.where,
                limit="Every thread of a block must reach the same barrier"
                if problem.remedy is None
                else AS_ONE,
                remedy=problem.remedy
                or "Move the barrier out of the condition, or make the condition the same in "
                "every thread of the block. If the other threads have nothing left to do, "
                "let them return first: if i >= n: return",
                chain=problem.chain,
            )
    for problem in problems:
        if problem.where in _warned:
            continue
        _warned.add(problem.where)
        error = BarrierDivergenceError(
            problem.what,
            where=problem.where,
            limit="It could not be proved that every thread of a block reaches this barrier",
            remedy="If you know that it does, wrap the value in kd.uniform(…)",
            chain=problem.chain,
        )
        warn_user(str(error), BarrierDivergenceWarning)
