"""Plans of a request that a person can read; nothing is launched."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from kerneldsl.contract import ONE_EACH, Dim3, ElementMapping
from kerneldsl.errors import LaunchConfigError
from kerneldsl.frontend.rows.whole_arrays import whole_arrays
from kerneldsl.language.kinds import ArrayKind
from kerneldsl.launch.attributes import runs_at_once
from kerneldsl.launch.configuration import host_work, shared_extent
from kerneldsl.launch.decision import host_members, is_planned, make_problems
from kerneldsl.launch.pipeline import choose_member, compile_for, make_choice, prepare, resources_of
from kerneldsl.launch.request import Request, check_shape
from kerneldsl.launch.work import wide_stores
from kerneldsl.planner.candidates import Candidate, Choice
from kerneldsl.planner.describe import all_plans, describe
from kerneldsl.planner.formula import HostModel
from kerneldsl.planner.host import describe_share
from kerneldsl.planner.plan import LaunchPlan

__all__ = ["describe_plan", "describe_plans"]

_DOUBLE = re.compile(r"\b(?:add|sub|mul|fma|div|sqrt|rcp|min|max|neg|abs|cvt)\.\S*f64\b")


def describe_plan(request: Request) -> LaunchPlan:
    taken = choose_member(request)
    check_shape(taken)
    shape, device = taken.shape, taken.device
    plan: LaunchPlan | None
    if shape.extent is not None and 0 in shape.extent:
        plan = replace(
            _bare(taken, (0, 0, 0)), reasons=("The extent is empty: nothing is launched.",)
        )
    elif device.is_shared_out:
        plan = _on_host(taken)
    else:
        plan = _decided(request) if is_planned(request) else _given(taken)
        if plan is None:
            plan = replace(
                _bare(taken, shape.grid_dim or (1, 1, 1)),
                reasons=("Too little is known of the device for more to be said.",),
            )
        else:
            is_mapped = taken.state.traits.uses_grid_only and shape.mode.is_forall
            notes = _notes(taken, plan.mapping if is_mapped else ONE_EACH)
            plan = replace(_placed(plan, taken), notes=notes)
            if taken.state.traits.loops_over_tiles and shape.extent is not None:
                _, config = prepare(taken)
                plan = replace(plan, grid_dim=config.grid_dim)
    plan = replace(plan, notes=(*plan.notes, *_notes_on_whole_arrays(taken, plan)))
    return plan if shape.member is None else replace(plan, parameters=shape.member.values)


def describe_plans(request: Request) -> tuple[LaunchPlan, ...]:
    """Describe every legal plan, the best first."""
    taken = choose_member(request)
    check_shape(taken)
    extent = request.shape.extent
    if is_planned(request) and not request.device.is_shared_out and extent and 0 not in extent:
        problems = make_problems(request, extent)
        if problems is not None:
            compiled = {
                (each.constants, mapping): resources_of(request, each, mapping)
                for each in problems
                for mapping in each.mappings()
            }
            return tuple(_placed(each, taken) for each in all_plans(problems, compiled))
    if (
        request.shape.space is not None
        and request.device.is_shared_out
        and extent
        and 0 not in extent
    ):
        return tuple(
            describe_plan(request.of(member))
            for member in host_members(request)
            if _can_run(request.of(member))
        )
    return (describe_plan(request),)


def _can_run(request: Request) -> bool:
    try:
        check_shape(request)
    except LaunchConfigError:
        return False
    return True


def _placed(plan: LaunchPlan, request: Request) -> LaunchPlan:
    """Add what the planner does not know of the launch."""
    shape = request.shape
    return replace(
        plan,
        extent=shape.extent,
        device=str(request.device),
        cluster_dim=shape.launch_attributes.cluster_dim,
        is_cooperative=runs_at_once(shape.launch_attributes, request.state.traits, request.device),
    )


def _decided(request: Request) -> LaunchPlan | None:
    """Describe a launch for which the planner chooses the block and mapping, or the member."""
    choice = make_choice(request)
    problems = make_problems(request, request.shape.extent)
    if choice is None or problems is None:
        return None
    if not choice.compiled:
        member, mapping = choice.candidate.member, choice.candidate.mapping
        problem = next(each for each in problems if each.member == member)
        resources = resources_of(request, problem, mapping)
        choice = Choice(choice.candidate, {(problem.constants, mapping): resources})
    return describe(problems, choice)


def _given(request: Request) -> LaunchPlan | None:
    """Describe a launch of a given shape: what it does to the device."""
    block_dim = request.shape.block_dim
    problems = None if block_dim is None else make_problems(request, request.shape.extent)
    if block_dim is None or problems is None:
        return None
    (problem,) = problems
    (mapping,) = problem.mappings()
    compiled = {(problem.constants, mapping): resources_of(request, problem, mapping)}
    plan = describe(problems, Choice(Candidate(block_dim, mapping), compiled))
    return replace(plan, considered_count=0)


def _on_host(request: Request) -> LaunchPlan:
    """Describe a launch on the CPU: how its threads share the work."""
    executable, config = prepare(request)
    plan = _bare(request, config.grid_dim)
    notes = request.device.compiler.remarks(executable.artifact.specialization)
    pool = request.device.thread_pool()
    reasons: tuple[str, ...] = ()
    if config.share is not None and pool is not None:
        reasons = describe_share(config.share, *pool)
        model = HostModel(
            host_work(request, config),
            shared_extent(request, config),
            config.share.threads,
            pool[1],
        )
        plan = replace(plan, predicted_ns=model.predict_ns(), model=model)
    return replace(
        plan, block_dim=config.block_dim, host=config.share, reasons=reasons, notes=notes
    )


def _bare(request: Request, grid_dim: Dim3) -> LaunchPlan:
    """Return a plan with only the device known."""
    shape, device = request.shape, request.device
    return LaunchPlan(
        kernel=request.state.unit.qualname,
        device=str(device),
        arch=device.arch,
        extent=shape.extent,
        grid_dim=grid_dim,
        block_dim=shape.block_dim or (1, 1, 1),
        shared_bytes=shape.shared_bytes,
    )


def _notes(request: Request, mapping: ElementMapping) -> tuple[str, ...]:
    """Return what to say of float32 elements that a kernel computes in float64.

    That is nothing if the compiler has narrowed the arithmetic, as PTX shows.
    """
    stores = wide_stores(request)
    if not stores:
        return ()
    try:
        computes_double = _DOUBLE.search(compile_for(request, mapping).text("ptx"))
    except ValueError:  # a target without PTX
        return stores
    return stores if computes_double else ()


def _notes_on_whole_arrays(request: Request, plan: LaunchPlan) -> tuple[str, ...]:
    """Return what to say of threads that each go through a whole array."""
    if request.binding.is_assumed:
        return ()
    names = request.state.unit.parameters
    shapes = {
        names[each.parameters.position]: each.shape
        for each in request.binding.passed_arrays()
        if isinstance(request.kinds[each.parameters.position], ArrayKind)
    }
    extent = request.shape.extent
    sizes = (*plan.grid_dim, *plan.block_dim) if extent is None else extent
    threads = math.prod(int(size) for size in sizes)
    return tuple(map(str, whole_arrays(request.state.unit, shapes, threads)))
