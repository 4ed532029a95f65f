"""Emptying a device's last cache before a launch that is timed, by writing more than it holds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kerneldsl.contract import Device
from kerneldsl.errors import AttributeUnavailableError
from kerneldsl.memory.creation import empty
from kerneldsl.placement.devices import device_info
from kerneldsl.streams.current import BaseStream

__all__ = ["make_flush"]

#: What is written, over what the cache holds: replacement is not by age alone.
_TIMES = 2
#: Bytes of a cache whose size is not known.
_ASSUMED_BYTES = 64 << 20


def make_flush(device: Device, stream: BaseStream | None) -> Callable[[], None]:
    """Return what leaves nothing of other arrays in the last cache of a device.

    Parameters
    ----------
    device : Device
        Where. On the CPU the calling thread writes, so the inner caches of other cores keep what
        they hold.
    stream : BaseStream or None
        Whose order the writing has.
    """
    nbytes = _TIMES * _last_cache_bytes(device)
    if device.shares_host_memory:
        host = np.zeros(nbytes, np.uint8)
        return lambda: host.fill(1)
    scratch = empty(nbytes, np.uint8, device=device)
    return lambda: scratch.fill(1, stream)


def _last_cache_bytes(device: Device) -> int:
    info = device_info(device)
    for name in ("l3_cache_bytes", "l2_cache_bytes") if device.is_host else ("l2_cache_bytes",):
        try:
            found = getattr(info, name)
        except AttributeUnavailableError:
            continue
        if found:
            return int(found)
    return _ASSUMED_BYTES
