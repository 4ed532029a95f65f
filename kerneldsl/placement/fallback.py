"""Fallback of launches from a GPU to the CPU, and its warnings.

This module decides, and :mod:`~kerneldsl.launch.dispatch` acts.
:mod:`~kerneldsl.launch.arguments.staging` reports how far a launch had proceeded. The rules and
their reasons are in ``docs/adr/0007``:

- only faults of the device or its compiler, never mistakes of the user;
- only if nothing had begun, or every written array still has its original unchanged;
- never a kernel that failed while it ran, nor one that may have caused the loss of the device.
"""

from __future__ import annotations

import os
from typing import Literal, TypeAlias, cast

from kerneldsl.errors import (
    ArgumentValueError,
    CompileError,
    DeviceCodeError,
    DeviceLostError,
    DriverCompileError,
    DriverError,
    DriverInitializationError,
    FallbackWarning,
    KernelError,
    KernelImageError,
    LaunchError,
    StreamError,
    TargetUnavailableError,
    ToolMissingError,
)
from kerneldsl.errors.values import safe_repr
from kerneldsl.utilities import environment
from kerneldsl.utilities.locks import ForkSafeLock
from kerneldsl.utilities.scoped import Choice, ScopedValue
from kerneldsl.utilities.tracebacks import warn_user

__all__ = [
    "PERMANENT",
    "RECOVERABLE",
    "Policy",
    "accept_missing_device",
    "announce",
    "fallback",
    "fallback_policy",
    "may_recover",
    "reason_of",
]

#: The policies for a launch that cannot run on its GPU.
Policy: TypeAlias = Literal["warn", "silent", "never"]

_POLICIES = ("warn", "silent", "never")
_SILENCE = (
    "kd.fallback('silent') or KERNELDSL_FALLBACK=silent silences this warning, 'never' makes it an "
    "error"
)

#: Errors that may lead to a fallback. Others are errors of the user, or defects of kerneldsl, which
#: must be reported.
RECOVERABLE = (CompileError, ToolMissingError, DriverError, TargetUnavailableError)
#: Failures while a kernel ran, and launch shapes that the device does not allow. Also streams that
#: are closed or on another device, and wrong CUDA C++, PTX or cubins of the program.
_NEVER = (LaunchError, StreamError, DeviceCodeError)
#: Errors that the next launch would have, too.
PERMANENT = (CompileError, ToolMissingError, KernelImageError, DriverCompileError)

_choices: ScopedValue[Policy] = ScopedValue("kerneldsl_fallback")
#: Warnings of this process that belong to no kernel.
_announced: set[tuple[str, str]] = set()
_lock = ForkSafeLock()
_has_forked = False


class fallback(Choice[Policy]):
    """Choose the action when a launch for a GPU cannot run there.

    A plain call such as ``kd.fallback("never")`` is valid for the whole process. ``with
    kd.fallback("silent"):`` is valid in this context (thread or asyncio task) until the block ends.
    The default is ``KERNELDSL_FALLBACK``, or else ``"warn"``.

    Parameters
    ----------
    policy : {"warn", "silent", "never"}
        ``"warn"`` runs the launch on the CPU, with a `FallbackWarning` once for each kernel and
        reason. ``"silent"`` runs it without a warning. ``"never"`` raises the error.

    Raises
    ------
    ArgumentValueError
        If the policy is not one of these.

    Notes
    -----
    A launch falls back if a GPU was requested (``kd.use``, ``KERNELDSL_TARGET``) and none is
    usable. It also falls back if compiling, loading, allocating, copying in or starting fails, and
    the user is not the cause. Both need that nothing has begun on the device, or that every written
    array still has an unmodified original in host memory. Otherwise the error is raised, and lists
    the arguments that may be half-written. :func:`kerneldsl.stats` counts fallbacks and their
    reasons.

    A kernel that failed while it ran, by an illegal address for example, never runs again on the
    CPU. There an access out of bounds may overwrite other memory of the process without an error.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> with kd.fallback("never"):
    ...     kd.fallback_policy()
    'never'
    """

    __slots__ = ()
    _scope = _choices

    def __init__(self, policy: Policy) -> None:
        if not isinstance(policy, str) or policy not in _POLICIES:
            raise ArgumentValueError(
                f"fallback policy {safe_repr(policy)} is unknown",
                value=policy,
                limit='A policy is "warn", "silent" or "never"',
            )
        super().__init__(policy)

    def __repr__(self) -> str:
        return f"kerneldsl.fallback({self._value!r})"


def fallback_policy() -> Policy:
    """Return the current policy; see :class:`kerneldsl.fallback`.

    - raises `ArgumentValueError` if the value of ``KERNELDSL_FALLBACK`` is not a policy.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> with kd.fallback("silent"):
    ...     kd.fallback_policy()
    'silent'
    """
    chosen = _choices.current()
    if chosen is not None:
        return chosen
    return cast(Policy, environment.choice("KERNELDSL_FALLBACK") or "warn")


# ------------------------------------------------------------------------------- deciding


def may_recover(error: KernelError, kernel: str) -> bool:
    """Return whether the CPU may run a launch that failed with an error.

    - `error`: the error of the launch.
    - `kernel`: name of the kernel's function.
    """
    if not isinstance(error, RECOVERABLE) or isinstance(error, _NEVER):
        return False
    if type(error) is DriverError:  # not classified, so it may be anything
        return False
    if isinstance(error, DeviceLostError):
        return not error.is_news and not error.may_be_due_to(kernel)
    if isinstance(error, DriverError) and error.is_fatal:
        return False  # what takes the device away must be seen; the launches after it may go on
    if isinstance(error, DriverInitializationError):
        return not _has_forked  # there the driver was lost by the fork: the remedy is to spawn
    return True


def reason_of(error: KernelError) -> str:
    """Return a short name of the cause, by which fallbacks are counted."""
    return error.name if isinstance(error, DriverError) else type(error).__name__


# ------------------------------------------------------------------------------- telling


def accept_missing_device(asked: str, error: TargetUnavailableError) -> None:
    """Warn that the CPU replaces an unusable device, once for each such device.

    - raises `TargetUnavailableError` if the policy is ``"never"``.
    """
    policy = fallback_policy()
    if policy == "never":
        raise error
    environment.logger.info("the cpu stands in for %s: %s", asked, error)
    if policy == "warn":
        _warn_once(
            _announced, (asked, error.what), f"kernels run on the CPU instead of {asked}", error
        )


def announce(kernel: str, device: str, error: KernelError, announced: set[tuple[str, str]]) -> None:
    """Log that a launch runs on the CPU instead; warn once for each kernel and reason.

    - `kernel`, `device`: the kernel, and the device that it was for.
    - `error`: the error of the launch there.
    - `announced`: earlier warnings about this kernel.
    """
    reason = reason_of(error)
    environment.logger.info("%s runs on the cpu instead of %s: %s", kernel, device, error)
    if fallback_policy() == "warn":
        _warn_once(
            announced, (device, reason), f"{kernel} runs on the CPU instead of {device}", error
        )


def _warn_once(
    known: set[tuple[str, str]], item: tuple[str, str], what: str, error: KernelError
) -> None:
    """Warn at the nearest line of the user's code, unless that was done before."""
    with _lock:
        if item in known:
            return
        known.add(item)
    why = error.args[0].partition("\n")[0]  # without excerpts of source and logs
    try:
        warn_user(f"{what}: {why} {_SILENCE}.", FallbackWarning)
    except FallbackWarning:  # turned into an error, which stops this launch and the next one too
        with _lock:
            known.discard(item)
        raise


def _note_fork() -> None:
    global _has_forked  # noqa: PLW0603 -- a process is forked or it is not
    _has_forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)
