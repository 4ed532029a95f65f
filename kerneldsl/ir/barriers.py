"""Find the barriers of a kernel that not every thread is known to reach."""

from __future__ import annotations

from collections.abc import Iterator

from kerneldsl.contract import Specialization
from kerneldsl.contract.findings import NO_BARRIERS, BarrierFacts, BarrierProblem
from kerneldsl.errors import BarrierDivergenceError
from kerneldsl.ir.chains import chain_states, check_chains
from kerneldsl.ir.divergence import Divergence, Level, level_of
from kerneldsl.ir.operations import Function, Operation
from kerneldsl.ir.uniformity import Meeting, Uniformity, uniformity_of
from kerneldsl.language.intrinsics.grids import grid_group
from kerneldsl.language.intrinsics.intrinsic import Intrinsic, Scope, Typing

__all__ = ["analyze_barriers", "barrier_problems"]

#: What helps where a block is to do as one what single threads do, miss or differ in.
_OUT_OF_CONDITION = "Move the operation out of the condition, and guard only the work around it"
_STAY = (
    "Let every thread reach it: put what some threads leave out under a condition, in place of "
    "returning. What a tile has beyond the edge of an array is neither read nor written"
)
_GIVE_THE_SAME = (
    "Give what all threads of a block agree on, such as an argument or kd.blockIdx; of numbers "
    "that differ, kd.tile.of(…) makes a tile"
)


def analyze_barriers(function: Function, spec: Specialization) -> BarrierFacts:
    """Return what is known of the barriers of a kernel that was just read.

    Raises
    ------
    BarrierDivergenceError
        If a thread may not reach a barrier of the grid.
    UnsupportedConstructError
        If a block may not do its part of a chain once.
    """
    if not spec.traits.has_barrier:
        return NO_BARRIERS
    has_chains = any(use.intrinsic.is_of_chain for use in spec.unit.all_uses())
    is_of_grid = has_chains or spec.traits.syncs_grid
    groups = (Scope.BLOCK, Scope.GRID) if is_of_grid else (Scope.BLOCK,)
    overlapping = uniformity_of(function, spec.kinds, groups, arguments_may_overlap=True)
    # Where arrays are known to be apart, no value varies more.
    found = tuple(barrier_problems(overlapping, Scope.BLOCK))
    of_grid = tuple(_grid_problems(overlapping)) if spec.traits.syncs_grid else ()
    apart = overlapping
    if found or of_grid or has_chains:
        apart = uniformity_of(function, spec.kinds, groups)
    for problem in _grid_problems(apart) if spec.traits.syncs_grid else ():
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
    if has_chains:
        check_chains(function, spec, barrier_problems(apart, Scope.GRID))
    problems = tuple(barrier_problems(apart, Scope.BLOCK)) if found else ()
    states = chain_states(function) if has_chains else frozenset[int]()
    return BarrierFacts(problems, (*found, *of_grid), states)


def _grid_problems(uniformity: Uniformity) -> Iterator[BarrierProblem]:
    return barrier_problems(uniformity, Scope.GRID, grid_group.sync)


def barrier_problems(
    uniformity: Uniformity, group: Scope, intrinsic: Intrinsic | None = None
) -> Iterator[BarrierProblem]:
    """Return the barriers that not all threads of a group reach, of one operation or of all."""
    for operation, meeting in uniformity.meetings.items():
        if not meeting.intrinsic.synchronizes(group):
            continue
        if intrinsic is not None and meeting.intrinsic is not intrinsic:
            continue
        found = _divergence(operation, meeting, group)
        if found is not None:
            fact, remedy = found
            yield BarrierProblem(
                operation.source.where,
                fact.text(group),
                tuple(fact.links(group)),
                fact.level(group) is Level.VARYING,
                remedy,
            )


def _divergence(
    operation: Operation, meeting: Meeting, group: Scope
) -> tuple[Divergence, str | None] | None:
    """Return why threads do not perform an operation together, and what helps."""
    intrinsic, control, left, arguments = meeting
    source, is_of_block = operation.source, intrinsic.is_of_block
    name = "a tile operation" if intrinsic.typing is Typing.TILE else repr(intrinsic)
    if control is not None and control.level(group) is not Level.UNIFORM:
        if not is_of_block or control.level(group) is not Level.VARYING:
            return control, None
        what = f"{name} is not reached by every thread: {control.text(group)}"
        return control.because(_quoted(what), source), _OUT_OF_CONDITION
    if not is_of_block or group is not Scope.BLOCK:
        return None
    # Threads would work on different tiles, or parts.
    if left is not None and left.level(group) is Level.VARYING:
        what = f"threads have returned before {name}: {left.text(group)}"
        return left.because(_quoted(what), source), _STAY
    for position, fact in enumerate(arguments):
        if fact is not None and level_of(fact, group) is Level.VARYING:
            argument = _argument(intrinsic, position, len(arguments))
            if argument is not None:
                name = f"kd.{intrinsic.name}, for {argument},"
            what = f"{name} needs the same in every thread of the block: {fact.text(group)}"
            return fact.because(_quoted(what), source), _GIVE_THE_SAME
    return None


def _quoted(text: str) -> str:
    """Return a sentence as the form of a divergence."""
    return text.replace("{", "{{").replace("}", "}}")


def _argument(intrinsic: Intrinsic, position: int, count: int) -> str | None:
    """Return the user's name of an argument of a load or store of a tile."""
    if intrinsic.name == "tile.load":  # then come the indices
        return ("array", "other", "at")[min(position, 2)]
    if intrinsic.name == "tile.store":
        return "array" if position == 0 else "at" if position < count - 1 else "tile"
    return None
