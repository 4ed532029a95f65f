"""Memory of other devices and processes: copies, access, and handles.

Memory of the driver's pools is opened pool by pool; all other memory of a device by its context.

References
----------
CUDA Driver API, sections "Peer Context Memory Access", "Memory Management"
(``cuMemcpyPeerAsync``, ``cuIpcGetMemHandle``, ``cuIpcOpenMemHandle``) and "Stream Ordered Memory
Allocator" (``cuMemPoolSetAccess``).
"""

from __future__ import annotations

import ctypes
import weakref
from typing import TYPE_CHECKING, Any

from kerneldsl.errors import ArgumentValueError
from targets.cuda.device.streams import LEGACY_DEFAULT_STREAM, stream_handle
from targets.cuda.driver.marks import Mark

if TYPE_CHECKING:
    from targets.cuda.device.pools import StreamOrderedPool
    from targets.cuda.driver.driver import Driver

__all__ = [
    "can_access",
    "close_memory",
    "copy",
    "enable_access",
    "export_memory",
    "note_pool",
    "open_memory",
    "with_access_to",
]

_ALREADY_ENABLED = 704

_pools: weakref.WeakSet[StreamOrderedPool] = weakref.WeakSet()
#: Device and peer, for each access that was enabled.
_enabled: set[tuple[int, int]] = set()


def note_pool(pool: StreamOrderedPool) -> None:
    """Let the pool be opened to devices that get access later."""
    _pools.add(pool)


def with_access_to(peer: int) -> tuple[int, ...]:
    """Return the devices to which a new pool of a device is to be opened."""
    return tuple(index for index, other in tuple(_enabled) if other == peer)


def can_access(driver: Driver, index: int, peer: int) -> bool:
    """Return whether kernels on a device can reach memory of another."""
    doing = f"query whether cuda:{index} can reach the memory of cuda:{peer}"
    devices = [driver.call(driver.api.cuDeviceGet, i, doing=doing) for i in (index, peer)]
    return bool(int(driver.call(driver.api.cuDeviceCanAccessPeer, *devices, doing=doing)))


def enable_access(driver: Driver, index: int, peer: int) -> None:
    """Let kernels on a device reach all memory of another, from now on."""
    if (index, peer) in _enabled:
        return
    context, _ = driver.contexts.get(peer) or driver.retain_context(peer)
    with driver.current(index):
        status = driver.api.cuCtxEnablePeerAccess(context, 0)[0]
    if int(status) not in (0, _ALREADY_ENABLED):  # another library may have been first
        doing = f"let cuda:{index} reach the memory of cuda:{peer}"
        raise driver.failure(status, doing, index=index)
    _enabled.add((index, peer))
    for pool in tuple(_pools):
        if pool.device.index == peer:
            pool.let_in(index)


def copy(
    driver: Driver,
    index: int,
    source: int,
    peer: int,
    destination: int,
    nbytes: int,
    *,
    stream: Any,
) -> None:
    """Copy memory of one device to another, directly if they are linked.

    Without a stream the default streams of both wait for each other.
    """
    api, doing = driver.api, f"copy {nbytes} bytes from cuda:{index} to cuda:{peer}"
    ours, _ = driver.contexts.get(index) or driver.retain_context(index)
    theirs, _ = driver.contexts.get(peer) or driver.retain_context(peer)
    handle = stream_handle(stream)
    is_default = handle == LEGACY_DEFAULT_STREAM
    where = index if is_default else getattr(getattr(stream, "device", None), "index", index)
    if is_default:
        _wait(driver, index, peer, doing)
    copied = (destination, theirs, source, ours, nbytes, handle)
    driver.call_on(where, api.cuMemcpyPeerAsync, *copied, doing=doing)
    if is_default:
        _wait(driver, peer, index, doing)


def _wait(driver: Driver, index: int, other: int, doing: str) -> None:
    """Let the default stream of a device wait for that of another."""
    mark = Mark(driver, other)
    mark.record(LEGACY_DEFAULT_STREAM)
    waited = (LEGACY_DEFAULT_STREAM, mark.event, 0)
    driver.call_on(index, driver.api.cuStreamWaitEvent, *waited, doing=doing)


#: The bytes of a handle (``CU_IPC_HANDLE_SIZE``).
_HANDLE_BYTES = 64


def export_memory(driver: Driver, index: int, pointer: int) -> tuple[bytes, int]:
    """Return the handle of the allocation that an address is in, and the address's offset in it."""
    api, doing = driver.api, f"share {pointer:#x} on cuda:{index} with other processes"
    base, _ = driver.call_on(index, api.cuMemGetAddressRange, pointer, doing=doing)
    handle = driver.call_on(index, api.cuIpcGetMemHandle, base, doing=doing)
    return bytes(_bytes_of(handle)), pointer - int(base)


def open_memory(driver: Driver, index: int, handle: bytes) -> int:
    """Return the address at which this process has the allocation of another one."""
    if len(handle) != _HANDLE_BYTES:
        raise ArgumentValueError(
            f"a handle of memory has {len(handle)} bytes",
            value=bytes(handle),
            limit=f"A handle of a CUDA device has {_HANDLE_BYTES} (CU_IPC_HANDLE_SIZE)",
            remedy="Pass the bytes that the other process's device gave, unchanged",
        )
    api = driver.api
    given = api.CUipcMemHandle()
    _bytes_of(given)[:] = handle
    flag = api.CUipcMem_flags.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
    doing = f"open memory of another process on cuda:{index}"
    return int(driver.call_on(index, api.cuIpcOpenMemHandle, given, flag.value, doing=doing))


def close_memory(driver: Driver, index: int, pointer: int) -> None:
    """Release an allocation of another process."""
    doing = f"close memory of another process on cuda:{index}"
    driver.call_on(index, driver.api.cuIpcCloseMemHandle, pointer, doing=doing)


def _bytes_of(handle: Any) -> Any:
    return (ctypes.c_ubyte * _HANDLE_BYTES).from_address(handle.getPtr())
