"""Recovery when device memory runs out, and the error when it was in vain.

Python frees arrays of a reference cycle only when its collector runs. Freed memory may wait for the
work that used it; and pools keep memory for later. So all of it is collected, waited for and freed
before the second and last try.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from kerneldsl.contract.locations import Location
from kerneldsl.errors import OutOfMemoryError, StreamError
from kerneldsl.utilities.environment import logger
from kerneldsl.utilities.formatting import format_bytes

if TYPE_CHECKING:
    from kerneldsl.memory.pools import MemoryPool

__all__ = ["acquire_again"]


def acquire_again(pool: MemoryPool, nbytes: int, stream: Any, first: OutOfMemoryError) -> Location:
    """Make room, and try a second time.

    Raises `OutOfMemoryError` saying how much was requested, what is free, and who has the rest.
    """
    memory, device = pool._memory, pool.device
    logger.debug("%s; collecting unused memory", first)
    gc.collect()
    memory.drain()
    if first.name != "POOL_LIMIT":
        try:
            device.synchronize()
        except StreamError as error:  # somebody records a graph, so the device cannot be waited for
            logger.debug("%s", error)
        for other in tuple(memory.pools):
            memory.trim(other, 0)
    try:
        return memory.acquire(pool, nbytes, stream)
    except OutOfMemoryError as error:
        for other in tuple(memory.pools):  # what the driver took in vain for the second try
            memory.trim(other, 0)
        raise _explained(pool, nbytes, error) from error


def _explained(pool: MemoryPool, nbytes: int, error: OutOfMemoryError) -> OutOfMemoryError:
    if error.name == "POOL_LIMIT":
        return error
    memory, device = pool._memory, pool.device
    reserved = 0
    chain = []
    for other in sorted(memory.pools, key=lambda p: p.number):
        stats = other.stats()
        reserved += stats.reserved_bytes
        chain.append(
            f"the pool {stats.name!r} has reserved {format_bytes(stats.reserved_bytes)}, of "
            f"which {format_bytes(stats.in_use_bytes)} are in use"
        )
    info = device.memory_info()
    limit = None
    if info is not None:
        free, total = info
        limit = f"{format_bytes(free)} of {format_bytes(total)} are free"
        elsewhere = max(total - free - reserved, 0)
        chain.append(
            f"{format_bytes(elsewhere)} are held by other processes, other libraries and the driver"
        )
    caches = tuple(device.foreign_caches())
    chain += [text for text, _ in caches]
    remedy = "Free arrays, with array.close() or by dropping them, or use smaller ones"
    remedy += "".join(f"; {advice}" for _, advice in caches)
    return OutOfMemoryError(
        f"could not allocate {nbytes} bytes ({format_bytes(nbytes)}) on {device}",
        code=error.code,
        name=error.name,
        value=nbytes,
        limit=limit,
        remedy=remedy,
        chain=tuple(chain),
        doing=f"allocate {nbytes} bytes on {device}",
    )
