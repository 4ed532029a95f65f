"""The CUDA driver: the one place where ``cuda.bindings`` is imported and its answers are checked.

:class:`Driver` holds the bindings (12.8 or newer), the devices and their contexts;
:mod:`~targets.cuda.functions`, :mod:`~targets.cuda.memory` and :mod:`~targets.cuda.streams` call
the driver through it. Nothing is loaded before :func:`get_driver` is called.

Contexts are the devices' primary contexts, which torch, CuPy and the CUDA runtime use too. A call
makes the device's context current in its thread and puts back what was current before, so that
other libraries never find their device changed.

References
----------
CUDA Driver API, sections "Initialization", "Primary Context Management" and "Context Management".
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Any

from kerneldsl.errors import DriverError, TargetUnavailableError
from kerneldsl.target import Device
from targets.cuda.devices import describe_device
from targets.cuda.driver_errors import driver_error
from targets.cuda.fork import fork_guard

__all__ = ["Driver", "get_driver"]

_log = logging.getLogger("kerneldsl.cuda.driver")


class _CurrentContext:
    """Makes a device's primary context current, and puts back what was current before."""

    __slots__ = ("_driver", "_index", "_previous")

    def __init__(self, driver: Driver, index: int) -> None:
        self._driver = driver
        self._index = index
        self._previous: Any = None

    def __enter__(self) -> None:
        driver = self._driver
        fork_guard.check()
        context, handle = driver.contexts.get(self._index) or driver.retain_context(self._index)
        previous = driver.call(driver.api.cuCtxGetCurrent, doing="read the current context")
        if int(previous) == handle:
            return
        driver.call(driver.api.cuCtxSetCurrent, context, doing=f"use cuda:{self._index}")
        # With nothing current, other libraries take device 0; so its context may stay.
        if int(previous) or self._index:
            self._previous = previous

    def __exit__(self, *exc: object) -> None:
        if self._previous is not None:
            self._driver.api.cuCtxSetCurrent(self._previous)
            self._previous = None


class Driver:
    """The initialized CUDA driver.

    Parameters
    ----------
    api : module
        ``cuda.bindings.driver``, after a successful ``cuInit``.
    """

    def __init__(self, api: Any) -> None:
        self.api = api
        #: The CUDA version the driver supports, such as ``(13, 0)``.
        self.cuda_version: tuple[int, int] = self._read_version()
        self.contexts: dict[int, tuple[Any, int]] = {}
        self._lock = threading.Lock()
        self._devices: tuple[Device, ...] | None = None

    # ------------------------------------------------------------------ calls

    def call(self, function: Any, *args: Any, doing: str) -> Any:
        """Call the driver, and raise what it answers.

        Parameters
        ----------
        function : callable
            A function of `api`.
        *args
            Its arguments.
        doing : str
            What is being done, for the error's text; begins with a verb.

        Returns
        -------
        object
            The call's result: ``None``, one value, or a tuple of several.

        Raises
        ------
        DriverError
            The driver answered with an error.
        """
        answer = function(*args)
        if int(answer[0]):
            raise driver_error(self.api, answer[0], doing)
        if len(answer) == 2:
            return answer[1]
        return answer[1:] or None

    def _read_version(self) -> tuple[int, int]:
        number = int(self.call(self.api.cuDriverGetVersion, doing="read the driver's version"))
        return number // 1000, number % 1000 // 10

    # ---------------------------------------------------------------- devices

    def devices(self) -> tuple[Device, ...]:
        """The devices that ``CUDA_VISIBLE_DEVICES`` lets be seen, in the driver's order."""
        fork_guard.check()
        if self._devices is None:
            count = self.call(self.api.cuDeviceGetCount, doing="count devices")
            self._devices = tuple(
                describe_device(self.api, self.call, index) for index in range(int(count))
            )
        return self._devices

    def retain_context(self, index: int) -> tuple[Any, int]:
        """Retain the primary context of a device for the life of the process.

        Returns
        -------
        context : CUcontext
            As the driver takes it.
        handle : int
            As a number, to be compared.
        """
        with self._lock:
            known = self.contexts.get(index)
            if known is None:
                device = self.call(self.api.cuDeviceGet, index, doing=f"find cuda:{index}")
                context = self.call(
                    self.api.cuDevicePrimaryCtxRetain, device, doing=f"open cuda:{index}"
                )
                known = self.contexts[index] = (context, int(context))
        return known

    def current(self, index: int) -> _CurrentContext:
        """A ``with`` block in which a device's context is current in this thread."""
        return _CurrentContext(self, index)

    def synchronize(self, index: int) -> None:
        """Wait until everything on a device has finished; raises what failed there."""
        with self.current(index):
            self.call(self.api.cuCtxSynchronize, doing=f"wait for cuda:{index}")


# ------------------------------------------------------------------- the process's one driver


_driver: Driver | None = None
_driver_lock = threading.Lock()


def get_driver() -> Driver:
    """The CUDA driver, initialized at the first call.

    Returns
    -------
    Driver

    Raises
    ------
    TargetUnavailableError
        The bindings, the driver library or a device is missing; the message says which, and what
        to do about it.
    DriverError
        The process was forked after its parent had used CUDA.
    """
    fork_guard.check()
    if _driver is not None:
        return _driver
    with _driver_lock:
        return _driver or _initialize()


def _initialize() -> Driver:
    global _driver  # noqa: PLW0603 - the driver is one for a process
    try:
        from cuda.bindings import driver as api
    except ImportError as error:
        raise TargetUnavailableError(
            "The CUDA target needs cuda.bindings, which is not installed",
            remedy='pip install "kerneldsl[cuda13]", or "kerneldsl[cuda12]" for a driver of '
            "CUDA 12",
        ) from error
    try:
        status = api.cuInit(0)[0]
    except RuntimeError as error:  # what every version of the bindings raises without a library
        raise TargetUnavailableError(
            "The CUDA driver's library libcuda.so.1 was not found",
            remedy="Install NVIDIA's driver; nvidia-smi must work",
        ) from error
    if int(status):
        failure = driver_error(api, status, "initialize the CUDA driver")
        raise TargetUnavailableError(
            failure.what,
            value=failure.code,
            limit=failure.limit,
            remedy=_why_nothing_is_visible() or failure.remedy,
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
    fork_guard.arm()
    _driver = driver
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
