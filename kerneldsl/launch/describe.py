"""From a request to plans that a person can read; nothing is launched."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from kerneldsl.analysis.widening import WideStore
from kerneldsl.analysis.work import UNKNOWN_TRIPS
from kerneldsl.launch.configuration import tiled_config
from kerneldsl.launch.decision import is_planned, make_problem, wide_stores_of
from kerneldsl.launch.request import Request, check_shape
from kerneldsl.launch.spine import compile_for, make_choice, prepare, resources_of
from kerneldsl.planner.candidates import Candidate
from kerneldsl.planner.choose import Choice, Problem
from kerneldsl.planner.describe import describe, every_plan
from kerneldsl.planner.host import describe_share
from kerneldsl.planner.plan import LaunchPlan
from kerneldsl.target import ONE_EACH, Artifact, Dim3, ElementMapping

__all__ = ["describe_plan", "describe_plans", "given_problem"]

_DOUBLE = re.compile(r"\b(?:add|sub|mul|fma|div|sqrt|rcp|min|max|neg|abs|cvt)\.\S*f64\b")


def describe_plan(request: Request) -> LaunchPlan:
    """The plan of a launch, with its reasons."""
    check_shape(request)
    shape, place = request.shape, request.place
    if shape.extent is not None and 0 in shape.extent:
        return replace(
            _bare(request, (0, 0, 0)), reasons=("The extent is empty: nothing is launched.",)
        )
    plan = _decided(request) if is_planned(request) else _given(request)
    if plan is None and place.is_host:
        return _on_host(request)
    if plan is None:
        return replace(
            _bare(request, shape.grid_dim or (1, 1, 1)),
            reasons=("Too little is known of the device for more to be said.",),
        )
    is_mapped = request.state.traits.uses_grid_only and shape.mode.is_forall
    return replace(
        plan,
        device=str(place),
        notes=_notes(request, plan.mapping if is_mapped else ONE_EACH),
        cluster_dim=shape.together.cluster_dim,
        is_cooperative=shape.together.is_cooperative,
    )


def describe_plans(request: Request) -> tuple[LaunchPlan, ...]:
    """Every legal plan, the best first."""
    check_shape(request)
    extent = request.shape.extent
    if is_planned(request) and extent is not None and 0 not in extent:
        problem = make_problem(request, extent)
        if problem is not None:
            compiled = {each: resources_of(request, problem, each) for each in problem.mappings()}
            return tuple(
                replace(each, device=str(request.place)) for each in every_plan(problem, compiled)
            )
    return (describe_plan(request),)


def given_problem(request: Request) -> Problem | None:
    """What there is to say of a launch whose block is given: one index for each thread."""
    shape = request.shape
    assert shape.block_dim is not None
    blocks = shape.grid_dim if shape.extent is None else tiled_config(shape).grid_dim
    assert blocks is not None
    threads = tuple(g * b for g, b in zip(blocks, shape.block_dim, strict=True))
    trips: float = UNKNOWN_TRIPS
    if shape.tile is not None:
        # What a thread does for several indices, it mostly does in a loop.
        trips = max(1.0, math.prod(shape.tile) / math.prod(shape.block_dim))
    return make_problem(request, threads, can_map=False, unknown_trips=trips)


def _decided(request: Request) -> LaunchPlan | None:
    """The plan of a launch whose block and mapping are the planner's to choose."""
    assert request.shape.extent is not None
    choice = make_choice(request)
    problem = make_problem(request, request.shape.extent)
    if choice is None or problem is None:
        return None
    if not choice.compiled:
        mapping = choice.candidate.mapping
        resources = resources_of(request, problem, mapping)
        choice = Choice(choice.candidate, {mapping: resources})
    return describe(problem, choice)


def _given(request: Request) -> LaunchPlan | None:
    """The plan of a launch whose shape is given: what it does to the device."""
    shape = request.shape
    if request.place.is_host or shape.block_dim is None:
        return None
    problem = given_problem(request)
    if problem is None:
        return None
    (mapping,) = problem.mappings()
    resources = resources_of(request, problem, mapping)
    plan = describe(problem, Choice(Candidate(shape.block_dim, mapping), {mapping: resources}))
    return replace(plan, extent=shape.extent, considered_count=0)


def _on_host(request: Request) -> LaunchPlan:
    """The plan of a launch on the CPU: how its threads share the work."""
    _, config = prepare(request)
    plan = _bare(request, config.grid_dim)
    pool = request.place.thread_pool()
    reasons: tuple[str, ...] = ()
    if config.share is not None and pool is not None:
        reasons = describe_share(config.share, *pool)
    return replace(plan, block_dim=config.block_dim, host=config.share, reasons=reasons, notes=())


def _bare(request: Request, grid_dim: Dim3) -> LaunchPlan:
    """A plan of which the device alone is known."""
    shape, place = request.shape, request.place
    return LaunchPlan(
        kernel=request.state.unit.qualname,
        device=str(place),
        arch=place.arch,
        extent=shape.extent,
        grid_dim=grid_dim,
        block_dim=shape.block_dim or (1, 1, 1),
        shared_bytes=shape.shared_bytes,
    )


def _notes(request: Request, mapping: ElementMapping) -> tuple[str, ...]:
    stores = wide_stores_of(request)
    return _notes_on(stores, compile_for(request, mapping) if stores else None)


def _notes_on(stores: Sequence[WideStore], artifact: Artifact | None) -> tuple[str, ...]:
    """What to say of such stores; nothing where the compiler has narrowed the arithmetic.

    Parameters
    ----------
    stores : sequence of WideStore
        What the source says.
    artifact : Artifact or None
        The compiled code, where there is some; of PTX it is seen whether it computes in float64.
    """
    if artifact is not None and stores:
        try:
            if not _DOUBLE.search(artifact.text("ptx")):
                return ()
        except ValueError:  # a target without PTX
            pass
    return tuple(str(store) for store in stores)
