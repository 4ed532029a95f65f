"""Placement: the choice of the device where a kernel runs.

The order is: the arguments' own device; an active ``with kd.use(…)``, else the last plain
``kd.use(…)``; ``KERNELDSL_TARGET``; the best device by its score
(:mod:`kerneldsl.placement.scores`). A ``with`` that contradicts device arguments is an error; the
plain call and the environment yield to arguments.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from kerneldsl.contract import Device, DeviceInfo, DeviceLike, MemoryType
from kerneldsl.errors import (
    DeviceMismatchError,
    KernelError,
    TargetUnavailableError,
    UnknownTargetError,
)
from kerneldsl.errors.values import safe_repr
from kerneldsl.placement.registry import (
    get_target,
    hardware_targets,
    is_hardware,
    require_target,
    target_names,
    target_of_memory,
)
from kerneldsl.utilities import environment
from kerneldsl.utilities.formatting import AsTable, format_bytes, format_count
from kerneldsl.utilities.locks import ForkSafeLock
from kerneldsl.utilities.scoped import Choice, Scope
from kerneldsl.utilities.tracebacks import shorten_errors

__all__ = [
    "Devices",
    "StandIn",
    "actual",
    "check_target_spec",
    "chosen_device",
    "context_device",
    "current_device",
    "current_target",
    "device_info",
    "device_of",
    "device_of_memory",
    "devices",
    "host_device",
    "resolve",
    "targets",
    "use",
    "used_devices",
    "why_current",
]


@dataclass(frozen=True)
class StandIn:
    """The CPU, in place of a device that was chosen and cannot be used; choices alone hold one.

    Parameters
    ----------
    device : Device
        Where kernels run instead.
    asked : str
        What was asked for.
    missing : TargetUnavailableError
        Why that cannot be used.
    """

    device: Device
    asked: str
    missing: TargetUnavailableError

    def __str__(self) -> str:
        return self.asked


#: Of the index of a device; Python reads no number of thousands.
_MAX_DIGITS = 10
#: The devices that were used so far, by target and index.
_used: dict[tuple[str, int], Device] = {}
_lock = ForkSafeLock()
_choices: Scope[Device | StandIn] = Scope("kerneldsl_use")
#: The device of the innermost active ``with`` of this context; `with stream:` sets it, too.
context_device = _choices.in_context
#: What ``KERNELDSL_TARGET`` named when it was last read.
_from_environment: tuple[str, Device | StandIn] | None = None
_detected: Device | None = None


def device_of(spec: DeviceLike) -> Device:
    """Return the device that a text such as ``"cuda:1"``, a device or its description names.

    Raises
    ------
    UnknownTargetError
        If the target is unknown or the index is not a number.
    TargetUnavailableError
        If the target, or this device of it, cannot be used on this machine.
    DeviceMismatchError
        If the target has no device of that index.
    """
    if isinstance(spec, Device | DeviceInfo):
        name, index = spec.target, spec.index
    else:
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
    name, colon, number = _text_of(spec).strip().partition(":")
    is_number = number.isascii() and number.isdigit() and len(number) < _MAX_DIGITS
    # Another library's device, such as torch's, goes by its text.
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
    """Return the device whose kernels run on the host's processors."""
    return device_of(target_of_memory(MemoryType.CPU))


def device_of_memory(kind: int, index: int) -> Device:
    """Return the device that takes memory of a type and index, as DLPack counts both."""
    name = target_of_memory(kind)
    # Page-locked memory is the host's, whichever device it was allocated for.
    return device_of(name if name == target_of_memory(MemoryType.CPU) else f"{name}:{index}")


class use(Choice["Device | StandIn"]):
    """Choose where kernels run and arrays are made.

    ``kd.use("cuda")`` as a plain call holds for the whole process; ``with kd.use("cpu"):`` holds in
    this context (thread or asyncio task) until the block ends.

    Parameters
    ----------
    device : str, Device or DeviceInfo
        ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"null"``, the name of an installed target, or a
        device of :func:`devices`.

    Raises
    ------
    UnknownTargetError
        If no such target is known.
    TargetUnavailableError
        If it cannot be used on this machine and :class:`kerneldsl.fallback` says ``"never"``; the
        message says why. Else the CPU takes its place, with a `FallbackWarning`.
    DeviceMismatchError
        If it has no device of that index.

    Notes
    -----
    Python calls before it enters a ``with``, so for the instant in between the choice is
    process-wide; another thread that launches just then, outside of any ``with``, may see it.
    """

    __slots__ = ()
    _scope = _choices

    @shorten_errors
    def __init__(self, device: DeviceLike) -> None:
        super().__init__(_device_or_stand_in(device))

    def __repr__(self) -> str:
        return f"kerneldsl.use({str(self._value)!r})"


def current_device() -> Device:
    """Return where a kernel whose arguments name no device runs now."""
    return actual(_chosen())


def chosen_device(device: DeviceLike | None) -> Device:
    """Return the device that is named, or `current_device` where none is."""
    return current_device() if device is None else device_of(device)


def actual(chosen: Device | StandIn) -> Device:
    """Return where kernels run under a choice."""
    return chosen.device if isinstance(chosen, StandIn) else chosen


def _chosen() -> Device | StandIn:
    """Return what holds here and now."""
    chosen = _choices.in_context.get()
    if chosen is not None:
        return chosen
    if _choices.process_wide is not None:
        return _choices.process_wide
    spec = environment.target_spec()
    if spec is not None:
        return _device_in_environment(spec)
    return _detected or _detect()


def _device_or_stand_in(spec: DeviceLike) -> Device | StandIn:
    """Return the device that is named, or the CPU in its place where fallback allows that."""
    try:
        return device_of(spec)
    except TargetUnavailableError as error:
        return _stand_in(str(spec).strip(), error)


def _stand_in(spec: str, error: TargetUnavailableError) -> StandIn:
    """Return the CPU in place of a device that cannot be used.

    Raises
    ------
    TargetUnavailableError
        The policy is ``"never"``; or the device was in use before, so that it was lost (in a fork,
        say) and its arrays with it.
    """
    from kerneldsl.placement.fallback import accept_missing_device

    name = spec.partition(":")[0]
    with _lock:
        was_usable = any(target == name for target, _ in _used)
    if was_usable:
        raise error
    accept_missing_device(spec, error)
    return StandIn(host_device(), spec, error)


def _device_in_environment(spec: str) -> Device | StandIn:
    global _from_environment  # noqa: PLW0603 -- the environment is the process's
    if _from_environment is not None and _from_environment[0] == spec:
        found = _from_environment[1]
        if isinstance(found, StandIn):
            return found
        if found in get_target(found.target).devices():
            return found
    try:
        found = device_of(spec)
    except (UnknownTargetError, TargetUnavailableError, DeviceMismatchError) as error:
        named = _of_environment(error, spec)
        if not isinstance(named, TargetUnavailableError):
            raise named from error
        found = _stand_in(spec, named)
    _from_environment = (spec, found)
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
    """Say in words why kernels without device arguments run where they do now."""
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
    if isinstance(chosen, StandIn):
        why += f"; the CPU stands in for it: {chosen.missing.what}"
    return why


def resolve(wanted: Device | None) -> Device | StandIn:
    """Return where a launch runs whose arguments live on a device, or anywhere (``None``)."""
    if wanted is None:
        return _chosen()
    scoped = _choices.in_context.get()
    if scoped is None:
        scoped = _choices.process_wide
        is_stand_in = isinstance(scoped, StandIn) and scoped.device is wanted
        return scoped if scoped is not None and is_stand_in else wanted
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
    """Return the names of the known targets, whether or not they can be used on this machine."""
    return target_names()


class Devices(AsTable, tuple[DeviceInfo, ...]):
    """Described devices, in an order; shows as a table, each of them as a longer one."""

    __slots__ = ()

    def _table(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        from kerneldsl.contract.info_display import DEVICE_HEADERS, device_row, known

        rows: list[tuple[object, ...]] = []
        for info in self:
            total = known(info, "total_memory_bytes")
            rows.append((*device_row(info), None if total is None else format_bytes(total)))
        return (*DEVICE_HEADERS, "memory"), rows


@shorten_errors
def devices(target: str | None = None) -> Devices:
    """Describe the devices of a target; without one, of every usable target with real hardware.

    Parameters
    ----------
    target : str, optional
        Such as ``"cuda"``; an unusable target has no devices.

    Returns
    -------
    Devices
        A tuple of :class:`DeviceInfo` that shows as a table, in the driver's order, which
        ``CUDA_VISIBLE_DEVICES`` may have changed; each can be passed to :class:`use`.

    Raises
    ------
    UnknownTargetError
        If no such target is known.
    """
    names = (target,) if target is not None else filter(is_hardware, target_names())
    found = (get_target(name) for name in names)
    return Devices(device.describe() for each in found for device in each.devices())


@shorten_errors
def device_info(device: DeviceLike | None = None) -> DeviceInfo:
    """Describe one device.

    Parameters
    ----------
    device : str, Device or DeviceInfo, optional
        As :class:`use` takes it; by default the one where kernels run now.

    Raises
    ------
    UnknownTargetError, TargetUnavailableError, DeviceMismatchError
        As :class:`use` raises them.
    """
    return chosen_device(device).describe()


def used_devices() -> tuple[Device, ...]:
    """Return every device that was used so far and can be waited for."""
    with _lock:
        # A forked child inherits devices whose driver did not survive the fork.
        return tuple(d for d in _used.values() if d.unusable_reason() is None)


def _forget_detection() -> None:
    global _detected  # noqa: PLW0603 -- found once for the process
    _detected = None


# A driver that the parent has initialized is lost to a forked child, so the child looks again.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_detection)
