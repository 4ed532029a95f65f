"""Tuning of launches: when it is asked for, and of first launches under a policy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kerneldsl.errors import ArgumentValueError
from kerneldsl.errors.values import safe_repr
from kerneldsl.launch.tuning_policy import (
    CacheState,
    TuningPolicy,
    policy_for,
    read_budget,
    read_cache_state,
)
from kerneldsl.utilities.flags import read_flag
from kerneldsl.utilities.tracebacks import shorten_errors

if TYPE_CHECKING:
    from kerneldsl.contract import DeviceLike
    from kerneldsl.launch.request import Request
    from kerneldsl.launch.shape import LaunchShape
    from kerneldsl.planner.plan import LaunchPlan
    from kerneldsl.tuning.report import TuningReport

__all__ = ["TunableLaunch", "pass_over_prepared"]


class TunableLaunch:
    """Give launches their tuning."""

    __slots__ = ()

    if TYPE_CHECKING:
        kernel: Any
        _shape: LaunchShape

        def _in_order(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]: ...
        def _request(
            self, args: tuple[Any, ...], device: DeviceLike | None = None, arch: str | None = None
        ) -> Request: ...

    @shorten_errors
    def tune(
        self,
        *args: Any,
        budget: float | str = "5s",
        cache: CacheState = "warm",
        reference: Callable[..., Any] | None = None,
        rtol: float | None = None,
        before: Callable[[], object] | None = None,
        progress: Callable[[str], object] | bool = True,
        processes: int | None = None,
        **named: Any,
    ) -> TuningReport:
        """Measure the plans of this launch; later launches of its kind take the fastest.

        Of its kind are launches of this kernel with arguments of the same types, over extents of
        the same class, on a device of the same name with the same driver, in this process and,
        through the cache on disk, in others. Each measurement is kept as it is made.

        Parameters
        ----------
        *args, **named
            As for the launch, on a GPU with device arrays. What the kernel writes holds in the end
            what it held before.
        budget : float or str, optional
            Seconds, ``"5s"``, ``"2min"``; ``"full"`` to measure every plan; ``"cached"`` to take
            what was measured before and measure nothing; ``"never"`` to take the planner's own
            choice in this process, whatever was measured. Within a time, plans are measured in the
            order in which they are likely to be the fastest, until no other is.
        cache : {"warm", "cold"}, optional
            Whether the device's last cache holds what the launch before left in it, or nothing:
            then more than it holds is written before each launch that is timed.
        reference : callable, optional
            Computes from the arguments what the kernel should write: an array, or a tuple with one
            for each that it writes. By default what the planner's own choice computes is right. A
            plan with other results is not taken.
        rtol : float, optional
            How far results in floating point may differ, relative to the largest element; by
            default the square root of the precision of the element type.
        before : callable, optional
            Called before each launch that is timed. What is measured with it is not recorded.
        progress : callable or bool, optional
            Called with a line of text after each plan; by default a terminal or notebook shows a
            bar once half a second has passed, and ``False`` shows none.
        processes : int, optional
            How many plans are compiled at the same time, in processes of their own, before they
            are measured; by default as many as there are cores. Code that the cache cannot hold is
            compiled in this one.

        Returns
        -------
        TuningReport
            What was measured. Its `plan` can be given to ``forall``.

        Raises
        ------
        LaunchConfigError
            If there is nothing to choose: grid and block, a plan or a member are given.
        ArgumentTypeError
            For NumPy arrays on a device to which they would be copied.
        """
        from kerneldsl.streams.current import refuse_waiting
        from kerneldsl.tuning.options import TuningOptions
        from kerneldsl.tuning.tune import tune

        refuse_waiting()
        given = self._in_order(args, named)
        policy = TuningPolicy(read_budget(budget), read_cache_state(cache), reference, rtol)
        tell = progress if callable(progress) else None
        is_shown = tell is None and read_flag("progress", progress)
        options = TuningOptions(policy, before, tell, is_shown, _read_processes(processes))
        report = tune(self._request(given), given, self._bind_with(given), options)
        pass_over_prepared()
        return report

    def _bind_with(self, args: tuple[Any, ...]) -> Callable[[LaunchPlan], Callable[[], object]]:
        """Return what binds the same launch with a plan.

        Native code makes it from the first time on: the way through Python takes longer than many
        a kernel, which would be what is measured.
        """
        kernel, shape = self.kernel, self._shape

        def bind(plan: LaunchPlan) -> Callable[[], object]:
            assert shape.extent is not None
            launch = kernel.forall(*shape.extent, stream=shape.stream, plan=plan)
            return launch.bind(*args)  # type: ignore[no-any-return]

        return bind

    def _tune_first(self, args: tuple[Any, ...]) -> None:
        """Tune the launch, where a policy gives time for it and its plan is open."""
        shape = self._shape
        if shape.extent is None or shape.plan is not None or shape.member is not None:
            return
        policy = policy_for(shape)
        if policy.budget.seconds <= 0.0:
            return
        from kerneldsl.tuning.first_launch import tune_first_launch

        if tune_first_launch(self._request(args), args, self._bind_with(args), policy):
            pass_over_prepared()


def _read_processes(processes: Any) -> int | None:
    """Read a number of processes.

    Raises
    ------
    ArgumentValueError
        If it is no int of 1 or more.
    """
    if processes is None or (type(processes) is int and processes >= 1):
        return processes
    raise ArgumentValueError(
        f"processes is {safe_repr(processes)}",
        value=processes,
        limit="It must be an int, 1 or more, or None for as many as there are cores",
    )


def pass_over_prepared() -> None:
    """Let Python choose anew for launches that native code repeats: other plans may be taken."""
    machine = sys.modules.get("kerneldsl.launch.native.machine")
    if machine is not None:  # else nothing was prepared
        machine.begin_generation()
