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

    ``@kd.tune`` above ``@kd.kernel`` holds for that kernel, ``with kd.tune("2s"):`` for every
    launch in this context (thread or asyncio task) until the block ends, those that a library makes
    among them, and a plain call for the whole process. What is nearest to the launch in this order
    counts: the block, the kernel, the process.

    A launch over an extent (``kernel.forall(n)``) whose kind was neither tuned here nor is recorded
    measures plans before it runs, as :meth:`kerneldsl.Launch.tune` does, and leaves to the kernel
    the arguments as they were; later ones take the fastest, in this process and, through the cache,
    in others. A launch of NumPy arrays on a GPU, in debug mode, or while its stream is captured is
    made untuned.

    Parameters
    ----------
    budget : float or str, optional
        For each kind of launch: seconds, ``"5s"``, ``"2min"``; ``"full"`` to measure every plan;
        ``"cached"`` to use records and measure nothing, as launches do without any budget;
        ``"never"`` to use no records. A launch whose plan is decided already keeps it under the
        last two.
    cache : {"warm", "cold"}, optional
        State of the device's last cache for launches that are timed.
    reference : callable, optional
        Computes from the arguments what the kernel should write; for one kernel.
    rtol : float, optional
        How far results in floating point may lie from it.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        If the budget or the cache is none of these, or something else than a kernel is decorated.

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
        """Let the budget hold for a kernel, in the place of the process."""
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
            limit="It stands above @kd.kernel",
            remedy="Swap the decorators: @kd.tune above @kd.kernel(space=…)",
        )
    kernel._tune_by(policy)
    return kernel
