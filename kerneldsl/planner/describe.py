"""Writing a decision down: the plan that a person reads, and what it was compared with.

A launch needs none of this; it takes the decision of :mod:`~kerneldsl.planner.choose` as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from kerneldsl.planner.candidates import Choice, Compiled
from kerneldsl.planner.choose import TIE, Problem, Scored, no_fit_error, rank
from kerneldsl.planner.cost import BOUND_WORDS, CONSTANTS
from kerneldsl.planner.fit import ModelInputs
from kerneldsl.planner.formula import DeviceModel
from kerneldsl.planner.grid_coverage import Coverage, bytes_to_saturate
from kerneldsl.planner.plan import LaunchPlan, PlanAlternative
from kerneldsl.planner.words import name_limiters

__all__ = ["all_plans", "describe"]

#: Number of alternatives in a plan's description.
_TOLD = 6


def describe(problems: Sequence[Problem], choice: Choice) -> LaunchPlan:
    """Write a decision down as a plan for an extent.

    The extent of the problems may be another one of the class that was decided for. The plan's
    `parameters` are the values of the member, if there is one. Raises `ResourceLimitError` if
    the choice cannot run.
    """
    ranked = rank(problems, choice.compiled)
    wanted = choice.candidate
    taken = next((each for each in ranked if each.candidate == wanted), None)
    if taken is None:
        fixed = [
            replace(each, block_dim=wanted.block_dim)
            for each in problems
            if each.member == wanted.member
        ]
        taken = next(iter(rank(fixed, choice.compiled, (wanted.mapping,))), None)
    if taken is None:
        raise no_fit_error(problems, choice.compiled)
    plan = _describe(taken, [each for each in ranked if each.candidate != wanted])
    refused = len({each.member for each in problems} - {each.candidate.member for each in ranked})
    if wanted.member is not None and refused:
        why = f"{refused} of the {len(problems)} members cannot run there."
        plan = replace(plan, reasons=(why,))
    return plan


def all_plans(problems: Sequence[Problem], compiled: Compiled) -> tuple[LaunchPlan, ...]:
    """Return all legal plans of what is compiled, the best first."""
    return tuple(_describe(each) for each in rank(problems, compiled) if each.is_compiled)


def _describe(taken: Scored, others: Sequence[Scored] = ()) -> LaunchPlan:
    """Write down a plan that was compared with others, the best of them first."""
    problem = taken.problem
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
        parameters=_parameters(taken),
        model=DeviceModel(ModelInputs.of(taken, rates), problem.model_constants),
    )


def _parameters(each: Scored) -> tuple[tuple[str, Any], ...]:
    member = each.candidate.member
    return () if member is None else member.values


def _alternatives(taken: Scored, others: Sequence[Scored]) -> tuple[PlanAlternative, ...]:
    """Return the best of other blocks and of other mappings, or of other members.

    One index a thread is always among the mappings.
    """
    if taken.candidate.member is not None:
        return tuple(_alternative(taken, each) for each in others[:_TOLD])
    same = [each for each in others if each.candidate.mapping == taken.candidate.mapping]
    other = [each for each in others if each.candidate.mapping != taken.candidate.mapping]
    told = _first_of_each(same, lambda each: each.candidate.block_threads)[: _TOLD // 2]
    mappings = _first_of_each(other, lambda each: each.candidate.mapping)
    plain = [each for each in mappings if each.candidate.mapping.is_one_each]
    told += mappings[: _TOLD - len(told) - len(plain)]
    told += [each for each in plain if each not in told]
    told.sort(key=lambda each: each.prediction.time_ns)
    return tuple(_alternative(taken, each) for each in told)


def _alternative(taken: Scored, other: Scored) -> PlanAlternative:
    return PlanAlternative(
        other.candidate.block_dim,
        other.candidate.mapping,
        other.prediction.time_ns,
        _reason_of_loss(taken, other),
        _parameters(other),
    )


def _first_of_each(ranked: list[Scored], key: Callable[[Scored], object]) -> list[Scored]:
    found: dict[object, Scored] = {}
    for each in ranked:
        found.setdefault(key(each), each)
    return list(found.values())


def _reason_of_loss(taken: Scored, other: Scored) -> str:
    """Return the reason for which a plan was not chosen."""
    mine, its = taken.prediction, other.prediction
    is_member = other.candidate.member is not None
    if its.time_ns / mine.time_ns - 1.0 <= TIE:
        if other.candidate.mapping.item_count > taken.candidate.mapping.item_count:
            return "no faster, with more items a thread"
        if is_member:
            return "no faster; blocks near 256 threads, which do less, are preferred"
        if other.candidate.mapping != taken.candidate.mapping:
            return "no faster"
        return "no faster; blocks near 256 threads are preferred"
    if is_member and other.held.active_warps < taken.held.active_warps:
        by = name_limiters(other.held.limiters)
        return f"{other.held.active_warps} warps at once, limited by {by}"
    are_fewer = its.bound == mine.bound == "memory" and its.bytes_in_flight < mine.bytes_in_flight
    if are_fewer and not is_member:
        return f"fewer bytes in flight: {its.bytes_in_flight / 1e6:.3g} MB"
    spills = f"; {other.resources.spill_bytes} bytes spilled" if other.resources.spill_bytes else ""
    return f"limited by {BOUND_WORDS[its.bound]}{spills}"
