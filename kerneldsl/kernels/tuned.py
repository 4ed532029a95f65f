"""``kd.tune``: a budget for the first launch of a kind, of a kernel, in a block or everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from kerneldsl.errors import ArgumentTypeError
from kerneldsl.errors.values import safe_repr
from kerneldsl.kernels.kernel import Kernel
from kerneldsl.kernels.tunable import pass_over_prepared
from kerneldsl.launch.tuning_policy import (
    CacheState,
    TuningPolicy,
    policy_scope,
    read_budget,
    read_cache_state,
)
from kerneldsl.utilities.scoped import Choice
from kerneldsl.utilities.tracebacks import shorten_errors

__all__ = ["tune"]

K = TypeVar("K", bound=Kernel[..., Any])


class tune(Choice[TuningPolicy]):
    """Tune the first launch of each kind, within a budget.

    Use it in one of three ways. ``@kd.tune`` above ``@kd.kernel`` tunes that kernel. ``with
    kd.tune("2s"):`` tunes every launch in this context (thread or asyncio task) until the block
    ends, also launches of libraries. A plain call tunes the launches of the whole process. The
    block takes precedence over the kernel, and the kernel over the process.

    Only launches over an extent (``kernel.forall(n)``) are tuned. If the kind of a launch was not
    tuned before and has no record, plans are measured first, as :meth:`kerneldsl.Launch.tune` does.
    The kernel then gets the arguments as they were. Later launches take the fastest plan, in this
    process and, through the cache, in others. Launches of NumPy arrays on a GPU, in debug mode, or
    in a captured stream are not tuned.

    Parameters
    ----------
    budget : float or str, optional
        For each kind of launch: seconds, ``"5s"``, ``"2min"``. ``"full"`` measures every plan.
        ``"cached"`` uses records and measures nothing, as launches do by default. ``"never"``
        uses no records. Under the last two, a launch with a plan keeps it.
    cache : {"warm", "cold"}, optional
        State of the last-level cache of the device for timed launches.
    reference : callable, optional
        Computes the expected results from the arguments; for one kernel.
    rtol : float, optional
        Largest relative difference of floating-point results from the expected ones.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        If `budget` or `cache` has an invalid value, or the decorated object is not a kernel.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> @kd.tune("200ms")
    ... @kd.kernel(space=kd.Space(block=[64, 128, 256], covers=lambda c: c.block))
    ... def double(x):
    ...     i = kd.grid(1)
    ...     if i < x.size:
    ...         x[i] *= 2
    """

    __slots__ = ()
    _scope = policy_scope

    @overload
    def __new__(cls, budget: K, /) -> K: ...  # type: ignore[misc]  # @kd.tune, bare
    @overload
    def __new__(
        cls,
        budget: float | str = "5s",
        *,
        cache: CacheState = "warm",
        reference: Callable[..., Any] | None = None,
        rtol: float | None = None,
    ) -> tune: ...
    def __new__(cls, budget: Any = "5s", **options: Any) -> Any:
        if isinstance(budget, Kernel):
            return _with_policy(budget, TuningPolicy(read_budget("5s")))
        return super().__new__(cls)

    @shorten_errors
    def __init__(
        self,
        budget: float | str = "5s",
        *,
        cache: CacheState = "warm",
        reference: Callable[..., Any] | None = None,
        rtol: float | None = None,
    ) -> None:
        policy = TuningPolicy(read_budget(budget), read_cache_state(cache), reference, rtol)
        super().__init__(policy)
        pass_over_prepared()

    @shorten_errors
    def __call__(self, kernel: K) -> K:
        """Tune this kernel alone, instead of the whole process."""
        self._scope.take_out(self)
        return _with_policy(kernel, self._value)

    def __enter__(self) -> tune:
        super().__enter__()
        pass_over_prepared()
        return self

    def __repr__(self) -> str:
        return f"<kerneldsl.tune: {self._value}>"


def _with_policy(kernel: K, policy: TuningPolicy) -> K:
    if not isinstance(kernel, Kernel):
        raise ArgumentTypeError(
            f"@kd.tune was given {safe_repr(kernel)}",
            value=kernel,
            limit="It decorates a kernel",
            remedy="Swap the decorators: @kd.tune above @kd.kernel(space=…)",
        )
    kernel._tune_by(policy)
    return kernel
