"""Tuning of a launch: its plans are measured, and the fastest is remembered."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kerneldsl.cache.reasons import UncacheableError
from kerneldsl.cache.toolchain import toolchain_identity
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, KernelError, LaunchConfigError
from kerneldsl.errors.values import safe_repr
from kerneldsl.launch.decision import settle
from kerneldsl.launch.measured import (
    Measured,
    PlanChoices,
    candidate_of,
    choice_key,
    measurement_key,
    read_measurement,
    write_choice,
    write_measurement,
)
from kerneldsl.launch.request import Request
from kerneldsl.planner.choose import TIE, Choice
from kerneldsl.planner.plan import LaunchPlan
from kerneldsl.tuning.arguments import Arguments
from kerneldsl.tuning.candidates import TuningCandidate, find_candidates
from kerneldsl.tuning.measuring import Stopwatch
from kerneldsl.tuning.report import TunedPlan, TuningReport
from kerneldsl.tuning.search import search, search_all

__all__ = ["TuningOptions", "read_budget", "tune"]

_MOST_SECONDS = 86_400.0


@dataclass(frozen=True)
class TuningOptions:
    """Options of tuning a launch; the parameters of :meth:`kerneldsl.Launch.tune`.

    Parameters
    ----------
    seconds : float
        Time after which nothing more is measured.
    is_exhaustive : bool
        Whether every plan is measured.
    reference : callable or None
        Computes what is right.
    rtol : float or None
        How far results may lie from it.
    before : callable or None
        Called before each launch that is timed.
    progress : callable or None
        Told how far it is, in a line of text.
    """

    seconds: float = 5.0
    is_exhaustive: bool = False
    reference: Callable[..., Any] | None = None
    rtol: float | None = None
    before: Callable[[], object] | None = None
    progress: Callable[[str], object] | None = None


def read_budget(budget: object) -> tuple[float, bool]:
    """Read a budget: seconds, and whether every plan is to be measured.

    Parameters
    ----------
    budget : float or str
        Seconds; ``"5s"``, ``"2min"``; ``"full"`` for all plans, ``"cached"`` for what was measured
        before alone.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        If it is none of these.

    Examples
    --------
    >>> read_budget("1.5s"), read_budget("2min"), read_budget("cached")
    ((1.5, False), (120.0, False), (0.0, False))
    >>> read_budget("full")
    (inf, True)
    """
    limit = 'It is a number of seconds, "5s", "2min", "full" or "cached"'
    if isinstance(budget, bool) or not isinstance(budget, int | float | str):
        raise ArgumentTypeError(
            f"budget is a {type(budget).__qualname__}", value=budget, limit=limit
        )
    seconds = math.nan
    if isinstance(budget, str):
        if budget == "full":
            return math.inf, True
        if budget == "cached":
            return 0.0, False
        for unit, each in (("min", 60.0), ("s", 1.0)):
            number = budget.strip().removesuffix(unit)
            if number != budget.strip():
                with suppress(ValueError):
                    seconds = float(number) * each
                break
    elif abs(budget) <= _MOST_SECONDS:  # a huge int is no float
        seconds = float(budget)
    if not 0.0 < seconds <= _MOST_SECONDS:
        raise ArgumentValueError(f"budget is {safe_repr(budget)}", value=budget, limit=limit)
    return seconds, False


def tune(
    request: Request,
    args: Sequence[Any],
    launch_with: Callable[[LaunchPlan], Callable[..., object]],
    options: TuningOptions,
) -> TuningReport:
    """Measure the plans of a launch, and let launches of its kind take the fastest.

    Parameters
    ----------
    request : Request
        The launch, over an extent.
    args : sequence
        Its arguments. What the kernel writes is put back in the end.
    launch_with : callable
        Makes the launch with a plan.
    options : TuningOptions
        How.

    Raises
    ------
    LaunchConfigError
        If the launch leaves nothing to choose, or no plan could be measured.
    """
    started = time.perf_counter()
    _check(request)
    candidates = find_candidates(request)
    session = _Session(request, args, launch_with, options, candidates)
    find = search_all if options.is_exhaustive else search
    end = started + options.seconds

    def is_over() -> bool:
        return time.perf_counter() >= end

    points = [each.point for each in candidates]
    if options.seconds > 0.0:
        for _ in find(points, session.measure, is_over):
            pass
    else:
        session.recall()
    session.arguments.restore()
    chosen = session.choose()
    _remember(request, chosen)
    return TuningReport(
        plan=_plan(request, chosen),
        tried=tuple(session.tried),
        total_count=len(candidates),
        elapsed_s=time.perf_counter() - started,
        is_complete=options.seconds == 0.0 or not is_over(),
        software={**_software(), "driver": request.device.software},
    )


class _Session:
    """The measurements of one launch."""

    def __init__(
        self,
        request: Request,
        args: Sequence[Any],
        launch_with: Callable[[LaunchPlan], Callable[..., object]],
        options: TuningOptions,
        candidates: Sequence[TuningCandidate],
    ) -> None:
        self.tried: list[TunedPlan] = []
        self.arguments = Arguments(args, request.state.traits.written, options.rtol)
        self._request, self._args, self._options = request, args, options
        self._launch_with = launch_with
        self._candidates = candidates
        self._order: list[int] = []
        self._best_ns = math.inf
        self._stopwatch = Stopwatch(request.shape.stream, options.before)
        if options.reference is not None:
            results = options.reference(*args)
            self.arguments.expect(results if isinstance(results, tuple) else (results,))
        elif candidates:
            # What the planner would launch says what is right, unless somebody else does.
            first = _plan(request, candidates[0].plan)
            self.arguments.check(lambda: self._launch_with(first)(*self._args))

    def measure(self, number: int) -> float | None:
        """Measure a plan, or find what was measured before."""
        candidate = self._candidates[number]
        key = self._key(candidate.plan)
        known = None if key is None else read_measurement(key)
        measured = known or self._measure(candidate.plan)
        if known is None and key is not None:
            write_measurement(key, measured)
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

    def _measure(self, plan: PlanChoices) -> Measured:
        launch = self._launch_with(_plan(self._request, plan))

        def start() -> object:
            return launch(*self._args)

        try:
            problem = self.arguments.check(start)
            if problem:
                return Measured(None, problem=problem)
            return self._stopwatch.measure(start, self._best_ns)
        except KernelError as error:
            return Measured(None, problem=str(error).splitlines()[0])

    def _add(self, number: int, measured: Measured, *, was_known: bool) -> None:
        candidate = self._candidates[number]
        self.tried.append(TunedPlan(candidate.plan, candidate.predicted_ns, measured, was_known))
        self._order.append(number)
        if measured.median_ns is not None:
            self._best_ns = min(self._best_ns, measured.median_ns)
        if self._options.progress is not None:
            self._options.progress(
                f"{len(self.tried)} of {len(self._candidates)} plans, best "
                f"{self._best_ns / 1e3:.1f} µs"
            )

    def _key(self, plan: PlanChoices) -> Any:
        request = self._request
        if request.shape.space is not None:
            candidate = candidate_of(plan, request)
            assert candidate is not None
            assert candidate.member is not None
            request = request.of(candidate.member)
        try:
            return measurement_key(request, plan)
        except UncacheableError:
            return None


def _number(pair: tuple[int, TunedPlan]) -> int:
    return pair[0]


def _check(request: Request) -> None:
    """Refuse a launch that has one plan alone, or whose time would be that of copies.

    Raises
    ------
    LaunchConfigError, ArgumentTypeError
        Saying what to do instead.
    """
    name, shape = request.state.unit.qualname, request.shape
    if shape.extent is None or shape.plan is not None or shape.member is not None:
        raise LaunchConfigError(
            f"{name} was to be tuned with its grid and block, plan or member given",
            limit="What is tuned is the choice of these",
            remedy="Write kernel.forall(n).tune(…)",
        )
    if 0 in shape.extent:
        raise LaunchConfigError(
            f"{name} was to be tuned over an empty extent",
            value=shape.extent,
            limit="A launch has to do something to be measured",
            remedy="Give an extent of the size that matters",
        )
    if request.binding.host and not request.device.shares_host_memory:
        raise ArgumentTypeError(
            f"{name} was to be tuned on {request.device} with NumPy arrays",
            limit="The time would be that of copying them",
            remedy="Pass device arrays: kd.to_device(array)",
        )


def _plan(request: Request, plan: PlanChoices) -> LaunchPlan:
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


def _remember(request: Request, chosen: PlanChoices) -> None:
    """Let launches of this kind take a plan, in this process and in later ones."""
    with suppress(UncacheableError):  # then it is good in this process alone
        write_choice(choice_key(request), chosen)
    candidate = candidate_of(chosen, request)
    assert candidate is not None
    for each in (request, *([] if candidate.member is None else [request.of(candidate.member)])):
        each.state.loaded.clear()
        each.state.choices.clear()
    settle(request, Choice(candidate, {}))


def _software() -> dict[str, str]:
    try:
        return toolchain_identity()
    except UncacheableError as error:
        return {"toolchain": str(error)}
