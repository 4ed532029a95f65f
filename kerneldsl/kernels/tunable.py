"""Tuning of launches, by a call or at the first launch under a policy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kerneldsl.errors.kernels import wrong_value
from kerneldsl.launch.tuning_policy import CacheState, TuningPolicy, read_budget, read_cache_state
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
    """Add tuning to launches."""

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

        Launches are of one kind if they have the same kernel, types of arguments, class of extents,
        name of the device and driver. This holds in this process and, through the cache on disk, in
        others. Each measurement is recorded at once.

        Parameters
        ----------
        *args, **named
            As for the launch; on a GPU with device arrays. Arrays that the kernel writes get their
            elements back at the end.
        budget : float or str, optional
            Seconds, ``"5s"`` or ``"2min"``: the plans that are predicted to be the fastest are
            measured first. ``"full"`` measures every plan. ``"cached"`` takes the best recorded
            plan and measures nothing. ``"never"`` takes the planner's own choice in this process
            and ignores records.
        cache : {"warm", "cold"}, optional
            Whether the last-level cache of the device keeps the data of the launch before, or is
            overwritten before each timed launch.
        reference : callable, optional
            Computes the expected results from the arguments: an array, or a tuple of one array for
            each that the kernel writes. By default the planner's own choice gives the expected
            results. A plan with other results is rejected.
        rtol : float, optional
            Largest difference of floating-point results, relative to the largest element. By
            default the square root of the precision of the element type.
        before : callable, optional
            Called before each timed launch. Such measurements are not recorded.
        progress : callable or bool, optional
            Called with a line of text after each plan. By default a terminal or notebook shows a
            bar after half a second; ``False`` shows none.
        processes : int, optional
            Number of processes that compile plans before they are measured; by default the number
            of cores. Code that cannot be cached is compiled in this process.

        Returns
        -------
        TuningReport
            The measurements. Its `plan` can be passed to ``forall``.

        Raises
        ------
        LaunchConfigError
            If there is nothing to choose: the launch has a grid and a block, a plan or a member.
        ArgumentTypeError
            For NumPy arrays on a device that needs copies of them.

        Examples
        --------
        >>> import numpy as np
        >>> import kerneldsl as kd
        >>> @kd.kernel(space=kd.Space(block=[64, 128], covers=lambda c: c.block))
        ... def double(x):
        ...     i = kd.grid(1)
        ...     if i < x.size:
        ...         x[i] *= 2
        >>> x = kd.to_device(np.ones(1000))
        >>> report = double.forall(x.size).tune(x, budget="200ms", progress=False)
        >>> report.plan.block_dim in [(64, 1, 1), (128, 1, 1)]
        True
        >>> bool((x.copy_to_host() == 1).all())
        True
        """
        from kerneldsl.streams.current import refuse_waiting
        from kerneldsl.tuning.search import TuningOptions
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
        """Return a function that binds the same launch with a plan.

        Native code makes each launch from the first one. A launch through Python takes longer than
        many kernels, so that its time would be measured instead.
        """
        kernel, shape = self.kernel, self._shape

        def bind(plan: LaunchPlan) -> Callable[[], object]:
            assert shape.extent is not None
            launch = kernel.forall(*shape.extent, stream=shape.stream, plan=plan)
            return launch.bind(*args)  # type: ignore[no-any-return]

        return bind

    def _tune_first(self, args: tuple[Any, ...], policy: TuningPolicy) -> None:
        """Tune the launch in the time of a policy if no plan is decided yet."""
        from kerneldsl.tuning.first_launch import tune_first_launch

        if tune_first_launch(self._request(args), args, self._bind_with(args), policy):
            pass_over_prepared()


def _read_processes(processes: Any) -> int | None:
    """Read a number of processes.

    - raises `ArgumentValueError` if it is no int of 1 or more.
    """
    if processes is None or (type(processes) is int and processes >= 1):
        return processes
    raise wrong_value(
        "processes",
        processes,
        "It must be an int, 1 or more, or None for as many as there are cores",
    )


def pass_over_prepared() -> None:
    """Send launches that native code repeats through Python again: plans may have changed."""
    machine = sys.modules.get("kerneldsl.launch.native.machine")
    if machine is not None:  # else nothing was prepared
        machine.begin_generation()
