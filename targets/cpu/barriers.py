"""Barriers that threads of a block might not all reach are refused."""

from __future__ import annotations

from collections.abc import Sequence

from kerneldsl.contract.findings import AS_ONE, BarrierProblem
from kerneldsl.errors import BarrierDivergenceError

__all__ = ["refuse_divergent_barriers"]


def refuse_divergent_barriers(problems: Sequence[BarrierProblem]) -> None:
    """Raise for the first barrier that is not proved uniform."""
    for problem in problems:
        if problem.remedy is not None:
            raise BarrierDivergenceError(
                problem.what,
                where=problem.where,
                limit=AS_ONE,
                remedy=problem.remedy,
                chain=problem.chain,
            )
        rule = (
            "Every thread of a block must reach the same barrier"
            if problem.is_provable
            else "The CPU target runs only barriers that it can prove every thread reaches"
        )
        remedy = (
            "Move the barrier out of the condition, and guard only the work around it; or, if "
            "the other threads have nothing left to do, let them return first: if i >= n: return"
        )
        if not problem.is_provable:
            remedy += "; or promise with kd.uniform(value) that all threads agree on the value"
        raise BarrierDivergenceError(
            f"this barrier may be divergent: {problem.what}",
            where=problem.where,
            limit=rule,
            remedy=remedy,
            chain=problem.chain,
        )
