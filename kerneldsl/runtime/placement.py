"""Where a kernel runs.

The order is: the arguments' own device; an active ``with kd.use(…)``, else the last plain
``kd.use(…)``; ``KERNELDSL_TARGET``; what is there (``cuda`` if it is usable, else ``cpu``). A
``with`` that contradicts device arguments is an error; the plain call and the environment yield to
arguments.
"""

from __future__ import annotations

import contextvars
import os
import weakref
from types import TracebackType
from typing import Self

from kerneldsl import environment
from kerneldsl.errors import (
    DeviceMismatchError,
    TargetUnavailableError,
    UnknownTargetError,
)
from kerneldsl.locks import ForkSafeLock
from kerneldsl.registry import get_target, target_names
from kerneldsl.target import Device, Target

__all__ = [
    "Place",
    "current_place",
    "current_target",
    "devices",
    "place_of",
    "resolve",
    "synchronize",
    "targets",
    "use",
]


class Place:
    """One device and its target; made once for each device, so places are compared by identity."""

    __slots__ = ("device", "is_host", "name", "target")

    def __init__(self, target: Target, device: Device) -> None:
        self.target = target
        self.device = device
        self.is_host = target.is_host
        self.name = str(device)

    def __repr__(self) -> str:
        return f"Place({self.name})"


_places: dict[tuple[str, int], Place] = {}
_lock = ForkSafeLock()
_scoped: contextvars.ContextVar[Place | None] = contextvars.ContextVar(
    "kerneldsl_use", default=None
)
#: Plain calls of `use`, oldest first. One that turns out to be a ``with`` is taken out again.
_plain: list[tuple[weakref.ref[use], Place]] = []
#: What the last of them says, for a reader without a lock.
_process_wide: Place | None = None
#: What ``KERNELDSL_TARGET`` named when it was last read.
_from_environment: tuple[str, Place] | None = None
_detected: Place | None = None


def place_of(spec: str | Device) -> Place:
    """Return the place that a text such as ``"cuda:1"``, or a device, names.

    Raises
    ------
    UnknownTargetError
        If the target is unknown or the index is not a number.
    TargetUnavailableError
        If the target cannot be used on this machine.
    DeviceMismatchError
        If the target has no device of that index.
    """
    if isinstance(spec, Device):
        name, index = spec.target, spec.index
    else:
        name, colon, number = str(spec).strip().partition(":")
        if colon and not (number.isascii() and number.isdigit()):
            raise UnknownTargetError(
                f"{spec!r} names no device",
                value=spec,
                limit=f"A device is a target ({', '.join(target_names())}), or a target, a colon "
                "and an index, such as 'cuda:1'",
            )
        index = int(number) if colon else 0
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
            limit=f"The target {name!r} has {len(found)} device{'s' * (len(found) != 1)} here: "
            + ", ".join(f"{name}:{d.index} ({d.name})" for d in found),
        )
    device = found[index]
    with _lock:
        place = _places.get((name, index))
        if place is None or place.device != device:
            place = _places[name, index] = Place(target, device)
        return place


class use:
    """Choose where kernels run and arrays are made.

    ``kd.use("cuda")`` as a plain call holds for the whole process; ``with kd.use("cpu"):`` holds in
    this context (thread or asyncio task) until the block ends.

    Parameters
    ----------
    device : str or Device
        ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"null"``, the name of an installed target, or a
        device of :func:`devices`.

    Raises
    ------
    UnknownTargetError
        If no such target is known.
    TargetUnavailableError
        If it cannot be used on this machine; the message says why.
    DeviceMismatchError
        If it has no device of that index.

    Notes
    -----
    Python calls before it enters a ``with``, so for the instant in between the choice is
    process-wide; another thread that launches just then, outside of any ``with``, may see it.
    """

    __slots__ = ("__weakref__", "_place", "_tokens")

    def __init__(self, device: str | Device) -> None:
        self._place = place_of(device)
        self._tokens: list[contextvars.Token[Place | None]] = []
        with _lock:
            # An entry whose object is gone can no longer become a `with` and be taken out, so
            # nothing before the newest such entry can ever count again.
            settled = [i for i, entry in enumerate(_plain) if entry[0]() is None]
            _set_plain([*_plain[settled[-1] if settled else 0 :], (weakref.ref(self), self._place)])

    def __enter__(self) -> Self:
        with _lock:
            _set_plain([entry for entry in _plain if entry[0]() is not self])
        self._tokens.append(_scoped.set(self._place))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _scoped.reset(self._tokens.pop())

    def __repr__(self) -> str:
        return f"kerneldsl.use({self._place.name!r})"


def current_place() -> Place:
    """Where a kernel whose arguments name no device runs now."""
    place = _scoped.get()
    if place is not None:
        return place
    if _process_wide is not None:
        return _process_wide
    spec = environment.target_spec()
    if spec is not None:
        return _place_in_environment(spec)
    return _detected or _detect()


def _set_plain(entries: list[tuple[weakref.ref[use], Place]]) -> None:
    global _process_wide  # noqa: PLW0603 -- what a plain call sets is process-wide
    _plain[:] = entries
    _process_wide = entries[-1][1] if entries else None


def _place_in_environment(spec: str) -> Place:
    global _from_environment  # noqa: PLW0603 -- the environment is the process's
    if _from_environment is not None and _from_environment[0] == spec:
        place = _from_environment[1]
        index = place.device.index
        if any(device is place.device for device in place.target.devices()[index : index + 1]):
            return place
    try:
        place = place_of(spec)
    except (UnknownTargetError, TargetUnavailableError, DeviceMismatchError) as error:
        raise type(error)(
            f"KERNELDSL_TARGET is {spec!r}: {error.what}",
            value=spec,
            limit=error.limit,
            remedy=error.remedy,
        ) from error
    _from_environment = (spec, place)
    return place


def _detect() -> Place:
    global _detected  # noqa: PLW0603 -- found once for the process
    reason = get_target("cuda").unavailable_reason()
    environment.logger.debug("cuda %s", "is usable" if reason is None else f"is not used: {reason}")
    _detected = place_of("cpu" if reason is not None else "cuda")
    return _detected


def resolve(wanted: Place | None) -> Place:
    """Return where a launch runs whose arguments live at a place, or anywhere (``None``)."""
    if wanted is None:
        return current_place()
    scoped = _scoped.get()
    if scoped is not None and scoped is not wanted:
        raise DeviceMismatchError(
            f"an argument lives on {wanted.name}, but kd.use({scoped.name!r}) is active",
            value=wanted.name,
            limit="A `with kd.use(…)` and device arguments must name the same device",
            remedy="Copy the argument with .copy_to_host(), or launch outside of the `with`",
        )
    return wanted


def current_target() -> str:
    """Where kernels run now, as :class:`use` takes it: ``"cpu"``, ``"cuda:0"``…"""
    return current_place().name


def targets() -> tuple[str, ...]:
    """Names of the known targets, whether or not they can be used on this machine."""
    return target_names()


def devices(target: str | None = None) -> tuple[Device, ...]:
    """Devices of a target; without one, of every usable target with real hardware.

    Parameters
    ----------
    target : str, optional
        Such as ``"cuda"``; an unusable target has no devices.

    Raises
    ------
    UnknownTargetError
        If no such target is known.
    """
    if target is not None:
        return get_target(target).devices()
    return tuple(d for n in target_names() if n != "null" for d in get_target(n).devices())


def synchronize(device: str | Device | None = None) -> None:
    """Wait until everything that was started has finished.

    Parameters
    ----------
    device : str or Device, optional
        Wait for this one alone; else for each device that was used so far.

    Raises
    ------
    DriverError
        If something that was started has failed.
    """
    if device is not None:
        waiting: tuple[Place, ...] = (place_of(device),)
    else:
        with _lock:
            # A forked child inherits places whose driver did not survive the fork.
            waiting = tuple(p for p in _places.values() if p.target.unavailable_reason() is None)
    for place in waiting:
        place.target.synchronize(place.device)


def _forget_detection() -> None:
    global _detected  # noqa: PLW0603 -- found once for the process
    _detected = None


# A driver that the parent has initialized is lost to a forked child, so the child looks again.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_detection)
