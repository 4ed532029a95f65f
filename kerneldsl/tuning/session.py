"""The measurements of one launch: what is found in records, what is checked and timed.

The arrays that a kernel writes are put back after each run, and compared with the right ones. The
progress is shown on a terminal or in a notebook.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from kerneldsl.cache.reasons import UncacheableError
from kerneldsl.errors import ArgumentTypeError, KernelError, LaunchConfigError
from kerneldsl.launch.measured import (
    Measured,
    PlanChoices,
    candidate_of,
    choice_key,
    measurement_key,
    read_choice,
    read_measurement,
    write_measurement,
)
from kerneldsl.launch.request import Request
from kerneldsl.launch.tuned_launch import tuned_launch
from kerneldsl.memory.copies import copy
from kerneldsl.memory.creation import as_array, empty_like
from kerneldsl.planner.choose import TIE
from kerneldsl.planner.plan import LaunchPlan
from kerneldsl.tuning.candidates import TuningCandidate
from kerneldsl.tuning.compile_ahead import CompileAhead
from kerneldsl.tuning.measuring import Stopwatch, make_flush
from kerneldsl.tuning.report import TunedPlan
from kerneldsl.tuning.search import TuningOptions
from kerneldsl.utilities.cached_property import cached_property
from kerneldsl.utilities.formatting import format_count
from kerneldsl.utilities.progress import MOMENT_S, NotebookBar, notebook_bar, screen

__all__ = ["Arguments", "ProgressBar", "Session", "plan_of"]

#: Times of the fastest plan at which others are compared with it, and how many there are.
_NEAR, _MOST_COMPARED = 1.05, 5


class Session:
    """The measurements of one launch.

    - `request`: the launch.
    - `args`: its arguments.
    - `bind_with`: binds the launch with a plan to these arguments.
    - `options`: options of tuning.
    - `candidates`: its plans, the planner's choice first.
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
        #: The fastest plan of those that were compared.
        self._fastest: PlanChoices | None = None
        before, stream = options.before, request.shape.stream
        make_wait = partial(make_flush, request.device, stream)
        if options.policy.cache == "cold":
            before = _both(options.before, make_wait())
        is_queued = not request.device.shares_host_memory
        self._stopwatch = Stopwatch(stream, before, make_wait if is_queued else None)
        self._knows_what_is_right = False

    @property
    def has_found(self) -> bool:
        """True once a plan was measured that runs and is right."""
        return self._best_ns < math.inf

    def first(self) -> PlanChoices:
        """Return the planner's own choice.

        - raises `LaunchConfigError` if the launch leaves nothing to choose.
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

    def read_measurements(self) -> None:
        """Read earlier measurements, without measuring."""
        for number, candidate in enumerate(self._candidates):
            key = self._key(candidate.plan)
            known = None if key is None else read_measurement(key)
            if known is not None:
                self._add(number, known, was_known=True)
        self._keep_choice()

    def _keep_choice(self) -> None:
        """Take the plan that was chosen when the fastest were compared, if it still is one."""
        chosen, limit = read_choice(self._request), self._best_ns * _NEAR
        times = {each.plan: each.measured.median_ns for each in self.tried}
        if chosen is not None and (times.get(chosen) or math.inf) <= limit:
            self._fastest = chosen

    def compare(self) -> None:
        """Measure the fastest plans again, in turns: a clock depends on what ran before."""
        limit = self._best_ns * _NEAR
        times = {
            place: each.measured.median_ns
            for place, each in enumerate(self.tried)
            if each.measured.median_ns is not None and each.measured.median_ns <= limit
        }
        near = sorted(times, key=times.__getitem__)[:_MOST_COMPARED]
        if all(self.tried[place].was_known for place in near):
            self._keep_choice()
            return
        if len(near) < 2:
            return
        plans = {place: plan_of(self._request, self.tried[place].plan) for place in near}
        launches = {place: self._bind_with(plan) for place, plan in plans.items()}
        found = self._stopwatch.in_turns(launches, self._best_ns)
        for place, measured in found.items():
            if (measured.median_ns or math.inf) >= times[place]:
                continue  # others are compared with the shorter time, and the choice holds
            number = self._order[place]
            key = self._key(self._candidates[number].plan)
            if key is not None:
                write_measurement(key, measured, self._about(number))
            self.tried[place] = replace(self.tried[place], measured=measured)
        if found:
            best = min(found, key=lambda place: found[place].median_ns or math.inf)
            self._fastest = self.tried[best].plan

    def choose(self) -> PlanChoices:
        """Return the fastest plan; of equal ones that which the cost model puts first."""
        if self._fastest is not None:
            return self._fastest
        limit = self._best_ns * (1.0 + TIE)
        for number, tried in sorted(zip(self._order, self.tried, strict=True), key=itemgetter(0)):
            time_ns = tried.measured.median_ns
            if time_ns is not None and time_ns <= limit:
                return self._candidates[number].plan
        name = self._request.state.unit.qualname
        why = self.tried[0].measured.problem if self.tried else "Nothing was measured before"
        raise LaunchConfigError(
            f"{name} could not be tuned over {self._request.shape.extent}: {why}",
            value=len(self.tried),
            limit="A plan must run, and compute the same results as the first one",
            remedy='Give it time: tune(…, budget="5s")'
            if not self.tried
            else "Launch it without tuning to see the error",
        )

    def _find_reference(self) -> None:
        """Compute the results of the reference, or else run what the planner would launch."""
        self._knows_what_is_right = True
        reference = self._options.policy.reference
        if reference is not None:
            results = reference(*self._args)
            self.arguments.expect(results if isinstance(results, tuple) else (results,))
            return
        self.arguments.check(self._bind_with(plan_of(self._request, self._candidates[0].plan)))

    def _measure(self, plan: PlanChoices) -> Measured:
        if not self._knows_what_is_right:
            self._find_reference()
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
        """Return what the records say of a measurement."""
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
            shapes = [tuple(each.shape) for each in self._args if hasattr(each, "shape")]
            return measurement_key(request, plan, cache, shapes)
        except UncacheableError:
            return None


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


# -- progress -------------------------------------------------------------------------------------


class ProgressBar:
    """Shows how many plans were measured: in a notebook, or on a terminal's standard error.

    - `total`: plans that there are.
    - `tell`: gets a line of text for each plan, in the place of a bar.
    - `is_shown`: whether there is a bar without it.
    """

    def __init__(self, total: int, tell: Callable[[str], object] | None, is_shown: bool) -> None:
        self._total = total
        self._tell = tell
        self._notebook = notebook_bar() if is_shown and tell is None else None
        is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._is_shown = is_shown and tell is None and (is_terminal or self._notebook is not None)
        self._started = time.perf_counter()
        self._bar: Any = None
        self._task: Any = None

    def step(self, done: int, best_ns: float) -> None:
        """Say that so many plans were measured, the best in so many nanoseconds."""
        text = f"{done} of {self._total} plans, best {best_ns / 1e3:.1f} µs"
        if self._tell is not None:
            self._tell(text)
        elif self._is_shown and time.perf_counter() - self._started > MOMENT_S:
            if self._bar is None:
                screen.take()
                self._open()
            if isinstance(self._bar, NotebookBar):
                self._bar.show(f"tuning: {text}", done, self._total)
            else:
                self._bar.update(self._task, completed=done, description=text)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            screen.leave()
            stop = self._bar.close if isinstance(self._bar, NotebookBar) else self._bar.stop
            stop()

    def _open(self) -> None:
        if self._notebook is not None:
            self._bar = self._notebook
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._bar = Progress(
            TextColumn("tuning: {task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("", total=self._total)
        self._bar.start()


# -- arrays that a kernel writes ------------------------------------------------------------------


class Arguments:
    """Arguments of a launch that is made many times.

    - `args`: arguments of the launch.
    - `written`: positions of the arrays that the kernel writes.
    - `rtol`: how far floats may lie from what is right, relative to the largest of an array. By
      default it is the square root of the element type's precision. Integers have to be equal.
    """

    def __init__(
        self, args: Sequence[Any], written: frozenset[int], rtol: float | None = None
    ) -> None:
        self._rtol = rtol
        self._arrays = [_Written(args[position], position) for position in sorted(written)]
        self._expected: list[np.ndarray[Any, Any]] | None = None

    def restore(self) -> None:
        """Put back what the arrays held."""
        for array in self._arrays:
            array.restore()

    def check(self, launch: Callable[[], object]) -> str:
        """Run the launch once; say what is wrong with its results, or nothing.

        The first launch says what is right, unless :meth:`expect` did.
        """
        self.restore()
        launch()
        results = [array.read() for array in self._arrays]
        if self._expected is None:
            self._expected = results
            return ""
        for array, found, wanted in zip(self._arrays, results, self._expected, strict=True):
            problem = _difference(found, wanted, self._rtol)
            if problem:
                return f"argument {array.position + 1}: {problem}"
        return ""

    def expect(self, results: Sequence[Any]) -> None:
        """Take these for right: an array for each that the kernel writes, in their order.

        - raises `ArgumentTypeError` if they are not as many.
        """
        if len(results) != len(self._arrays):
            raise ArgumentTypeError(
                f"the reference gave {format_count(len(results), 'array')}",
                value=len(results),
                limit=f"The kernel writes {len(self._arrays)} of its arguments",
                remedy="Return one for each of them, in the order of the parameters",
            )
        self._expected = [
            np.broadcast_to(np.asarray(result), array.shape)
            for array, result in zip(self._arrays, results, strict=True)
        ]


class _Written:
    """An array that the kernel writes."""

    def __init__(self, array: Any, position: int) -> None:
        self.position = position
        self._array = array if isinstance(array, np.ndarray) else as_array(array)
        is_host = isinstance(self._array, np.ndarray)
        self._before = np.empty_like(array) if is_host else empty_like(self._array)
        copy(self._before, self._array)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._array.shape)

    def restore(self) -> None:
        copy(self._array, self._before)

    def read(self) -> np.ndarray[Any, Any]:
        if isinstance(self._array, np.ndarray):
            return self._array.copy()
        return np.asarray(self._array.copy_to_host())


def _difference(
    found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any], rtol: float | None
) -> str:
    """Say how results differ, or nothing if they do not."""
    if found.dtype == wanted.dtype and found.tobytes() == wanted.tobytes():
        return ""
    if found.dtype.kind in "fc" or found.dtype.kind == "V":
        precision = np.finfo(found.dtype).eps if found.dtype.kind in "fc" else 2.0**-7
        limit = math.sqrt(precision) if rtol is None else rtol
        left, right = (each.astype(np.complex128) for each in (found, wanted))
        both = np.isfinite(left) & np.isfinite(right)
        same = both | (np.isnan(left) & np.isnan(right)) | (left == right)
        scale = float(np.max(np.abs(right[both]), initial=0.0))
        apart = np.abs(np.where(both, left - right, 0.0))
        wrong = ~same | (apart > limit * scale)
    else:
        wrong = found != wanted
    count = int(np.count_nonzero(wrong))
    if not count:
        return ""
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{count} of {found.size} elements are wrong, the first at {place}: {found[place]!r}"
