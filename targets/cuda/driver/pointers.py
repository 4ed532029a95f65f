"""Owner devices of addresses.

The driver's function is called by its address: NVIDIA's bindings, to 13.3 at least, answer 0 for
every device, because they read another field than the driver has written
(https://github.com/NVIDIA/cuda-python/pull/2752).

References
----------
CUDA Driver API, section "Unified Addressing" (``cuPointerGetAttribute``).
"""

from __future__ import annotations

import ctypes
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from targets.cuda.driver.driver import Driver

__all__ = ["device_of_pointer"]

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
