"""Host memory that CUDA devices work with: page-locked and managed.

The driver's own calls are used, not cuda.core's memory resources: those know neither mapped nor
write-combined memory, and have managed memory only with CUDA 13.

Memory is freed by finalizers, which must not wait. So it is marked after everything that is
on the device now, and freed once the mark has been reached.

References
----------
CUDA Driver API, section "Memory Management" (``cuMemHostAlloc``,
``cuMemHostRegister``, ``cuMemAllocManaged``); CUDA
Programming Guide, sections "Page-Locked Host Memory" and "Unified Memory".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from kerneldsl.contract import Device, SharedBuffer
from kerneldsl.errors import DeviceMemoryError, DriverError
from targets.cuda.driver.driver import Driver
from targets.cuda.driver.fork import fork_guard
from targets.cuda.driver.marks import Mark, is_recording, mark_everything

__all__ = ["LockedBuffer", "ManagedBuffer", "PinnedBuffer"]

#: Memory that waits for its last use, oldest first: the mark after that use, and the function that
#: frees it.
_waiting: deque[tuple[Mark, Callable[[], None]]] = deque()

#: Memory that must be marked: at once, or after a recording that the mark would spoil.
_postponed: deque[tuple[Driver, int, Callable[[], None]]] = deque()


def _free_later(driver: Driver, index: int, free: Callable[[], None]) -> None:
    """Free memory once everything that is on the device now has finished; never waits for it."""
    if driver.watch.is_lost(index):
        return
    _postponed.append((driver, index, free))
    try:
        _free_what_is_done()
    except DriverError as error:
        driver.suppress(error, index)


def _free_what_is_done() -> None:
    try:
        for _ in range(len(_postponed)):
            driver, index, free = _postponed.popleft()
            if driver.watch.is_lost(index):
                continue
            if is_recording(index):
                _postponed.append((driver, index, free))
                continue
            mark = mark_everything(driver, index)
            if mark is not None:
                _waiting.append((mark, free))
            else:
                free()  # the driver waits by itself
        for _ in range(len(_waiting)):
            mark, free = _waiting.popleft()
            if mark.is_lost():
                continue
            if mark.is_reached():
                free()
            else:
                _waiting.append((mark, free))
    except IndexError:  # another thread was faster
        return


class _Buffer(SharedBuffer):
    __slots__ = ("_driver", "device", "host_pointer", "nbytes", "pointer")

    def __init__(self, driver: Driver, device: Device, nbytes: int) -> None:
        self._driver = driver
        self.device = device
        self.nbytes = nbytes
        _free_what_is_done()

    def _free(self) -> None:
        """Call the driver's free; raises `DriverError`."""
        raise NotImplementedError

    def close(self) -> None:
        if not fork_guard.has_forked:
            _free_later(self._driver, self.device.index, self._free)


class PinnedBuffer(_Buffer):
    """Page-locked host memory, for all devices.

    Raises `OutOfMemoryError` where the system has no such memory left.
    """

    __slots__ = ()

    def __init__(
        self,
        driver: Driver,
        device: Device,
        nbytes: int,
        *,
        is_mapped: bool,
        is_write_combined: bool,
    ) -> None:
        super().__init__(driver, device, nbytes)
        api = driver.api
        flags = api.CU_MEMHOSTALLOC_PORTABLE
        flags |= api.CU_MEMHOSTALLOC_DEVICEMAP if is_mapped else 0
        flags |= api.CU_MEMHOSTALLOC_WRITECOMBINED if is_write_combined else 0
        doing = f"allocate {nbytes} bytes of page-locked memory for {device}"
        with driver.current(device.index):
            status, address = api.cuMemHostAlloc(nbytes, flags)
            if int(status):
                raise driver.failure(status, doing, index=device.index)
            self.host_pointer = int(address)
            self.pointer = 0
            if is_mapped:
                get_pointer = api.cuMemHostGetDevicePointer
                try:
                    self.pointer = int(driver.call(get_pointer, address, 0, doing=doing))
                except DriverError:
                    api.cuMemFreeHost(address)
                    raise

    def _free(self) -> None:
        driver, doing = self._driver, f"free {self.nbytes} bytes of page-locked memory"
        driver.call_on(self.device.index, driver.api.cuMemFreeHost, self.host_pointer, doing=doing)


class LockedBuffer(_Buffer):
    """Memory of another owner, with pages that are locked and mapped for all devices.

    Raises `DriverError` if the system cannot lock the pages, or if they are locked already.
    """

    __slots__ = ("_owner",)

    def __init__(
        self, driver: Driver, device: Device, pointer: int, nbytes: int, owner: Any
    ) -> None:
        super().__init__(driver, device, nbytes)
        self._owner = owner
        self.host_pointer = pointer
        api, doing = driver.api, f"lock the pages of {nbytes} bytes of the host for {device}"
        flags = api.CU_MEMHOSTREGISTER_PORTABLE | api.CU_MEMHOSTREGISTER_DEVICEMAP
        with driver.current(device.index):
            status = api.cuMemHostRegister(pointer, nbytes, flags)[0]
            if int(status) == _ALREADY_LOCKED:
                # Perhaps by a buffer that is closed, and waits for the device.
                driver.synchronize(device.index)
                _free_what_is_done()
                status = api.cuMemHostRegister(pointer, nbytes, flags)[0]
            if int(status):
                raise driver.failure(status, doing, index=device.index)
            try:
                found = driver.call(api.cuMemHostGetDevicePointer, pointer, 0, doing=doing)
            except DriverError:
                api.cuMemHostUnregister(pointer)
                raise
            self.pointer = int(found)

    def _free(self) -> None:
        driver, doing = self._driver, f"unlock {self.nbytes} bytes of the host"
        unlock = driver.api.cuMemHostUnregister
        driver.call_on(self.device.index, unlock, self.host_pointer, doing=doing)


#: CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED.
_ALREADY_LOCKED = 712


class ManagedBuffer(_Buffer):
    """Memory with one address, which moves to the processor that uses it.

    Raises `DeviceMemoryError` if the device has no managed memory. Raises `OutOfMemoryError`
    if there is no room.
    """

    __slots__ = ()

    def __init__(self, driver: Driver, device: Device, nbytes: int) -> None:
        super().__init__(driver, device, nbytes)
        api, doing = driver.api, f"allocate {nbytes} bytes of managed memory for {device}"
        if not driver.attribute(device.index, "MANAGED_MEMORY"):
            raise DeviceMemoryError(
                f"Could not {doing}",
                code=801,
                name="CUDA_ERROR_NOT_SUPPORTED",
                value=nbytes,
                limit=f"{device} has no managed memory",
                remedy="Use kd.empty, and copy",
                doing=doing,
            )
        everybody = int(api.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL)
        with driver.current(device.index):
            status, address = api.cuMemAllocManaged(nbytes, everybody)
        if int(status):
            raise driver.failure(status, doing, index=device.index)
        self.pointer = self.host_pointer = int(address)

    def _free(self) -> None:
        driver, doing = self._driver, f"free {self.nbytes} bytes of managed memory"
        driver.call_on(self.device.index, driver.api.cuMemFree, self.pointer, doing=doing)
