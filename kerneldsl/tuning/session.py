"""The measurements of one launch: what is found in records, what is checked and timed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from kerneldsl.cache.reasons import UncacheableError
from kerneldsl.errors import KernelError, LaunchConfigError
from kerneldsl.launch.measured import (
    Measured,
    PlanChoices,
    candidate_of,
    choice_key,
    measurement_key,
    read_measurement,
    write_measurement,
)
from kerneldsl.launch.request import Request
from kerneldsl.launch.tuned_launch import tuned_launch
from kerneldsl.planner.choose import TIE
from kerneldsl.planner.plan import LaunchPlan
from kerneldsl.tuning.arguments import Arguments
from kerneldsl.tuning.candidates import TuningCandidate
from kerneldsl.tuning.compile_ahead import CompileAhead
from kerneldsl.tuning.measuring import Stopwatch, make_flush
from kerneldsl.tuning.options import TuningOptions
from kerneldsl.tuning.progress import ProgressBar
from kerneldsl.tuning.report import TunedPlan
from kerneldsl.utilities.cached_property import cached_property

__all__ = ["Session", "plan_of"]


class Session:
    """The measurements of one launch.

    Parameters
    ----------
    request : Request
        The launch.
    args : sequence
        Its arguments.
    bind_with : callable
        Binds the launch with a plan to these arguments.
    options : TuningOptions
        How.
    candidates : sequence of TuningCandidate
        Its plans, the planner's choice first.
    """

    def __init__(
        self,
        request: Request,
        args: Sequence[Any],
        bind_with: Callable[[LaunchPlan], Callable[[], object]],
        options: TuningOptions,
        candidates: Sequence[TuningCandidate],
    ) -> None:
        self.tried: list[TunedPlan] = []
        self.arguments = Arguments(args, request.state.traits.written, options.policy.rtol)
        self._request, self._args, self._options = request, args, options
        self._bind_with = bind_with
        self._candidates = candidates
        self._ahead = CompileAhead(request, candidates, options.processes)
        self.progress = ProgressBar(len(candidates), options.tell, options.shows_progress)
        self._order: list[int] = []
        self._best_ns = math.inf
        before = options.before
        if options.policy.cache == "cold":
            flush = make_flush(request.device, request.shape.stream)
            before = _both(options.before, flush)
        self._stopwatch = Stopwatch(request.shape.stream, before)
        self._knows_what_is_right = False

    @property
    def has_found(self) -> bool:
        """True once a plan was measured that runs and is right."""
        return self._best_ns < math.inf

    def first(self) -> PlanChoices:
        """Return the planner's own choice.

        Raises
        ------
        LaunchConfigError
            If the launch leaves nothing to choose.
        """
        return self._candidates[0].plan if self._candidates else self.choose()

    def measure(self, number: int) -> float | None:
        """Measure a plan, or find what was measured before."""
        candidate = self._candidates[number]
        key = self._key(candidate.plan)
        known = None if key is None else read_measurement(key)
        if known is None:
            self._ahead.prepare(number)
        measured = known or self._measure(candidate.plan)
        if known is None and key is not None:
            write_measurement(key, measured, self._about(number))
        self._add(number, measured, was_known=known is not None)
        return measured.median_ns

    def recall(self) -> None:
        """Find what was measured before, and measure nothing."""
        for number, candidate in enumerate(self._candidates):
            key = self._key(candidate.plan)
            known = None if key is None else read_measurement(key)
            if known is not None:
                self._add(number, known, was_known=True)

    def choose(self) -> PlanChoices:
        """Return the fastest plan; of equal ones that which the cost model puts first."""
        limit = self._best_ns * (1.0 + TIE)
        for number, tried in sorted(zip(self._order, self.tried, strict=True), key=_number):
            time_ns = tried.measured.median_ns
            if time_ns is not None and time_ns <= limit:
                return self._candidates[number].plan
        name = self._request.state.unit.qualname
        why = self.tried[0].measured.problem if self.tried else "Nothing was measured before"
        raise LaunchConfigError(
            f"{name} could not be tuned over {self._request.shape.extent}: {why}",
            value=len(self.tried),
            limit="A plan has to run, and to compute what the first one does",
            remedy='Give it time: tune(…, budget="5s")'
            if not self.tried
            else "Launch it without tuning, and see what happens",
        )

    def _find_what_is_right(self) -> None:
        """Ask the reference for its results, or else run what the planner would launch."""
        self._knows_what_is_right = True
        reference = self._options.policy.reference
        if reference is not None:
            results = reference(*self._args)
            self.arguments.expect(results if isinstance(results, tuple) else (results,))
            return
        self.arguments.check(self._bind_with(plan_of(self._request, self._candidates[0].plan)))

    def _measure(self, plan: PlanChoices) -> Measured:
        if not self._knows_what_is_right:
            self._find_what_is_right()
        try:
            launch = self._bind_with(plan_of(self._request, plan))
            problem = self.arguments.check(launch)
            if problem:
                return Measured(None, problem=problem)
            return self._stopwatch.measure(launch, self._best_ns)
        except KernelError as error:
            return Measured(None, problem=str(error).splitlines()[0])

    def _add(self, number: int, measured: Measured, *, was_known: bool) -> None:
        candidate = self._candidates[number]
        self.tried.append(TunedPlan(candidate.plan, candidate.predicted_ns, measured, was_known))
        self._order.append(number)
        if measured.median_ns is not None:
            self._best_ns = min(self._best_ns, measured.median_ns)
        self.progress.step(len(self.tried), self._best_ns)

    def _about(self, number: int) -> dict[str, Any]:
        """Return what readers of the records are told of a measurement."""
        candidate, model = self._candidates[number], self._candidates[number].model
        return {
            **self.about_launch,
            "order": number,
            "plan": asdict(candidate.plan),
            "predicted_ns": candidate.predicted_ns,
            "cache": self._options.policy.cache,
            "model": None if model is None else model.to_dict(),
        }

    @cached_property
    def about_launch(self) -> dict[str, Any]:
        """Identity of the launch in records, and of its choice."""
        try:
            choice = choice_key(self._request).digest
        except UncacheableError:
            choice = ""
        return {"launch": tuned_launch(self._request).to_dict(), "choice": choice}

    def _key(self, plan: PlanChoices) -> Any:
        request = self._request
        if request.shape.space is not None:
            candidate = candidate_of(plan, request)
            assert candidate is not None
            assert candidate.member is not None
            request = request.of(candidate.member)
        cache, before = self._options.policy.cache, self._options.before
        if before is not None:  # nobody can tell what it leaves
            return None
        try:
            return measurement_key(request, plan, cache)
        except UncacheableError:
            return None


def _number(pair: tuple[int, TunedPlan]) -> int:
    return pair[0]


def _both(first: Callable[[], object] | None, then: Callable[[], object]) -> Callable[[], object]:
    """Return a function that calls two."""

    def call() -> None:
        if first is not None:
            first()
        then()

    return call


def plan_of(request: Request, plan: PlanChoices) -> LaunchPlan:
    """Return a plan for the launch, without what the models say of it."""
    shape, device = request.shape, request.device
    return LaunchPlan(
        kernel=request.state.unit.qualname,
        device=str(device),
        arch=device.arch,
        extent=shape.extent,
        grid_dim=(0, 0, 0),
        block_dim=plan.block_dim,
        mapping=plan.mapping,
        parameters=plan.parameters,
        host=plan.host,
    )
