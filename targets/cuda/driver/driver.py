"""The CUDA driver: the one place where ``cuda.bindings`` is imported and its answers are checked.

:class:`Driver` holds the bindings (12.8 or newer), the devices and their contexts;
:mod:`~targets.cuda.driver.functions`, :mod:`~targets.cuda.device.memory` and
:mod:`~targets.cuda.device.streams` call the driver through it. Nothing is loaded before
:func:`get_driver` is called.

Contexts are the primary contexts of the devices, as in torch, CuPy and the CUDA runtime. A call
makes the device's context current in its thread, and then restores the previous one. So the current
device of other libraries does not change.

References
----------
CUDA Driver API, sections "Initialization", "Primary Context Management" and "Context Management".
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import nullcontext
from itertools import chain
from typing import TYPE_CHECKING, Any

from kerneldsl.contract.error_history import error_log
from kerneldsl.errors import DriverError, TargetUnavailableError
from kerneldsl.utilities.formatting import format_version
from kerneldsl.utilities.import_ahead import import_ahead
from kerneldsl.utilities.locks import ForkSafeLock
from kerneldsl.utilities.modules import imported
from targets.cuda.driver.attributes import describe_device
from targets.cuda.driver.codes import DRIVER_CODES
from targets.cuda.driver.errors import (
    compose_error,
    describe_foreign,
    describe_status,
    driver_error,
)
from targets.cuda.driver.fork import fork_guard
from targets.cuda.driver.loss import DeviceWatch

if TYPE_CHECKING:
    from kerneldsl.contract import Device
    from targets.cuda.driver.codes import DriverCode

__all__ = ["Driver", "get_driver"]

_log = logging.getLogger("kerneldsl.cuda.driver")

#: Results of ``cuInit`` if there is no device, or no visible one.
_NOTHING_THERE = (100, 101)
#: Name of the driver's library on this system.
_LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"

#: The version of CUDA and the default stream with which functions are looked up. These functions
#: have not changed since (CUDA Driver API, "Driver Entry Point Access").
_PROC_ADDRESS_VERSION, _LEGACY_STREAM = 12000, 1

#: Modules that are imported during a first launch. The bindings release the interpreter's lock in
#: every call. Two calls take a tenth of a second each: they start the driver and open a device.
_FIRST_LAUNCH = (
    "targets.cuda.device.executable",
    "targets.cuda.compile.stored",
    "targets.cuda.compile.barriers",
    "targets.cuda.compile.mapping",
)
#: Modules of a launch that depend on what the program has imported: kernels of CUDA C++, PTX and
#: cubins, and packages that ship their kernels.
_FIRST_AFTER = {
    "kerneldsl.shipping.packages": (
        "kerneldsl.shipping.key",
        "kerneldsl.shipping.forms",
        "kerneldsl.launch.shipped",
    ),
    "kerneldsl.kernels.cuda_kernel": (
        "kerneldsl.launch.own_code",
        "targets.cuda.compile.stored",
    ),
}

#: Makes NVIDIA's bindings use the per-thread default stream if no stream is named.
_PER_THREAD = "CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM"


class _CurrentContext:
    """Makes a device's primary context current, and puts back what was current before."""

    __slots__ = ("_driver", "_index", "_previous")

    def __init__(self, driver: Driver, index: int) -> None:
        self._driver = driver
        self._index = index
        self._previous: Any = None

    def __enter__(self) -> None:
        driver = self._driver
        # A lost device, and every device after a fork, has no entry: retaining it then raises.
        context, handle = driver.contexts.get(self._index) or driver.retain_context(self._index)
        previous = driver.call(driver.api.cuCtxGetCurrent, doing="read the current context")
        if int(previous) == handle:
            return
        driver.call(driver.api.cuCtxSetCurrent, context, doing=f"use cuda:{self._index}")
        # If no context is current, other libraries use device 0; so its context may stay current.
        if int(previous) or self._index:
            self._previous = previous

    def __exit__(self, *exc: object) -> None:
        if self._previous is not None:
            self._driver.api.cuCtxSetCurrent(self._previous)
            self._previous = None


#: The ``with`` block in a thread in which the device's context is current already.
_NOTHING_TO_DO = nullcontext()


class Driver:
    """The initialized CUDA driver.

    `api` is ``cuda.bindings.driver``, after a successful ``cuInit``.
    """

    def __init__(self, api: Any) -> None:
        self.api = api
        #: The retained contexts of usable devices, with their handles as numbers.
        self.contexts: dict[int, tuple[Any, int]] = {}
        #: Lost devices, and the launches that may have caused the loss.
        self.watch = DeviceWatch("cuda")
        self._index_of_context: dict[int, int] = {}
        self._addresses: dict[str, int] = {}
        # Held again by an error that is met while a context is retained.
        self._lock = ForkSafeLock()
        self._devices: tuple[Device, ...] | None = None
        #: Whether calls of the bindings without a stream use the per-thread default stream.
        self.has_thread_defaults = os.environ.get(_PER_THREAD, "0").strip() not in ("", "0")
        #: The CUDA version the driver supports, such as ``(13, 0)``.
        self.cuda_version: tuple[int, int] = (0, 0)
        self.cuda_version = self._read_version()

    # ------------------------------------------------------------------ calls

    def call(self, function: Any, *args: Any, doing: str) -> Any:
        """Call the driver, and raise what it answers.

        The result is ``None``, one value, or a tuple of several. `doing` is for the error's text,
        and begins with a verb.

        Raises `DriverError` where the driver answered with an error.
        """
        try:
            answer = function(*args)
        except RuntimeError as error:
            if "not found" not in str(error):
                raise
            raise self._missing_function(error, doing) from error
        if int(answer[0]):
            raise self.failure(answer[0], doing)
        if len(answer) == 2:
            return answer[1]
        return answer[1:] or None

    def failure(
        self, status: Any, doing: str, *, index: int | None = None, **fields: Any
    ) -> DriverError:
        """Compose the error for a status that is not success.

        After a fatal error the device, or every device, is lost. Each later use of it raises a
        `DeviceLostError`, and so does a call that gets the same error a little later.

        By default the device is that of the current context. `fields` are further fields of the
        error, or other values for the usual ones.
        """
        return self._fail(*describe_status(self.api, status), doing, index, fields)

    def foreign_failure(
        self, error: Exception, doing: str, *, index: int | None = None, **fields: Any
    ) -> DriverError:
        """Return the same for what ``cuda.core`` raised; to be raised ``from`` that."""
        return self._fail(*describe_foreign(error), doing, index, fields)

    def _fail(
        self, code: DriverCode, text: str, doing: str, index: int | None, fields: dict[str, Any]
    ) -> DriverError:
        if index is None:
            index = self._current_index()
        if index is not None:
            fields = {"device": f"cuda:{index}", **fields}
        if not code.is_fatal:
            return compose_error(code, doing, text=text, **fields)
        with self._lock:
            if self.watch.is_lost(index):
                return self.watch.loss(index, doing)
            fields["suspects"] = self.watch.suspects(None if code.loses_process else index)
            error = compose_error(code, doing, text=text, **fields)
            self.watch.report(index, error)
            for each in tuple(self.contexts):
                if self.watch.is_lost(each):
                    del self.contexts[each]
        return error

    def suppress(self, error: DriverError, index: int) -> None:
        """Record an error of a device that cannot be raised, for example in a finalizer.

        If it is one that takes the device away, the next call there raises it again, and no launch
        goes round it to the CPU.
        """
        self.watch.suppress(index, error)
        error_log.record(error, was_swallowed=True)
        _log.debug("%s", error)

    def _current_index(self) -> int | None:
        """Return the device of the primary context that is current in this thread, if known."""
        failed, handle = self.api.cuCtxGetCurrent()
        return None if int(failed) else self._index_of_context.get(int(handle))

    def _missing_function(self, error: RuntimeError, doing: str) -> DriverError:
        """Return the error for a function that the bindings know and the driver's library lacks."""
        return compose_error(
            DRIVER_CODES[36],
            doing,
            limit=f"The driver supports CUDA {format_version(self.cuda_version)} and "
            f"lacks a function that is needed: {error}",
        )

    def _read_version(self) -> tuple[int, int]:
        number = int(self.call(self.api.cuDriverGetVersion, doing="read the driver's version"))
        return number // 1000, number % 1000 // 10

    # ---------------------------------------------------------------- devices

    def devices(self) -> tuple[Device, ...]:
        """Return the devices that ``CUDA_VISIBLE_DEVICES`` lets be seen, in the driver's order."""
        fork_guard.check()
        if self._devices is None:
            count = self.call(self.api.cuDeviceGetCount, doing="count devices")
            self._devices = tuple(
                describe_device(self.api, self.call, index) for index in range(int(count))
            )
        return self._devices

    def attribute(self, index: int, name: str) -> int:
        """Read an attribute of a device, named without ``CU_DEVICE_ATTRIBUTE_``."""
        handle = self.call(self.api.cuDeviceGet, index, doing=f"find cuda:{index}")
        which = getattr(self.api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        doing = f"read {name} of cuda:{index}"
        return int(self.call(self.api.cuDeviceGetAttribute, which, handle, doing=doing))

    def retain_context(self, index: int) -> tuple[Any, int]:
        """Retain the primary context of a device for the life of the process.

        The context is returned as the driver takes it, and as a number, to be compared.

        Raises `DeviceLostError` where the device failed earlier in this process. Raises
        `DriverError` where the process was forked after its parent had used CUDA, or the device
        cannot be opened.
        """
        fork_guard.check()
        with self._lock:
            self.watch.check(index)
            known = self.contexts.get(index)
            if known is None:
                device = self.call(self.api.cuDeviceGet, index, doing=f"find cuda:{index}")
                with import_ahead(*_first_launch()):
                    context = self.call(
                        self.api.cuDevicePrimaryCtxRetain, device, doing=f"open cuda:{index}"
                    )
                known = self.contexts[index] = (context, int(context))
                self._index_of_context[int(context)] = index
        return known

    def address(self, name: str) -> int:
        """Return the address of a function, such as ``"cuLaunchKernel"``; 0 for an unknown one.

        Raises `DriverError` where the driver could not look for it.
        """
        found = self._addresses.get(name)
        if found is None:
            pointer, _ = self.call(
                self.api.cuGetProcAddress,
                name.encode(),
                _PROC_ADDRESS_VERSION,
                _LEGACY_STREAM,
                doing=f"find {name}",
            )
            found = self._addresses[name] = int(pointer)
        return found

    def current(self, index: int) -> _CurrentContext | nullcontext[None]:
        """Return a context manager in which a device's context is current in this thread.

        Enter it immediately: this call determines the action.
        """
        known = self.contexts.get(index)
        if known is not None:  # as it mostly is, and current
            failed, current = self.api.cuCtxGetCurrent()
            if not int(failed) and int(current) == known[1]:
                return _NOTHING_TO_DO
        return _CurrentContext(self, index)

    def call_on(self, index: int, function: Any, *args: Any, doing: str) -> Any:
        """Call as :meth:`call` does, with a device's context current meanwhile."""
        with self.current(index):
            return self.call(function, *args, doing=doing)

    def synchronize(self, index: int) -> None:
        """Wait until everything on a device has finished; raises what failed there."""
        launched = self.watch.in_flight(index)
        self.call_on(index, self.api.cuCtxSynchronize, doing=f"wait for cuda:{index}")
        self.watch.mark_finished(index, launched)


# ------------------------------------------------------------------- the process's one driver


_driver: Driver | None = None
_driver_lock = ForkSafeLock()


def _first_launch() -> tuple[str, ...]:
    """Return the modules that a first launch of this program imports."""
    others = (each for name, each in _FIRST_AFTER.items() if imported(name) is not None)
    return (*chain.from_iterable(others), *_FIRST_LAUNCH)


def get_driver() -> Driver:
    """Return the CUDA driver, initialized at the first call.

    Raises `TargetUnavailableError` where the bindings, the driver library or a device is missing;
    the message says which, and what to do about it. Raises `DriverError` where the process was
    forked after its parent had used CUDA.
    """
    fork_guard.check()
    if _driver is not None:
        return _driver
    with _driver_lock:
        return _driver or _start()


def _start() -> Driver:
    global _driver  # noqa: PLW0603 - the driver is one for a process
    # Armed before the driver is touched: a child may be forked while another thread starts it.
    fork_guard.arm()
    try:
        driver = _initialize()
    except BaseException:
        fork_guard.disarm()
        raise
    # A forked child without contexts has to request one, and gets an error with the reason.
    fork_guard.arm(driver.contexts.clear)
    _driver = driver
    return driver


def _initialize() -> Driver:
    try:
        from cuda.bindings import driver as api
    except ImportError as error:
        raise TargetUnavailableError(
            "The CUDA target needs cuda.bindings, which is not installed",
            remedy='pip install "kerneldsl[cuda13]", or "kerneldsl[cuda12]" for a driver of '
            "CUDA 12",
        ) from error
    try:
        with import_ahead(*_first_launch()):
            status = api.cuInit(0)[0]
    except RuntimeError as error:  # what every version of the bindings raises without a library
        raise TargetUnavailableError(
            f"The CUDA driver's library {_LIBRARY} was not found",
            remedy="Install NVIDIA's driver; nvidia-smi must work",
        ) from error
    if int(status):
        failure = driver_error(api, status, "initialize the CUDA driver")
        raise TargetUnavailableError(
            failure.what,
            value=failure.code,
            limit=failure.limit,
            remedy=(failure.code in _NOTHING_THERE and _why_nothing_is_visible()) or failure.remedy,
        ) from failure
    driver = Driver(api)
    try:
        count = len(driver.devices())
    except DriverError as failure:
        raise TargetUnavailableError(
            failure.what, limit=failure.limit, remedy=failure.remedy
        ) from failure
    if count == 0:
        raise TargetUnavailableError(
            "The CUDA driver sees no device",
            remedy=_why_nothing_is_visible() or "Check nvidia-smi",
        )
    _log.debug(
        "CUDA %d.%d driver; devices: %s",
        *driver.cuda_version,
        ", ".join(f"{d} {d.name} ({d.arch})" for d in driver.devices()),
    )
    return driver


def _why_nothing_is_visible() -> str | None:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return None
    return f"CUDA_VISIBLE_DEVICES is {visible!r}: unset it, or name a device such as 0 in it"
