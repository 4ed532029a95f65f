"""Errors of the driver of a device, with one class for each category."""

from __future__ import annotations

from typing import Any

from kerneldsl.errors.base import KernelError

__all__ = [
    "DeviceError",
    "DeviceLostError",
    "DeviceMemoryError",
    "DriverCompileError",
    "DriverError",
    "DriverInitializationError",
    "DriverSystemError",
    "KernelImageError",
    "LaunchError",
    "OutOfMemoryError",
    "StreamError",
]


class DriverError(KernelError, RuntimeError):
    """The driver of the device, or a compiler library of its vendor, returned an error.

    Parameters
    ----------
    code : int
        The driver's code.
    name : str
        The code's name, such as ``CUDA_ERROR_ILLEGAL_ADDRESS``.
    is_fatal : bool
        Whether the device's context is lost: this process cannot use the device any more.
    loses_process : bool
        Whether every device of the driver is lost: restart the process.
    doing : str
        The action that failed, such as ``"allocate 1024 bytes on cuda:0"``.
    device : str or None
        The device, such as ``"cuda:0"``, if it is known.
    """

    #: ``"initialization"``, ``"device"``, ``"memory"``, ``"kernel"``, ``"launch"``, ``"stream"``,
    #: ``"compile"`` or ``"system"``: one for each subclass.
    category: str = "system"

    def __init__(
        self,
        what: str,
        *,
        code: int,
        name: str,
        is_fatal: bool = False,
        loses_process: bool = False,
        doing: str = "",
        device: str | None = None,
        **fields: Any,
    ) -> None:
        self.code = code
        self.name = name
        self.is_fatal = is_fatal
        self.loses_process = loses_process
        self.doing = doing
        self.device = device
        super().__init__(what, **fields)


class DriverInitializationError(DriverError):
    """The driver could not be started, is too old, or was lost in a fork."""

    category = "initialization"


class DeviceError(DriverError):
    """The device is missing, busy, failed, or cannot do what was requested."""

    category = "device"


class DeviceLostError(DeviceError):
    """The device, or another one, failed earlier, and this process cannot use it any more.

    Parameters
    ----------
    suspects : tuple of str
        The launches since the devices were last known to work, newest last. One of them is the
        probable cause.
    kernels : frozenset of str or None
        Names of the kernels among them; ``None`` if there were too many to record.
    is_news : bool
        Whether this error is the first report of the failure: a finalizer, for example, cannot
        raise it.
    """

    def __init__(
        self,
        what: str,
        *,
        suspects: tuple[str, ...] = (),
        kernels: frozenset[str] | None = frozenset(),
        is_news: bool = False,
        **fields: Any,
    ) -> None:
        self.suspects = suspects
        self.kernels = kernels
        self.is_news = is_news
        super().__init__(what, is_fatal=True, **fields)

    def may_be_due_to(self, kernel: str) -> bool:
        """Return whether a kernel of this name may be the cause."""
        return self.kernels is None or kernel in self.kernels


class DeviceMemoryError(DriverError):
    """Memory of a device could not be allocated, copied, mapped or freed."""

    category = "memory"


class OutOfMemoryError(DeviceMemoryError, MemoryError):
    """The device has no free memory, or a pool reaches its limit."""


class KernelImageError(DriverError):
    """Compiled code could not be loaded on the device, or an entry was not found in it."""

    category = "kernel"


class LaunchError(DriverError):
    """A kernel could not be started, or failed while it ran."""

    category = "launch"


class StreamError(DriverError):
    """The driver refuses this use of a stream, event or graph."""

    category = "stream"


class DriverCompileError(DriverError):
    """One of the vendor's compilers or linkers refused its input."""

    category = "compile"


class DriverSystemError(DriverError):
    """The operating system, or the installation of the driver, prevents the call."""

    category = "system"
