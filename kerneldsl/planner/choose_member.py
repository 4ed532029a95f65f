"""Choosing a member of a space for a block kernel.

As for element kernels, all members are compared with what is known, the best is compiled, and the
comparison goes on with what the assembler gave it. Members that differ in the block alone share
compiled code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kerneldsl.errors import ResourceLimitError
from kerneldsl.planner.bounds import BOUND_WORDS
from kerneldsl.planner.candidates import fit_grid
from kerneldsl.planner.choose import MAX_COMPILED, TIE, Problem, Scored, score
from kerneldsl.planner.describe import describe_scored
from kerneldsl.planner.plan import LaunchPlan, PlanAlternative
from kerneldsl.planner.space import Member
from kerneldsl.target import Resources

__all__ = [
    "MemberChoice",
    "MemberProblem",
    "choose_member",
    "describe_member",
    "member_plans",
]

#: Alternatives that a plan tells of.
_TOLD = 6


@dataclass(frozen=True)
class MemberProblem:
    """A member of a space, and what it would be launched as.

    Parameters
    ----------
    member : Member
        The member.
    problem : Problem
        One index for each thread of its grid; its block and shared memory are given.
    code : object
        Equal for members that share compiled code.
    """

    member: Member
    problem: Problem
    code: object


@dataclass(frozen=True)
class MemberChoice:
    """A decision: the member, and what was compiled to find it.

    Parameters
    ----------
    member : Member
        What was chosen.
    compiled : dict
        What was compiled, and what it takes.
    """

    member: Member
    compiled: dict[object, Resources]


def choose_member(
    asked: Sequence[MemberProblem], compile_member: Callable[[Member], Resources]
) -> MemberChoice:
    """Choose a member.

    Parameters
    ----------
    asked : sequence of MemberProblem
        The members.
    compile_member : callable
        Compiles the kernel for a member and says what it takes.

    Returns
    -------
    MemberChoice

    Raises
    ------
    ResourceLimitError
        No member can run on the device.
    """
    compiled: dict[object, Resources] = {}
    scores = {each.member: _score(each, compiled) for each in asked}
    while True:
        best = _best(asked, scores)
        if best is None or best.code in compiled or len(compiled) == MAX_COMPILED:
            break
        compiled[best.code] = compile_member(best.member)
        for each in asked:  # blocks of the same code
            if each.code == best.code:
                scores[each.member] = _score(each, compiled)
    ready = [each for each in asked if each.code in compiled]
    taken = _best(ready, scores)
    if taken is None:
        raise _nothing_fits(asked, compiled, compile_member)
    return MemberChoice(taken.member, compiled)


def describe_member(asked: Sequence[MemberProblem], choice: MemberChoice) -> LaunchPlan:
    """Write a decision down as a plan.

    Parameters
    ----------
    asked : sequence of MemberProblem
        The members; their extent may be another one of the class that was decided for.
    choice : MemberChoice
        The decision.

    Returns
    -------
    LaunchPlan
        Its `parameters` are the member's values.
    """
    ranked = _rank(asked, choice.compiled)
    taken = next(pair for pair in ranked if pair[0].member == choice.member)
    plan = _plan(taken)
    others = [pair for pair in ranked if pair is not taken]
    told = tuple(_alternative(taken, pair) for pair in others[:_TOLD])
    refused = len(asked) - len(ranked)
    reasons = (f"{refused} of the {len(asked)} members cannot run there.",) if refused else ()
    return replace(plan, considered_count=len(ranked), considered=told, reasons=reasons)


def member_plans(
    asked: Sequence[MemberProblem], compile_member: Callable[[Member], Resources]
) -> tuple[LaunchPlan, ...]:
    """The plan of every member that can run, the best first; all are compiled."""
    compiled: dict[object, Resources] = {}
    for each in asked:
        if each.code not in compiled:
            compiled[each.code] = compile_member(each.member)
    return tuple(map(_plan, _rank(asked, compiled)))


def _score(each: MemberProblem, compiled: dict[object, Resources]) -> Scored | None:
    """What the models say of a member; ``None`` where it cannot run."""
    (mapping,) = each.problem.mappings()
    known = compiled.get(each.code)
    return next(iter(score(each.problem, mapping, {} if known is None else {mapping: known})), None)


def _best(
    asked: Sequence[MemberProblem], scores: dict[Member, Scored | None]
) -> MemberProblem | None:
    """The first of them in order."""
    found = [(each, one) for each in asked if (one := scores[each.member]) is not None]
    if not found:
        return None
    return min(found, key=_order(found))[0]


def _rank(
    asked: Sequence[MemberProblem], compiled: dict[object, Resources]
) -> list[tuple[MemberProblem, Scored]]:
    found = [(each, one) for each in asked if (one := _score(each, compiled)) is not None]
    return sorted(found, key=_order(found)) if found else []


def _order(
    found: Sequence[tuple[MemberProblem, Scored]],
) -> Callable[[tuple[MemberProblem, Scored]], tuple[float, ...]]:
    """By time; of those within `TIE` of the best, a block near 256 threads that does less."""
    best = min(one.prediction.time_ns for _, one in found)

    def order(pair: tuple[MemberProblem, Scored]) -> tuple[float, ...]:
        time = pair[1].prediction.time_ns
        is_tie = time <= best * (1.0 + TIE)
        work = pair[0].problem.work
        distance = abs(math.log2(pair[0].member.block_threads / 256))
        return (not is_tie, 0.0 if is_tie else time, distance, work.loads + work.stores, time)

    return order


def _plan(pair: tuple[MemberProblem, Scored]) -> LaunchPlan:
    plan = describe_scored(pair[0].problem, pair[1])
    return replace(plan, parameters=pair[0].member.values)


def _alternative(
    taken: tuple[MemberProblem, Scored], other: tuple[MemberProblem, Scored]
) -> PlanAlternative:
    mine, its = taken[1].prediction, other[1].prediction
    if its.time_ns <= mine.time_ns * (1.0 + TIE):
        why = "no faster; blocks near 256 threads, which do less, are preferred"
    elif other[1].held.active_warps < taken[1].held.active_warps:
        by = " and ".join(name.replace("_", " ") for name in other[1].held.limiters)
        why = f"{other[1].held.active_warps} warps at once, limited by {by}"
    else:
        why = f"limited by {BOUND_WORDS[its.bound]}"
    return PlanAlternative(
        other[0].member.block_dim,
        other[1].candidate.mapping,
        its.time_ns,
        why,
        other[0].member.values,
    )


def _nothing_fits(
    asked: Sequence[MemberProblem],
    compiled: dict[object, Resources],
    compile_member: Callable[[Member], Resources],
) -> ResourceLimitError:
    have_grids = [each for each in asked if _has_grid(each.problem)]
    first = next(iter(have_grids), asked[0])
    problem, without = first.problem, len(asked) - len(have_grids)
    takes = compiled.get(first.code) or compile_member(first.member)
    shared = takes.static_shared_bytes + problem.shared_bytes
    return ResourceLimitError(
        f"no member of the space of {problem.kernel} can run on {problem.device}",
        value=len(asked),
        limit=f"The first, {first.member}, has {first.member.block_threads} threads of "
        f"{takes.registers} registers and {shared} bytes of shared memory a block; the device "
        f"allows {problem.device.limits.max_threads_per_block} threads and "
        f"{problem.limits.max_shared_memory_per_block_optin} bytes"
        + (
            f"; {without} members make more blocks of the extent than a grid has" if without else ""
        ),
        remedy="Add smaller blocks or tiles to the space",
    )


def _has_grid(problem: Problem) -> bool:
    """Whether the device allows a grid of so many blocks."""
    (mapping,) = problem.mappings()
    assert problem.block_dim is not None
    most = problem.device.limits.max_grid_dim
    return fit_grid(mapping, problem.extent, problem.block_dim, most) is not None
