"""Device memory: allocating, freeing and copying it.

References
----------
CUDA Driver API, sections "Memory Management" and "API synchronization behavior".
"""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

from kerneldsl.errors import DriverError
from kerneldsl.target import Buffer
from targets.cuda.fork import fork_guard
from targets.cuda.streams import LEGACY_DEFAULT_STREAM

if TYPE_CHECKING:
    from kerneldsl.target import Device
    from targets.cuda.driver import Driver

__all__ = [
    "MAX_PATTERN_BYTES",
    "CudaBuffer",
    "allocate",
    "clear",
    "copy_from_host",
    "copy_on_device",
    "copy_to_host",
    "fill",
    "free",
    "memory_info",
]

#: The longest pattern that a memset of the driver repeats.
MAX_PATTERN_BYTES = 4
_MEMSETS = {1: "cuMemsetD8Async", 2: "cuMemsetD16Async", 4: "cuMemsetD32Async"}


class CudaBuffer(Buffer):
    """Memory of a CUDA device, freed when the object goes.

    Parameters
    ----------
    driver : Driver
        Where it is allocated.
    device : Device
        On which device.
    nbytes : int
        How much; 0 is allowed and has address 0.

    Raises
    ------
    DriverError
        Out of memory.

    Notes
    -----
    Freeing waits for the device, so memory whose last reference goes while a kernel still uses it
    is safe. When the interpreter ends, nothing is freed: the driver does it with the process.
    """

    def __init__(self, driver: Driver, device: Device, nbytes: int) -> None:
        self.device = device
        self.nbytes = nbytes
        self.pointer = allocate(driver, device.index, nbytes)
        if self.pointer:
            finalizer = weakref.finalize(self, _free_quietly, driver, device.index, self.pointer)
            finalizer.atexit = False

    def __repr__(self) -> str:
        return f"<CudaBuffer {self.nbytes} bytes at {self.pointer:#x} on {self.device}>"


def _free_quietly(driver: Driver, index: int, pointer: int) -> None:
    if fork_guard.has_forked or sys.is_finalizing() or driver.watch.is_lost(index):
        return
    try:
        free(driver, index, pointer)
    except DriverError as error:
        driver.swallow(error, index)


def allocate(driver: Driver, index: int, nbytes: int) -> int:
    """Allocate device memory; 256-byte aligned, contents undefined.

    Returns
    -------
    int
        The address; 0 for no bytes.

    Raises
    ------
    DriverError
        Out of memory: the message says what was asked for and what is free.
    """
    if nbytes == 0:
        return 0
    with driver.current(index):
        status, pointer = driver.api.cuMemAlloc(nbytes)
        if int(status):
            raise driver.failure(
                status, f"allocate {nbytes} bytes on cuda:{index} ({_free_of_total(driver.api)})"
            )
    return int(pointer)


def _free_of_total(api: Any) -> str:
    failed, *sizes = api.cuMemGetInfo()
    if int(failed):
        return "how many are free could not be read"
    return f"{int(sizes[0])} of {int(sizes[1])} bytes are free"


def memory_info(driver: Driver, index: int) -> tuple[int, int]:
    """Bytes of a device's memory that are free now, and in all."""
    free_bytes, total_bytes = driver.call_on(
        index, driver.api.cuMemGetInfo, doing=f"read how much memory of cuda:{index} is free"
    )
    return int(free_bytes), int(total_bytes)


def free(driver: Driver, index: int, pointer: int) -> None:
    """Free device memory; waits for the work that may still use it."""
    doing = f"free {pointer:#x} on cuda:{index}"
    driver.call_on(index, driver.api.cuMemFree, pointer, doing=doing)


def copy_from_host(
    driver: Driver,
    index: int,
    destination: int,
    source: int,
    nbytes: int,
    *,
    stream: int,
    blocking: bool = True,
) -> None:
    """Copy host memory to the device; by default the source may be changed when this returns."""
    api = driver.api
    with driver.current(index):
        if not blocking or _needs_naming(driver, stream):
            status = api.cuMemcpyHtoDAsync(destination, source, nbytes, stream)[0]
            if blocking and not int(status):
                # A copy from page-locked memory may still be reading its source.
                status = api.cuStreamSynchronize(stream)[0]
        else:
            status = api.cuMemcpyHtoD(destination, source, nbytes)[0]
        if int(status):
            raise driver.failure(status, f"copy {nbytes} bytes from the host to cuda:{index}")


def copy_to_host(
    driver: Driver,
    index: int,
    destination: int,
    source: int,
    nbytes: int,
    *,
    stream: int,
    blocking: bool = True,
) -> None:
    """Copy device memory to the host, after what stands before it in the stream; waits for it."""
    api = driver.api
    launched = driver.watch.in_flight(index) if blocking else ()
    with driver.current(index):
        if not blocking or _needs_naming(driver, stream):
            status = api.cuMemcpyDtoHAsync(destination, source, nbytes, stream)[0]
            if blocking and not int(status):
                status = api.cuStreamSynchronize(stream)[0]
        else:
            status = api.cuMemcpyDtoH(destination, source, nbytes)[0]
        if int(status):
            raise driver.failure(status, f"copy {nbytes} bytes from cuda:{index} to the host")
    if launched:
        driver.watch.settle(index, launched, stream)


def _needs_naming(driver: Driver, stream: int) -> bool:
    """Whether a copy has to name its stream: calls that name none save the wait after the copy."""
    return stream != LEGACY_DEFAULT_STREAM or driver.has_thread_defaults


def copy_on_device(
    driver: Driver, index: int, destination: int, source: int, nbytes: int, *, stream: int
) -> None:
    """Copy within a device, in the stream's order."""
    with driver.current(index):
        status = driver.api.cuMemcpyDtoDAsync(destination, source, nbytes, stream)[0]
        if int(status):
            raise driver.failure(status, f"copy {nbytes} bytes within cuda:{index}")


def fill(
    driver: Driver, index: int, destination: int, pattern: bytes, count: int, *, stream: int
) -> None:
    """Set device memory to repetitions of a pattern of 1, 2 or 4 bytes, in the stream's order.

    For longer patterns see :mod:`~targets.cuda.fill`.
    """
    size, value = len(pattern), int.from_bytes(pattern, sys.byteorder)
    with driver.current(index):
        memset = getattr(driver.api, _MEMSETS[size])
        status = memset(destination, value, count, stream)[0]
        if int(status):
            doing = f"fill {count} times {size} bytes on cuda:{index}"
            raise driver.failure(status, doing, index=index)


def clear(driver: Driver, index: int, destination: int, nbytes: int, *, stream: int) -> None:
    """Set device memory to zero, in the stream's order."""
    doing = f"clear {nbytes} bytes on cuda:{index}"
    cleared = (destination, 0, nbytes, stream)
    driver.call_on(index, driver.api.cuMemsetD8Async, *cleared, doing=doing)
