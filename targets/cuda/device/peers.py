"""Copies between devices, and access of one device to the memory of another.

Memory of the driver's pools is opened pool by pool; all other memory of a device by its context.

References
----------
CUDA Driver API, sections "Peer Context Memory Access", "Memory Management"
(``cuMemcpyPeerAsync``) and "Stream Ordered Memory Allocator" (``cuMemPoolSetAccess``).
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from targets.cuda.device.streams import LEGACY_DEFAULT_STREAM, stream_handle
from targets.cuda.driver.marks import Mark

if TYPE_CHECKING:
    from targets.cuda.device.pools import StreamOrderedPool
    from targets.cuda.driver.driver import Driver

__all__ = ["can_access", "copy", "enable_access", "note_pool", "with_access_to"]

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
    doing = f"ask whether cuda:{index} can reach the memory of cuda:{peer}"
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
