"""The CUDA target: the contract of :mod:`kerneldsl.contract`, fulfilled with the CUDA driver."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from kerneldsl.contract import Device, Target
from kerneldsl.errors import DeviceMismatchError, DriverError, TargetUnavailableError
from kerneldsl.utilities.formatting import format_count
from kerneldsl.utilities.locks import ForkSafeLock
from targets.cuda.device.device import CudaDevice
from targets.cuda.driver.driver import get_driver
from targets.cuda.driver.fork import fork_guard

if TYPE_CHECKING:
    from kerneldsl.contract import Check
    from targets.cuda.driver.driver import Driver

__all__ = ["CudaTarget", "device_of_pointer"]


class CudaTarget(Target):
    """NVIDIA GPUs.

    Making one costs nothing; the driver is loaded when devices are first requested.
    """

    name = "cuda"
    compiler = CudaDevice.compiler

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._reason: str | None = None
        self._is_probed = False
        #: Devices that the driver reports, and this target's objects for them.
        self._found: tuple[tuple[Device, ...], tuple[CudaDevice, ...]] = ((), ())

    def unavailable_reason(self) -> str | None:
        """Say why no device can be used, or ``None``; found out once for the process."""
        if fork_guard.has_forked:
            return str(fork_guard.error())
        with self._lock:
            if not self._is_probed:
                try:
                    reasons = [device.unusable_reason() for device in self._devices()]
                    self._reason = reasons[0] if None not in reasons else None
                except (TargetUnavailableError, DriverError) as error:
                    self._reason = str(error)
                self._is_probed = True
        return self._reason

    def devices(self) -> tuple[Device, ...]:
        if self.unavailable_reason() is not None:
            return ()
        with self._lock:
            return self._devices()

    def _devices(self) -> tuple[CudaDevice, ...]:
        described = get_driver().devices()
        if self._found[0] is not described:
            self._found = described, tuple(map(CudaDevice.from_description, described))
        return self._found[1]

    def described(self, arch: str) -> Device:
        """Return a large card of the architecture's generation."""
        from targets.cuda.device.described import described_device

        return described_device(arch)

    def checks(self) -> Iterable[Check]:
        """Return what ``kd.preflight()`` looks at; see :mod:`targets.cuda.checks`."""
        from targets.cuda.checks import check_cuda

        return check_cuda()

    def device_of_pointer(self, pointer: int) -> Device:
        """Return the device that an address belongs to.

        Raises `DriverError` where the address is not one of CUDA's.
        """
        index = device_of_pointer(get_driver(), pointer)
        devices = self.devices()
        if not 0 <= index < len(devices):
            raise DeviceMismatchError(
                f"address {pointer:#x} belongs to device {index}",
                value=index,
                limit=f"kerneldsl sees {format_count(len(devices), 'device')}",
                remedy="Copy the array to one of them",
            )
        return devices[index]


# The driver's function is called by its address: NVIDIA's bindings, to 13.3 at least, answer 0 for
# every device, because they read another field than the driver has written
# (https://github.com/NVIDIA/cuda-python/pull/2752).
#
# References: CUDA Driver API, section "Unified Addressing" (``cuPointerGetAttribute``).

#: ``CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)``
_GET_ATTRIBUTE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64)


def device_of_pointer(driver: Driver, pointer: int) -> int:
    """Return the number of the device that an address belongs to.

    Raises `DriverError` where the address is not one of CUDA's.
    """
    doing = f"find the device of address {pointer:#x}"
    get_attribute = _GET_ATTRIBUTE(driver.address("cuPointerGetAttribute"))
    attribute = int(driver.api.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
    ordinal = ctypes.c_int(-1)
    with _some_context(driver):
        status = get_attribute(ctypes.byref(ordinal), attribute, pointer)
        if status:
            raise driver.failure(status, doing)
    return ordinal.value


def _some_context(driver: Driver) -> AbstractContextManager[None]:
    """Return a context manager in which the driver answers for any device's memory.

    It does where some context is current, whosever that is; a thread that is new, or has used
    other devices than the first, has none.
    """
    if int(driver.call(driver.api.cuCtxGetCurrent, doing="read the current context")):
        return nullcontext()
    return driver.current(_device_in_use(driver))


def _device_in_use(driver: Driver) -> int:
    """Return a device with a context, because a new one takes memory; else the first."""
    for index in tuple(driver.contexts):
        return index
    api = driver.api
    for device in driver.devices():
        handle = driver.call(api.cuDeviceGet, device.index, doing=f"find {device}")
        doing = f"see whether {device} is in use"
        _, is_active = driver.call(api.cuDevicePrimaryCtxGetState, handle, doing=doing)
        if int(is_active):
            return device.index
    return 0
