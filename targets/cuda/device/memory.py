"""Device memory: allocating, freeing and clearing it.

References
----------
CUDA Driver API, sections "Memory Management" and "API synchronization behavior".
"""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

from kerneldsl.contract import Buffer
from kerneldsl.errors import DriverError
from targets.cuda.driver.fork import fork_guard

if TYPE_CHECKING:
    from kerneldsl.contract import Device
    from targets.cuda.driver.driver import Driver

__all__ = ["CudaBuffer", "allocate", "clear", "free", "whole_words"]


class CudaBuffer(Buffer):
    """Memory of a CUDA device, freed when the object goes.

    Raises `DriverError` when memory has run out.

    - `driver`: where it is allocated.
    - `device`: on which device.
    - `nbytes`: how much; 0 is allowed and has address 0.

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
        driver.suppress(error, index)


def whole_words(nbytes: int) -> int:
    """Round a size up to words of 32 bits.

    An atomic operation on 8 or 16 bits reads and writes the word around them, which is then inside
    of the allocation.
    """
    return (nbytes + 3) & ~3


def allocate(driver: Driver, index: int, nbytes: int) -> int:
    """Allocate device memory; 256-byte aligned, contents undefined.

    Raises `DriverError` when memory has run out; the message says what was requested and what is
    free.

    Returns
    -------
    int
        The address; 0 for no bytes.
    """
    if nbytes == 0:
        return 0
    with driver.current(index):
        status, pointer = driver.api.cuMemAlloc(whole_words(nbytes))
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


def free(driver: Driver, index: int, pointer: int) -> None:
    """Free device memory; waits for the work that may still use it."""
    doing = f"free {pointer:#x} on cuda:{index}"
    driver.call_on(index, driver.api.cuMemFree, pointer, doing=doing)


def clear(driver: Driver, index: int, destination: int, nbytes: int, *, stream: int) -> None:
    """Set device memory to zero, in the stream's order."""
    doing = f"clear {nbytes} bytes on cuda:{index}"
    cleared = (destination, 0, nbytes, stream)
    driver.call_on(index, driver.api.cuMemsetD8Async, *cleared, doing=doing)
