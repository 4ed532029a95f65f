"""Placement: the choice of the device of a launch.

The order is: the device of the arguments; an active ``with kd.use(…)``, or else the last plain
``kd.use(…)``; ``KERNELDSL_TARGET``; the device with the highest score
(:mod:`kerneldsl.placement.scores`). A ``with`` that contradicts device arguments is an error.
Arguments take precedence over a plain call and the environment.
"""

from __future__ import annotations

import os
from typing import Self

from kerneldsl.contract import Device, DeviceLike, MemoryType, Target
from kerneldsl.errors import (
    ArgumentTypeError,
    DeviceMismatchError,
    KernelError,
    TargetUnavailableError,
    UnknownTargetError,
)
from kerneldsl.errors.values import safe_repr
from kerneldsl.language import product_precision
from kerneldsl.placement.registry import (
    get_target,
    hardware_targets,
    require_target,
    target_names,
    target_of_memory,
)
from kerneldsl.utilities import environment
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import format_count
from kerneldsl.utilities.locks import ForkSafeLock
from kerneldsl.utilities.scoped import Choice, ScopedValue
from kerneldsl.utilities.tracebacks import shorten_errors

__all__ = [
    "FallbackDevice",
    "actual",
    "check_target_spec",
    "chosen_device",
    "context_device",
    "current_device",
    "current_target",
    "device_of",
    "device_of_memory",
    "host_device",
    "resolve",
    "targets",
    "use",
    "used_devices",
    "why_current",
]


@dataclass(frozen=True)
class FallbackDevice:
    """The CPU, as a replacement for a chosen device that cannot be used."""

    #: The device where kernels run.
    device: Device
    #: The requested device.
    asked: str
    #: The reason why the requested device cannot be used.
    missing: TargetUnavailableError

    def __str__(self) -> str:
        return self.asked


#: Most digits of a device's index; Python refuses to read numbers of thousands of digits.
_MAX_DIGITS = 10
#: The devices that were used so far, by target and index.
_used: dict[tuple[str, int], Device] = {}
_lock = ForkSafeLock()
_choices: ScopedValue[Device | FallbackDevice] = ScopedValue("kerneldsl_use")
#: The device of the innermost active ``with`` of this context; `with stream:` sets it, too.
context_device = _choices.in_context
#: Target that ``KERNELDSL_TARGET`` named at the last read.
_from_environment: tuple[str, Device | FallbackDevice, Target | None] | None = None
_detected: Device | None = None


def device_of(spec: DeviceLike) -> Device:
    """Return the device that a text such as ``"cuda:1"``, a device or its description names.

    - raises `UnknownTargetError` if the target is unknown or the index is not a number.
    - raises `TargetUnavailableError` if the target, or this device of it, cannot be used on this
      machine.
    - raises `DeviceMismatchError` if the target has no device of that index.
    """
    name, index = _name_and_index(spec)
    target = get_target(name)
    found = target.devices()
    if not found:
        reason = target.unavailable_reason() or "it has no device"
        raise TargetUnavailableError(
            f"the target {name!r} cannot be used here: {reason}", value=name
        )
    if index >= len(found):
        raise DeviceMismatchError(
            f"there is no device {name}:{index}",
            value=index,
            limit=f"The target {name!r} has {format_count(len(found), 'device')} here: "
            + ", ".join(f"{name}:{d.index} ({d.name})" for d in found),
        )
    device = found[index]
    if _used.get((name, index)) is device:
        return device
    problem = device.unusable_reason()
    if problem is not None:
        raise TargetUnavailableError(
            f"the device {name}:{index} ({device.name}) cannot be used: {problem}",
            value=str(device),
            limit=f"Devices of {name!r} that can be used: "
            + (", ".join(str(d) for d in found if d.unusable_reason() is None) or "none"),
        )
    with _lock:
        _used[name, index] = device
    return device


def _name_and_index(spec: object) -> tuple[str, int]:
    if not isinstance(spec, str):
        from kerneldsl.contract import DeviceInfo  # few programs name a device by one

        if isinstance(spec, Device | DeviceInfo):
            return spec.target, spec.index
    name, colon, number = _text_of(spec).strip().partition(":")
    is_number = number.isascii() and number.isdigit() and len(number) < _MAX_DIGITS
    # A device of another library, such as torch's, is identified by its text.
    if (colon and not is_number) or (type(spec) is not str and name not in target_names()):
        raise UnknownTargetError(
            f"{safe_repr(spec)} names no device",
            value=spec,
            limit=f"A device is a target ({', '.join(target_names())}), or a target, a colon "
            f"and an index, such as '{hardware_targets()[0]}:1'",
            remedy="Name it so, or pass a device of kd.devices()",
        )
    return name, int(number) if colon else 0


def check_target_spec(spec: str) -> None:
    """Raise `UnknownTargetError` if ``KERNELDSL_TARGET`` names no target; none is made for it."""
    try:
        require_target(_name_and_index(spec)[0])
    except UnknownTargetError as error:
        raise _of_environment(error, spec) from error


def _text_of(spec: object) -> str:
    try:
        return str(spec)
    except Exception:  # noqa: BLE001 -- a foreign object may raise anything
        return ""


def host_device() -> Device:
    """Return the device that runs kernels on the host's processors."""
    return device_of(target_of_memory(MemoryType.CPU))


def device_of_memory(kind: int, index: int) -> Device:
    """Return the device that takes memory of a type and index, as DLPack counts both."""
    name = target_of_memory(kind)
    # Page-locked memory is the host's, whichever device it was allocated for.
    index = 0 if name == target_of_memory(MemoryType.CPU) else index
    return _used.get((name, index)) or device_of(f"{name}:{index}")


class use(Choice["Device | FallbackDevice"]):
    """Choose the device where kernels run and arrays are made.

    A plain call such as ``kd.use("cuda")`` is valid for the whole process. ``with kd.use("cpu"):``
    is valid in this context (thread or asyncio task) until the block ends.

    Parameters
    ----------
    device : str, Device or DeviceInfo, optional
        ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"null"``, the name of an installed target, or a
        device of :func:`devices`. Without it, the device stays.
    mma : str, optional
        With ``"reference"``, ``kd.mma`` adds products in order in every kernel, without tensor
        cores, so that bits are equal on all targets. ``"fast"`` leaves it to each ``kd.mma``. Also
        in a ``with`` it is valid for the whole process, until the block ends.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        If there is no argument, or `mma` is neither.
    UnknownTargetError
        If there is no such target.
    TargetUnavailableError
        If it cannot be used on this machine and the policy of :class:`kerneldsl.fallback` is
        ``"never"``. Under other policies the CPU replaces it, with a `FallbackWarning`.
    DeviceMismatchError
        If it has no device of that index.

    Notes
    -----
    Python makes the call before it enters a ``with``, so that the choice is process-wide for an
    instant. Another thread that launches just then, outside of any ``with``, may use it.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> with kd.use("cpu"):
    ...     x = kd.zeros(3)
    >>> str(x.device)
    'cpu'
    """

    __slots__ = ("_mma", "_mma_before")
    _scope = _choices

    @shorten_errors
    def __init__(self, device: DeviceLike | None = None, *, mma: str | None = None) -> None:
        if device is None and mma is None:
            raise ArgumentTypeError(
                "kd.use() was called with neither a device nor mma=",
                remedy='Name a device of kd.devices(), or write kd.use(mma="reference")',
            )
        # Nothing is chosen if one of the arguments is wrong.
        if mma is not None:
            product_precision.check(mma)
        if device is not None:
            super().__init__(_device_or_fallback(device))
        self._mma = mma
        self._mma_before = None if mma is None else product_precision.choose(mma)

    def __enter__(self) -> Self:
        return super().__enter__() if hasattr(self, "_value") else self

    def __exit__(self, *exc: object) -> None:
        if hasattr(self, "_value"):
            super().__exit__(*exc)
        if self._mma_before is not None:
            product_precision.choose(self._mma_before)

    def __repr__(self) -> str:
        given = [repr(str(self._value))] if hasattr(self, "_value") else []
        given += [] if self._mma is None else [f"mma={self._mma!r}"]
        return f"kerneldsl.use({', '.join(given)})"


def current_device() -> Device:
    """Return the current device, on which a kernel runs unless its arguments have a device."""
    # Each call of a library function on NumPy arrays is here: this is `_chosen`, and `actual`.
    chosen = context_device.get() or _choices.process_wide or _not_chosen()
    return chosen.device if isinstance(chosen, FallbackDevice) else chosen


def chosen_device(device: DeviceLike | None) -> Device:
    """Return the named device, or `current_device` for ``None``."""
    return current_device() if device is None else device_of(device)


def actual(chosen: Device | FallbackDevice) -> Device:
    """Return the device where kernels run under a choice."""
    return chosen.device if isinstance(chosen, FallbackDevice) else chosen


def _chosen() -> Device | FallbackDevice:
    """Return the current choice."""
    return context_device.get() or _choices.process_wide or _not_chosen()


def _not_chosen() -> Device | FallbackDevice:
    """Return the device that the environment names, or else the best one."""
    spec = environment.target_spec()
    if spec is not None:
        return _device_in_environment(spec)
    return _detected or _detect()


def _device_or_fallback(spec: DeviceLike) -> Device | FallbackDevice:
    """Return the named device, or the CPU as its replacement if the fallback policy permits."""
    try:
        return device_of(spec)
    except TargetUnavailableError as error:
        return _fallback_device(str(spec).strip(), error)


def _fallback_device(spec: str, error: TargetUnavailableError) -> FallbackDevice:
    """Return the CPU as the replacement for a device that cannot be used.

    - raises `TargetUnavailableError` if the policy is ``"never"``, or the device was used before.
      In the second case it was lost, by a fork for example, and its arrays with it.
    """
    from kerneldsl.placement.fallback import accept_missing_device

    name = spec.partition(":")[0]
    with _lock:
        was_usable = any(target == name for target, _ in _used)
    if was_usable:
        raise error
    accept_missing_device(spec, error)
    return FallbackDevice(host_device(), spec, error)


def _device_in_environment(spec: str) -> Device | FallbackDevice:
    global _from_environment  # noqa: PLW0603 -- the environment is the process's
    if _from_environment is not None and _from_environment[0] == spec:
        _, found, target = _from_environment
        if target is None or found in target.devices():
            return found
    try:
        found = device_of(spec)
    except (UnknownTargetError, TargetUnavailableError, DeviceMismatchError) as error:
        named = _of_environment(error, spec)
        if not isinstance(named, TargetUnavailableError):
            raise named from error
        found = _fallback_device(spec, named)
    target = None if isinstance(found, FallbackDevice) else get_target(found.target)
    _from_environment = (spec, found, target)
    return found


def _of_environment(error: KernelError, spec: str) -> KernelError:
    return type(error)(
        f"KERNELDSL_TARGET is {safe_repr(spec)}: {error.what}",
        value=spec,
        limit=error.limit,
        remedy=error.remedy,
    )


def _detect() -> Device:
    global _detected  # noqa: PLW0603 -- found once for the process
    for name in hardware_targets():
        reason = get_target(name).unavailable_reason()
        said = "is usable" if reason is None else f"is not used: {reason}"
        environment.logger.debug("%s %s", name, said)
    from kerneldsl.placement.scores import best_device_of, usable_devices

    _detected = device_of(best_device_of(usable_devices()))
    return _detected


def why_current() -> str:
    """Return the reason for the current device, in words."""
    chosen = _chosen()
    asked = str(chosen)
    if context_device.get() is not None:
        why = f"An active `with` chose {asked}"
    elif _choices.process_wide is not None:
        why = f"kd.use({asked!r}) was called"
    elif environment.target_spec() is not None:
        why = f"KERNELDSL_TARGET is {environment.target_spec()!r}"
    else:
        why = "It has the highest score of the devices that can be used"
    if isinstance(chosen, FallbackDevice):
        why += f"; the CPU stands in for it: {chosen.missing.what}"
    return why


def resolve(wanted: Device | None) -> Device | FallbackDevice:
    """Return the device of a launch with arguments on a device, or on any (``None``)."""
    if wanted is None:
        return _chosen()
    scoped = _choices.in_context.get()
    if scoped is None:
        scoped = _choices.process_wide
        is_fallback = isinstance(scoped, FallbackDevice) and scoped.device is wanted
        return scoped if scoped is not None and is_fallback else wanted
    if actual(scoped) is not wanted:
        raise DeviceMismatchError(
            f"an argument is on {wanted}, but kd.use('{actual(scoped)}') is active",
            value=str(wanted),
            limit="A `with kd.use(…)` and device arguments must name the same device",
            remedy="Copy the argument with .copy_to_host(), or launch outside of the `with`",
        )
    return scoped


def current_target() -> str:
    """Return the current device as :class:`use` takes it, such as ``"cpu"`` or ``"cuda:0"``.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> with kd.use("cpu"):
    ...     kd.current_target()
    'cpu'
    """
    return str(current_device())


def targets() -> tuple[str, ...]:
    """Return the names of the known targets, whether or not they can be used on this machine.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> {"cpu", "cuda", "null"} <= set(kd.targets())
    True
    """
    return target_names()


def used_devices() -> tuple[Device, ...]:
    """Return every usable device that was used so far."""
    with _lock:
        # A forked child inherits devices with drivers that did not survive the fork.
        return tuple(d for d in _used.values() if d.unusable_reason() is None)


def _forget_detection() -> None:
    global _detected  # noqa: PLW0603 -- found once for the process
    _detected = None


# A driver that the parent has initialized is lost to a forked child, so the child looks again.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_detection)
