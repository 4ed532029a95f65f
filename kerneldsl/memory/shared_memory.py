"""The owner of page-locked and managed memory, which host and device both reach."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

from kerneldsl.contract import Device, SharedBuffer
from kerneldsl.errors import OutOfMemoryError
from kerneldsl.memory.pools import device_memory

__all__ = ["SharedMemory"]


class SharedMemory:
    """Owns page-locked or managed memory; gives it back when the object goes.

    It is ``"pinned"`` or ``"managed"``; `allocate` makes the buffer.
    """

    __slots__ = (
        "__weakref__",
        "buffer",
        "device",
        "family",
        "is_closed",
        "is_managed",
        "is_recorded",
        "is_shared",
    )

    def __init__(self, device: Device, kind: str, allocate: Callable[[], SharedBuffer]) -> None:
        self.device = device
        self.is_managed = kind == "managed"
        self.is_closed = False
        #: Whether NumPy arrays over the memory may be about.
        self.is_shared = False
        #: Whether a graph works with it.
        self.is_recorded = False
        self.family: Any = None
        try:
            self.buffer = allocate()
        except OutOfMemoryError:
            gc.collect()
            self.buffer = allocate()
        device_memory(device).shared[id(self)] = (kind, self.buffer.nbytes)

    def close(self) -> None:
        """Give the memory back once nothing on the device uses it; twice is harmless."""
        if not self.is_closed:
            self.is_closed = True
            device_memory(self.device).shared.pop(id(self), None)
            self.buffer.close()

    def __del__(self, _is_finalizing: Any = sys.is_finalizing) -> None:
        if not _is_finalizing() and hasattr(self, "buffer"):
            self.close()
