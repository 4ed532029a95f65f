"""Pools of host memory: freed blocks are kept for the next array of their size.

Fresh memory of the operating system costs a fault for every page that is touched first; a block
that is used again costs nothing.
"""

from __future__ import annotations

import ctypes
import errno
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from kerneldsl.contract import Device, PoolBackend
from kerneldsl.errors import OutOfMemoryError

__all__ = ["HostPool", "block_bytes", "fill", "host_memory_info"]

_ALIGNMENT = 256
#: Up to so many unused bytes are kept.
_KEEP_BYTES = 1 << 28
#: A block is at most one part in so many larger than requested.
_STEPS = 8


def block_bytes(nbytes: int) -> int:
    """Return the size of the block that serves an allocation: eight sizes for each power of two."""
    step = max(_ALIGNMENT, (1 << (nbytes - 1).bit_length()) // (2 * _STEPS))
    return -(-nbytes // step) * step


def host_memory_info() -> tuple[int, int]:
    """Return the bytes of the machine's memory that are available, and in all."""
    import psutil

    found = psutil.virtual_memory()
    return int(found.available), int(found.total)


def fill(address: int, pattern: bytes, count: int) -> None:
    """Set memory to repetitions of a pattern of 1, 2, 4, 8 or 16 bytes."""
    if len(pattern) == 1:
        ctypes.memset(address, pattern[0], count)
        return
    dtype = np.dtype({2: "u2", 4: "u4", 8: "u8", 16: "V16"}[len(pattern)])
    memory = memoryview((ctypes.c_char * (count * len(pattern))).from_address(address))
    np.frombuffer(memory, dtype)[:] = np.frombuffer(pattern, dtype)


class HostPool(PoolBackend):
    """Host memory, aligned to 256 bytes.

    Notes
    -----
    Streams of the CPU run at once, so what is released has been used already.
    """

    gives_out_at_once = True

    def __init__(self, device: Device) -> None:
        self.device = device
        self._blocks: dict[int, np.ndarray[Any, Any]] = {}
        #: Addresses of unused blocks by their size; those used last are given out first.
        self._unused: defaultdict[int, list[int]] = defaultdict(list)
        self._unused_bytes = 0
        self._held_bytes = 0
        self._is_closed = False

    def acquire(self, nbytes: int, stream: Any) -> tuple[int, bool]:
        size = block_bytes(nbytes)
        unused = self._unused.get(size)
        if unused:
            self._unused_bytes -= size
            return unused.pop(), False
        try:
            block = np.empty(size + _ALIGNMENT, np.uint8)
        except (MemoryError, ValueError) as error:  # ValueError: more than NumPy can count
            raise OutOfMemoryError(
                f"could not allocate {nbytes} bytes on {self.device}",
                code=errno.ENOMEM,
                name="ENOMEM",
                limit="The operating system refused them",
                remedy="Free arrays, or use smaller ones",
                doing=f"allocate {nbytes} bytes on {self.device}",
            ) from error
        pointer = -(-block.ctypes.data // _ALIGNMENT) * _ALIGNMENT
        self._blocks[pointer] = block
        self._held_bytes += size
        return pointer, True

    def release(self, pointer: int, nbytes: int, stream: Any, used_on: Sequence[Any]) -> None:
        size = block_bytes(nbytes)
        if self._is_closed or self._unused_bytes + size > _KEEP_BYTES:
            self._drop(pointer, size)
        else:
            self._unused[size].append(pointer)
            self._unused_bytes += size

    def _drop(self, pointer: int, size: int) -> None:
        del self._blocks[pointer]
        self._held_bytes -= size

    def reserved_bytes(self) -> int:
        return self._held_bytes

    def trim(self, keep_bytes: int) -> None:
        for size in sorted(self._unused, reverse=True):
            unused = self._unused[size]
            while unused and self._held_bytes > keep_bytes:
                self._drop(unused.pop(), size)
                self._unused_bytes -= size

    def close(self) -> None:
        self._is_closed = True
        self.trim(0)
