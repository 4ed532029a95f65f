"""Writing a decision down: the plan that a person reads, and what it was compared with.

A launch needs none of this; it takes the decision of :mod:`~kerneldsl.planner.choose` as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from kerneldsl.planner.bounds import BOUND_WORDS
from kerneldsl.planner.choose import TIE, Choice, Problem, Scored, nothing_fits, rank
from kerneldsl.planner.cost import CONSTANTS
from kerneldsl.planner.coverage import Coverage, bytes_to_saturate
from kerneldsl.planner.plan import LaunchPlan, PlanAlternative
from kerneldsl.target import ElementMapping, Resources

__all__ = ["describe", "describe_scored", "every_plan"]

#: Alternatives that a plan tells of.
_TOLD = 6


def describe(problem: Problem, choice: Choice) -> LaunchPlan:
    """Write a decision down as a plan for an extent.

    Parameters
    ----------
    problem : Problem
        What is planned; its extent may be another one of the class that was decided for.
    choice : Choice
        The decision.

    Returns
    -------
    LaunchPlan

    Raises
    ------
    ResourceLimitError
        The choice cannot run.
    """
    ranked = rank(problem, choice.compiled)
    wanted = choice.candidate
    taken = next((each for each in ranked if each.candidate == wanted), None)
    if taken is None:
        fixed = replace(problem, block_dim=wanted.block_dim)
        taken = next(iter(rank(fixed, choice.compiled, (wanted.mapping,))), None)
    if taken is None:
        raise nothing_fits(problem, choice.compiled)
    return describe_scored(problem, taken, [each for each in ranked if each.candidate != wanted])


def every_plan(
    problem: Problem, compiled: dict[ElementMapping, Resources]
) -> tuple[LaunchPlan, ...]:
    """All legal plans of mappings that are compiled, the best first."""
    return tuple(describe_scored(problem, each) for each in rank(problem, compiled, compiled))


def describe_scored(problem: Problem, taken: Scored, others: Sequence[Scored] = ()) -> LaunchPlan:
    """Write down a plan that was compared with others, the best of them first."""
    held, resources, prediction = taken.held, taken.resources, taken.prediction
    x, y, z = taken.candidate.mapping.blocks(problem.extent, taken.candidate.block_dim)
    grid = Coverage(held, x * y * z)
    rates = problem.rates
    return LaunchPlan(
        kernel=problem.kernel,
        device=str(problem.device),
        arch=problem.device.arch,
        extent=problem.extent,
        grid_dim=taken.grid_dim,
        block_dim=taken.candidate.block_dim,
        mapping=taken.candidate.mapping,
        shared_bytes=problem.shared_bytes,
        carveout_bytes=held.sufficient_carveout_bytes
        if held.kernel.static_shared_bytes or problem.shared_bytes
        else None,
        registers=resources.registers,
        spill_bytes=resources.spill_bytes,
        active_blocks=held.active_blocks,
        occupancy=held.fraction,
        limiters=held.limiters,
        waves=grid.waves,
        tail_efficiency=grid.tail_efficiency,
        bytes_in_flight=prediction.bytes_in_flight,
        bytes_to_saturate=bytes_to_saturate(
            rates.memory_bytes_per_s, CONSTANTS.start_ns + rates.memory_latency_ns
        ),
        bytes_moved=int(math.prod(problem.extent) * problem.work.device_bytes),
        predicted_ns=prediction.time_ns,
        bound=prediction.bound,
        considered_count=len(others) + 1,
        considered=_alternatives(taken, others),
    )


def _alternatives(taken: Scored, others: Sequence[Scored]) -> tuple[PlanAlternative, ...]:
    """The best of other blocks and of other mappings; one index a thread is always among them."""
    same = [each for each in others if each.candidate.mapping == taken.candidate.mapping]
    other = [each for each in others if each.candidate.mapping != taken.candidate.mapping]
    told = _first_of_each(same, lambda each: each.candidate.block_threads)[: _TOLD // 2]
    mappings = _first_of_each(other, lambda each: each.candidate.mapping)
    plain = [each for each in mappings if each.candidate.mapping.is_one_each]
    told += mappings[: _TOLD - len(told) - len(plain)]
    told += [each for each in plain if each not in told]
    return tuple(
        PlanAlternative(
            each.candidate.block_dim,
            each.candidate.mapping,
            each.prediction.time_ns,
            _why(taken, each),
        )
        for each in sorted(told, key=lambda each: each.prediction.time_ns)
    )


def _first_of_each(ranked: list[Scored], key: Callable[[Scored], object]) -> list[Scored]:
    found: dict[object, Scored] = {}
    for each in ranked:
        found.setdefault(key(each), each)
    return list(found.values())


def _why(taken: Scored, other: Scored) -> str:
    """Why a plan lost against the one that was taken."""
    mine, its = taken.prediction, other.prediction
    excess = its.time_ns / mine.time_ns - 1.0
    if excess <= TIE:
        if other.candidate.mapping.item_count > taken.candidate.mapping.item_count:
            return "no faster, with more items a thread"
        if other.candidate.mapping != taken.candidate.mapping:
            return "no faster"
        return "no faster; blocks near 256 threads are preferred"
    if its.bound == mine.bound == "memory" and its.bytes_in_flight < mine.bytes_in_flight:
        return f"fewer bytes in flight: {its.bytes_in_flight / 1e6:.3g} MB"
    spills = f"; {other.resources.spill_bytes} bytes spilled" if other.resources.spill_bytes else ""
    return f"limited by {BOUND_WORDS[its.bound]}{spills}"
