"""Tuning of a launch: its plans are measured, and the fastest is remembered."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from kerneldsl.cache.reasons import UncacheableError
from kerneldsl.cache.toolchain import toolchain_identity
from kerneldsl.errors import ArgumentTypeError, LaunchConfigError
from kerneldsl.launch.decision import settle
from kerneldsl.launch.measured import Measured, PlanChoices, candidate_of, choice_key, write_choice
from kerneldsl.launch.request import Request
from kerneldsl.launch.tuning_policy import RECORDS_ALONE, policy_scope
from kerneldsl.planner.candidates import Choice
from kerneldsl.planner.plan import LaunchPlan
from kerneldsl.tuning.candidates import TuningCandidate, find_candidates
from kerneldsl.tuning.report import TunedPlan, TuningReport
from kerneldsl.tuning.search import TuningOptions, search, search_all
from kerneldsl.tuning.session import Session, plan_of

__all__ = ["tune"]


def tune(
    request: Request,
    args: Sequence[Any],
    bind_with: Callable[[LaunchPlan], Callable[[], object]],
    options: TuningOptions,
) -> TuningReport:
    """Measure the plans of a launch, and let launches of its kind take the fastest.

    Parameters
    ----------
    request : Request
        The launch, over an extent.
    args : sequence
        Its arguments. What the kernel writes is put back in the end.
    bind_with : callable
        Binds the launch with a plan to these arguments.
    options : TuningOptions
        How.

    Raises
    ------
    LaunchConfigError
        If the launch leaves nothing to choose, or no plan could be measured.
    """
    _check(request)
    # Other launches meanwhile, by the reference or to copy arguments, are not tuned.
    token = policy_scope.in_context.set(RECORDS_ALONE)
    try:
        return _tune(request, args, bind_with, options)
    finally:
        policy_scope.in_context.reset(token)


def _tune(
    request: Request,
    args: Sequence[Any],
    bind_with: Callable[[LaunchPlan], Callable[[], object]],
    options: TuningOptions,
) -> TuningReport:
    started = time.perf_counter()
    candidates = find_candidates(request)
    session = Session(request, args, bind_with, options, candidates)
    budget = options.policy.budget
    if not budget.uses_records:
        return _forget(request, candidates, session)
    end = started + budget.seconds

    def is_over() -> bool:
        return time.perf_counter() >= end

    try:
        if budget.seconds > 0.0:
            find = search_all if budget.is_exhaustive else search
            for _ in find([each.point for each in candidates], session.measure, is_over):
                pass
            session.compare()
        else:
            session.read_measurements()
    except KeyboardInterrupt:
        session.arguments.restore()
        if session.has_found:
            _remember(request, session.choose(), session.about_launch)
        raise
    finally:
        session.progress.close()
    session.arguments.restore()
    chosen = session.choose()
    _remember(request, chosen, session.about_launch)
    return TuningReport(
        plan=plan_of(request, chosen),
        tried=tuple(session.tried),
        total_count=len(candidates),
        elapsed_s=time.perf_counter() - started,
        is_complete=budget.seconds == 0.0 or not is_over(),
        software=_software(request),
    )


def _forget(
    request: Request, candidates: Sequence[TuningCandidate], session: Session
) -> TuningReport:
    """Let launches of a kind take the planner's own choice in this process.

    Records stay as they are.
    """
    first = session.first()
    _remember(request, first, None)
    untried = Measured(None, problem='not measured: the budget is "never"')
    return TuningReport(
        plan=plan_of(request, first),
        tried=(TunedPlan(first, candidates[0].predicted_ns, untried),),
        total_count=len(candidates),
        elapsed_s=0.0,
        is_complete=True,
        software=_software(request),
    )


def _check(request: Request) -> None:
    """Refuse a launch that has one plan alone, or that would mostly measure copies.

    - raises `LaunchConfigError`, `ArgumentTypeError` saying what to do instead.
    """
    name, shape = request.state.unit.qualname, request.shape
    if shape.extent is None or shape.plan is not None or shape.member is not None:
        raise LaunchConfigError(
            f"{name} cannot be tuned with a grid and block, a plan or a member",
            limit="Tuning chooses them",
            remedy="Write kernel.forall(n).tune(…)",
        )
    if 0 in shape.extent:
        raise LaunchConfigError(
            f"{name} cannot be tuned over the empty extent {shape.extent}",
            value=shape.extent,
            limit="Tuning measures launches, so each axis must be at least 1",
            remedy="Pass a typical extent",
        )
    if request.binding.is_assumed:
        raise ArgumentTypeError(
            f"{name} cannot be tuned with a signature",
            limit="Tuning measures launches with arguments",
            remedy="Pass the arguments; kernel.forall(n).plan(…) chooses a plan without them",
        )
    if request.binding.host and not request.device.shares_host_memory:
        raise ArgumentTypeError(
            f"{name} cannot be tuned on {request.device} with NumPy arrays",
            limit="The times would include copies to the device",
            remedy="Pass device arrays: kd.to_device(array)",
        )


def _remember(request: Request, chosen: PlanChoices, about: dict[str, Any] | None) -> None:
    """Let launches of this kind take a plan, and later processes, if there is something to say."""
    if about is not None:
        with suppress(UncacheableError):  # then it is good in this process alone
            write_choice(choice_key(request), chosen, about)
    candidate = candidate_of(chosen, request)
    assert candidate is not None
    for each in (request, *([] if candidate.member is None else [request.of(candidate.member)])):
        state = each.state
        state.loaded.clear()
        # Without a cache, only this process may know the measured choices.
        kept = {key: choice for key, choice in state.choices.items() if choice.is_measured}
        state.choices.clear()
        state.choices.update(kept)
    settle(request, Choice(candidate, {}, is_measured=True))


def _software(request: Request) -> dict[str, str]:
    try:
        found = toolchain_identity()
    except UncacheableError as error:
        found = {"toolchain": str(error)}
    return {**found, "driver": request.device.software}
