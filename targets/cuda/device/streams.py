"""CUDA streams of every origin, and the order between streams.

Every library has its own stream class. All of them come down to the driver's handle, a
number. 1 names the legacy default stream, and 2 the default stream of the thread. So 0 mostly means
the former, but to NVIDIA's bindings the latter, if ``CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM``
is set. The driver is therefore never passed a 0.

References
----------
cuda.core, "The ``__cuda_stream__`` protocol"; CUDA Driver API, section "Stream synchronization
behavior".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kerneldsl.contract import DeviceStream
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.values import safe_repr

if TYPE_CHECKING:
    from targets.cuda.driver.driver import Driver

__all__ = [
    "LEGACY_DEFAULT_STREAM",
    "is_captured",
    "is_done",
    "stream_handle",
    "synchronize_stream",
    "wait_stream",
]

#: The stream that waits for, and holds up, every other blocking stream of the device.
LEGACY_DEFAULT_STREAM = 1

#: Attributes with the handle, in numba and cuda.core, in torch, and in CuPy.
_HANDLE_NAMES = ("handle", "cuda_stream", "ptr")


def stream_handle(stream: Any) -> int:
    """Return the driver's handle of whatever stands for a stream.

    ``None`` stands for the legacy default stream. A handle is an ``int``; an object has
    ``__cuda_stream__`` (cuda.core, newer torch and CuPy) or ``handle``, ``cuda_stream`` or ``ptr``
    (numba, torch, CuPy).

    Raises `ArgumentTypeError` where the object is no stream, or its ``__cuda_stream__`` gives no
    pair of ints. Raises `ArgumentValueError` where the number is no address, or the object's
    ``__cuda_stream__`` is of an unknown version.

    - returns: the ``CUstream`` as a number; never 0.
    """
    if stream is None:
        return LEGACY_DEFAULT_STREAM
    if isinstance(stream, DeviceStream):
        return stream.handle
    if isinstance(stream, int) and not isinstance(stream, bool):
        return _checked(stream)
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        returned = protocol() if callable(protocol) else protocol
        try:
            version, handle = returned
            version, handle = int(version), int(handle)
        except (TypeError, ValueError):
            raise ArgumentTypeError(
                f"__cuda_stream__ of {type(stream).__name__} returns {safe_repr(returned)}",
                value=stream,
                limit="It must return a version and a handle, two ints",
                remedy="Pass the stream's handle as an int",
            ) from None
        if version != 0:
            raise ArgumentValueError(
                f"{type(stream).__name__} uses version {version} of __cuda_stream__",
                value=stream,
                limit="Version 0 is supported",
                remedy="Pass the stream's handle as an int",
            )
        return _checked(handle)
    for name in _HANDLE_NAMES:
        handle = getattr(stream, name, None)
        if handle is None:
            continue
        handle = getattr(handle, "value", handle)  # a ctypes.c_void_p, whose None is stream 0
        if handle is None:
            return LEGACY_DEFAULT_STREAM
        try:
            number = int(handle)
        except (TypeError, ValueError):
            continue
        return _checked(number)
    raise ArgumentTypeError(
        f"{type(stream).__name__} is not a CUDA stream",
        value=stream,
        limit="A stream is None, an int handle, or an object with __cuda_stream__, handle, "
        "cuda_stream or ptr",
        remedy="Pass None for the default stream",
    )


def _checked(handle: int) -> int:
    """Return a handle, if it can be one; that of the legacy default stream for 0."""
    if not 0 <= handle < 2**64:
        raise ArgumentValueError(
            f"stream {handle} is {'negative' if handle < 0 else 'beyond 64 bits'}",
            value=handle,
            limit="A CUstream handle is an address, or 0, 1 or 2 for the default streams",
            remedy="Pass None for the default stream",
        )
    return handle or LEGACY_DEFAULT_STREAM


def synchronize_stream(driver: Driver, index: int, stream: int, *, doing: str) -> None:
    """Wait until everything in a stream has finished; raises `DriverError` for what failed."""
    launched = driver.watch.in_flight(index)
    driver.call_on(index, driver.api.cuStreamSynchronize, stream, doing=doing)
    driver.watch.mark_finished(index, launched, stream)


def is_done(driver: Driver, index: int, query: Any, handle: int, *, doing: str) -> bool:
    """Return whether a stream is empty, or an event reached, without waiting.

    `query` is ``cuStreamQuery`` or ``cuEventQuery``.

    Raises `DriverError` where something before it has failed.
    """
    with driver.current(index):
        status = query(handle)[0]
        if status == driver.api.CUresult.CUDA_ERROR_NOT_READY:
            return False
        if int(status):
            raise driver.failure(status, doing)
    return True


def is_captured(driver: Driver, index: int, handle: int) -> bool:
    """Return whether a stream is being captured, by whichever library, or has failed."""
    with driver.current(index):
        failed, status = driver.api.cuStreamIsCapturing(handle)
    none = driver.api.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE
    return bool(int(failed)) or status != none


def wait_stream(driver: Driver, index: int, later: int, sooner: int) -> None:
    """Let what is put into one stream from now on wait for what is in another now.

    The host is not held up: an event is recorded in `sooner`, and `later` waits for it.
    """
    api, doing = driver.api, f"order stream {later:#x} after {sooner:#x} on cuda:{index}"
    with driver.current(index):
        flags = int(api.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        event = driver.call(api.cuEventCreate, flags, doing=doing)
        try:
            driver.call(api.cuEventRecord, event, sooner, doing=doing)
            driver.call(api.cuStreamWaitEvent, later, event, 0, doing=doing)
        finally:
            # The driver keeps the event until the wait is over.
            driver.call(api.cuEventDestroy, event, doing=doing)
