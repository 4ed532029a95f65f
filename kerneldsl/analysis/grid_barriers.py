"""Check that every thread of a launch reaches the barriers of its grid.

One that does not is waited for, and permanently: unlike a barrier of the block, that of the grid
counts threads that have returned, too.
"""

from __future__ import annotations

from collections.abc import Collection

from kerneldsl.analysis.effects import syncs_grid
from kerneldsl.analysis.traits import BarrierProblem
from kerneldsl.analysis.uniformity import analyze_uniformity
from kerneldsl.errors import BarrierDivergenceError
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.grids import grid_group
from kerneldsl.language.intrinsics.intrinsic import Scope

__all__ = ["check_grid_barriers"]


def check_grid_barriers(unit: FunctionUnit, tuples: Collection[str]) -> tuple[BarrierProblem, ...]:
    """Refuse a barrier of the grid that not every thread of a launch is known to reach.

    Functions of the unit that have a barrier are inlined; `tuples` are the parameters that are
    tuples of arrays. Returns what is to be said of launches with arguments that overlap in memory.

    Raises `BarrierDivergenceError`.
    """
    if not syncs_grid(unit):
        return ()
    for problem in _problems(unit, tuples, arguments_may_overlap=False):
        raise BarrierDivergenceError(
            "a barrier of the grid may not be reached by every thread of the launch: "
            f"{problem.what}",
            where=problem.where,
            limit="The whole grid waits for each of its threads, those that have returned included",
            remedy="Let all of them reach it: guard the code before and after it instead. A "
            "condition around the barrier may depend on arguments, and on memory that no thread "
            "writes between two barriers of the grid",
            chain=problem.chain,
        )
    return _problems(unit, tuples, arguments_may_overlap=True)


def _problems(
    unit: FunctionUnit, tuples: Collection[str], *, arguments_may_overlap: bool
) -> tuple[BarrierProblem, ...]:
    found = analyze_uniformity(
        unit, tuples=tuples, scope=Scope.GRID, arguments_may_overlap=arguments_may_overlap
    )
    barriers = {
        unit.locate_use(name) for name, use in unit.uses.items() if use.intrinsic is grid_group.sync
    }
    return tuple(problem for problem in found.problems if problem.where in barriers)
