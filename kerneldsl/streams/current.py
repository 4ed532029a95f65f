"""Choose the stream of launches and copies.

In this order: the given stream; the innermost active ``with stream:`` of the device; the streams of
other libraries' arguments; the default stream of the device.

Inside of the core a stream is a :class:`~kerneldsl.contract.DeviceStream`, or ``None`` for the
default stream. :func:`resolve_stream` makes it of every accepted kind of stream.
"""

from __future__ import annotations

import contextvars
import ctypes
from collections.abc import Iterable
from typing import Any, ClassVar, NoReturn, Self

from kerneldsl.contract import Device, DeviceLike, DeviceStream, names_default_stream
from kerneldsl.contract.streams import is_recorded
from kerneldsl.errors import (
    ArgumentTypeError,
    ClosedResourceError,
    DeviceMismatchError,
    KernelError,
)
from kerneldsl.errors.values import a_type, safe_repr
from kerneldsl.placement.devices import FallbackDevice, chosen_device, context_device
from kerneldsl.utilities.process_owned import ProcessOwned
from kerneldsl.utilities.shown import Shown
from kerneldsl.utilities.tracebacks import shorten_errors_of

__all__ = [
    "BaseStream",
    "active_stream",
    "ambient_stream",
    "are_in_use",
    "are_some_nonblocking",
    "as_stream",
    "in_use_word",
    "launch_stream",
    "note_uses",
    "refuse_waiting",
    "resolve_stream",
    "stream_of",
]

#: Whether a stream was ever made; launches need no look-up of a stream before.
are_in_use = False
#: Copy of `are_in_use` for native code.
in_use_word = (ctypes.c_int64 * 1)(0)
#: Whether a stream was ever made that does not wait for the default stream.
are_some_nonblocking = False

#: Types that are passed by mistake, and would be ignored on synchronous devices.
_NEVER_STREAMS = (bool, float, str, tuple, list)

#: The active ``with stream:`` blocks of this context, outermost first, each with the device that
#: was chosen before it.
_active: contextvars.ContextVar[tuple[tuple[BaseStream, Device | FallbackDevice | None], ...]] = (
    contextvars.ContextVar("kerneldsl_streams", default=())
)


@shorten_errors_of()
class BaseStream(Shown, ProcessOwned):
    """The part of a stream that events, graphs and copies use.

    Programs use :class:`~kerneldsl.streams.streams.Stream`, which adds methods with events and
    graphs.
    """

    __slots__ = (
        "__weakref__",
        "_is_closed",
        "_is_default",
        "_stream",
        "device",
        "is_blocking",
        "priority",
    )

    #: The default streams of devices, one object each.
    _defaults: ClassVar[dict[tuple[type[BaseStream], Device], Any]] = {}

    def _begin(self, device: Device, stream: DeviceStream) -> None:
        global are_in_use, are_some_nonblocking  # noqa: PLW0603 -- facts about the process
        self.device = device
        self._stream = stream
        self._is_default = False
        self._is_closed = False
        self.priority = stream.priority
        self.is_blocking = stream.is_blocking
        are_in_use = True
        in_use_word[0] = 1
        if not stream.is_blocking:
            are_some_nonblocking = True

    @classmethod
    def from_foreign(cls, stream: Any, device: DeviceLike | None = None) -> Self:
        """Wrap a stream of another library.

        Parameters
        ----------
        stream : object
            A stream of torch, CuPy, numba or cuda.core, or another object with
            ``__cuda_stream__``, or a handle as ``int``. It is kept alive.
        device : str or Device, optional
            The device; by default that of the object, or else the current device.

        Returns
        -------
        Stream
            A stream over the same queue; closing it does not close the other library's stream. The
            legacy default stream is returned as :func:`kerneldsl.default_stream`.

        Raises
        ------
        ArgumentTypeError
            If the object is not a stream.
        DeviceMismatchError
            If it is on another device.
        """
        if isinstance(stream, cls):
            return stream
        try:
            return cls._adopt(stream, device)
        except KernelError:
            raise
        except Exception as error:
            raise ArgumentTypeError(
                f"{safe_repr(stream)} is not a stream",
                value=stream,
                limit=f"Reading its device or handle fails: {type(error).__name__}",
            ) from error

    @classmethod
    def _adopt(cls, stream: Any, device: DeviceLike | None) -> Self:
        if stream is None:
            raise ArgumentTypeError(
                "None is not a stream",
                value=None,
                limit="A stream is one of torch, CuPy, numba or cuda.core, or a handle",
                remedy="Take the default stream with kd.default_stream()",
            )
        from kerneldsl.streams.stream_handles import adopt, device_of_foreign

        chosen = chosen_device(device)
        device = device_of_foreign(stream, chosen) if device is None else chosen
        if device.is_synchronous:
            raise ArgumentTypeError(
                f"{a_type(stream)} is not a stream of {device}",
                value=stream,
                limit="Launches there finish before they return, in no other library's stream",
                remedy="Name the device: kd.Stream.from_foreign(stream, device=…)",
            )
        found = adopt(device, stream)
        if names_default_stream(found.handle):
            return cls._default(device)
        self = cls.__new__(cls)
        self._begin(device, found)
        return self

    @classmethod
    def _default(cls, device: Device) -> Self:
        """Return the default stream of a device, always the same object."""
        key = cls, device
        if key not in cls._defaults:
            made, stream = cls.__new__(cls), device.wrap_stream(None)
            stream.is_blocking = True
            made._begin(device, stream)
            made._is_default = True
            cls._defaults.setdefault(key, made)
        found: Self = cls._defaults[key]
        return found

    @property
    def handle(self) -> int:
        """The driver's handle of the stream, as other libraries take it.

        While the stream is recorded it is the handle of the recording: work that another library
        puts into *that* stream is recorded as well. The default stream has the handle 0, as in
        torch and CuPy.
        """
        handle = self._open().handle
        return 0 if self._is_default else handle

    @property
    def is_closed(self) -> bool:
        """True if :meth:`close` was called."""
        return self._is_closed

    @property
    def is_capturing(self) -> bool:
        """True if work in the stream is recorded instead of run."""
        return self._stream.recording is not None

    def _open(self) -> DeviceStream:
        """Return the device's stream; raise `ClosedResourceError` after :meth:`close`."""
        if self._is_closed:
            raise ClosedResourceError.after_close(
                f"a stream on {self.device}",
                self,
                given_back="the stream",
                instead="Make another one with kd.Stream()",
            )
        return self._stream

    def __enter__(self) -> Self:
        self._open()
        _active.set((*_active.get(), (self, context_device.get())))
        context_device.set(self.device)
        return self

    def __exit__(self, *exc: object) -> None:
        # No tokens: one stream may be active in several threads, which end in any order. So may
        # blocks of generators. They can even end in another context; nothing is done then.
        active = _active.get()
        depth = next((i for i in reversed(range(len(active))) if active[i][0] is self), None)
        if depth is None:
            return
        device_before = active[depth][1]
        inner = active[depth + 1 :]
        if inner:
            inner = ((inner[0][0], device_before), *inner[1:])
        else:
            context_device.set(device_before)
        _active.set((*active[:depth], *inner))

    def __repr__(self) -> str:
        if self._is_closed:
            return f"<Stream on {self.device}, closed>"
        if self._is_default:
            return f"<Stream on {self.device}, the default>"
        notes = [f"{self._stream.handle:#x}"]
        if self._stream.is_foreign:
            notes.append("of another library")
        else:
            notes += [] if self.is_blocking else ["not blocking"]
            notes += [f"priority {self.priority}"] if self.priority else []
        notes += ["capturing"] if self.is_capturing else []
        return f"<Stream on {self.device}, {', '.join(notes)}>"


# --------------------------------------------------------------------------- which one


def active_stream(device: Device) -> BaseStream | None:
    """Return the stream of the innermost active ``with stream:`` of a device."""
    for stream, _ in reversed(_active.get()):
        if stream.device is device:
            return stream
    return None


def as_stream(stream: Any, otherwise: Device) -> BaseStream:
    """Return a stream of kerneldsl, wrapping one of another library.

    ``None`` is the current stream of the device `otherwise`.
    """
    if stream is None:
        return active_stream(otherwise) or BaseStream._default(otherwise)
    return stream if isinstance(stream, BaseStream) else BaseStream.from_foreign(stream)


def ambient_stream(device: Device) -> DeviceStream | None:
    """Return the stream of the innermost active ``with stream:`` of a device, or ``None``.

    Raises `ClosedResourceError` if it was closed inside its block.
    """
    if not are_in_use:
        return None
    stream = active_stream(device)
    return None if stream is None or stream._is_default else stream._open()


def resolve_stream(device: Device, stream: Any) -> DeviceStream | None:
    """Return a stream of a device, or ``None`` for its default stream.

    The argument ``None`` is the current stream. On a device with synchronous launches, another
    library's stream or handle is ignored. Raises `ClosedResourceError` if the stream was closed,
    `DeviceMismatchError` if it is on another device, `ArgumentTypeError` if it is not a stream.
    """
    if stream is None:
        return ambient_stream(device)
    if isinstance(stream, BaseStream):
        found = stream._open()
        if stream.device is not device:
            _refuse_device(str(stream.device), device)
        return None if stream._is_default else found
    if isinstance(stream, DeviceStream):
        if stream.device != device:
            _refuse_device(str(stream.device), device)
        return stream
    if device.is_synchronous or names_default_stream(stream):
        return None
    from kerneldsl.streams.stream_handles import adopt  # few programs bring streams along

    return adopt(device, stream)


def _refuse_device(found: str, device: Device) -> NoReturn:
    raise DeviceMismatchError(
        f"the stream is on {found}, and the work on {device}",
        value=found,
        limit="Work needs a stream of the same device",
        remedy=f"Make the stream with kd.Stream('{device}'), or leave it out",
    )


def stream_of(device: Device, stream: Any) -> DeviceStream | None:
    """Return the stream for work on memory of a device; see :func:`resolve_stream`.

    Raises `ArgumentTypeError` for a bool, float, text or sequence on every device.
    """
    if stream is None:
        return ambient_stream(device) if are_in_use else None
    if isinstance(stream, _NEVER_STREAMS):
        raise ArgumentTypeError(
            f"stream is {safe_repr(stream)}",
            value=stream,
            limit="A stream is None (the current one), a kd.Stream, another library's stream, or a "
            "handle",
            remedy="Leave it out, or make one with kd.Stream()",
        )
    return resolve_stream(device, stream)


def refuse_waiting() -> None:
    """Raise `GraphError` in a context in which a stream is recorded; call it before a wait.

    The driver would refuse, and drop the recording.
    """
    for stream, _ in _active.get():
        from kerneldsl.streams.order import refuse_recording

        refuse_recording(stream._stream, "wait for a device")


# --------------------------------------------------------------------------- launches


def launch_stream(device: Device, named: Any, producers: tuple[int, ...]) -> Any:
    """Return the stream of a launch, after making it wait for the producers of its arguments.

    `named` is the stream of the launch, or ``None``; `producers` are handles of the streams in
    which other libraries made arguments. Return what `LaunchConfig.stream` takes.
    """
    if named is None and not producers:
        return ambient_stream(device)
    stream: Any = resolve_stream(device, named)
    if not producers or device.is_synchronous:
        return stream
    first, *others = dict.fromkeys(producers)
    if stream is None and named is None and active_stream(device) is None:
        from kerneldsl.streams.stream_handles import find

        known = find(device, first)
        stream = first if known is None else known
    else:
        others.insert(0, first)
    if not is_recorded(stream):
        # Nothing runs while a stream is recorded, so there is nothing to wait for.
        handle = getattr(stream, "handle", stream)
        for other in others:
            if other != handle:
                device.wait_stream(stream, other)
    return stream


def note_uses(objects: Iterable[Any], stream: Any) -> None:
    """Note that a stream uses the memory of the device arrays among some objects.

    The objects are as for `order.owners_of`; a number is another library's stream.
    """
    if stream is None and not are_some_nonblocking:
        return  # every stream waits for the default stream before memory is given out again
    from kerneldsl.streams.order import owners_of

    for owner in owners_of(objects):
        note_use = getattr(owner, "note_use", None)
        if note_use is not None:
            note_use(stream)
