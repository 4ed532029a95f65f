"""Pools of host memory: freed blocks are kept for the next array of their size.

Fresh memory of the operating system costs a fault for every page that is touched first; a block
that is used again costs nothing.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kerneldsl.contract import Check, Device, PoolBackend
from kerneldsl.contract.checks import said_by
from kerneldsl.errors import ArgumentValueError, OutOfMemoryError, TargetUnavailableError
from kerneldsl.tools.detection.probes import Finding
from kerneldsl.utilities.formatting import format_count

if TYPE_CHECKING:
    from targets.cpu.runtime.processors import Runnable

__all__ = ["HostPool", "block_bytes", "check_cpu", "fill", "find_cpu"]

_ALIGNMENT = 256
#: Most unused bytes that the pool keeps.
_KEEP_BYTES = 1 << 28
#: Steps of block sizes per power of two: a block is at most an eighth larger than requested.
_STEPS = 8


def block_bytes(nbytes: int) -> int:
    """Return the size of the block that serves an allocation: eight sizes for each power of two."""
    step = max(_ALIGNMENT, (1 << (nbytes - 1).bit_length()) // (2 * _STEPS))
    return -(-nbytes // step) * step


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


# Checks of ``kd.preflight()`` for the CPU target: Numba and the threads.


def find_cpu() -> Finding:
    """Say which processors these are."""
    return Finding(True, f"this machine's processors ({platform.machine()})")


def check_cpu() -> Iterator[Check]:
    """Look at Numba's settings and the threading layer."""
    try:
        from numba import config
    except ImportError as error:
        yield Check(
            "cpu.numba",
            "problem",
            f"Numba cannot be imported: {error}",
            "Install the numba and llvmlite that fit: pip install --force-reinstall kerneldsl",
        )
        return
    if config.DISABLE_JIT:
        from kerneldsl.ir.explained_errors import NO_JIT

        yield Check("cpu.numba", "problem", *NO_JIT)
    else:
        yield Check("cpu.numba", "ok", "Numba compiles")
    yield _check_threads()


def _check_threads() -> Check:
    from targets.cpu.runtime.processors import runnable_threads
    from targets.cpu.runtime.threads import requested_threads, threading_layer

    name = "cpu.threading_layer"
    try:
        layer = threading_layer()
    except (ArgumentValueError, TargetUnavailableError) as error:
        return Check(name, "problem", said_by(error), error.remedy)
    found = f"{layer.name} with {format_count(layer.thread_count, 'thread')}"
    if layer.name != "serial":
        found += _thread_limit(requested_threads(), runnable_threads())
    if layer.name == "workqueue":
        return Check(
            name,
            "warning",
            f"{found}; it runs one launch at a time",
            "Install TBB: pip install tbb",
        )
    if layer.name == "serial":
        return Check(
            name,
            "warning",
            f"{found}: launches use the calling thread alone",
            "Unset KERNELDSL_THREADING_LAYER; in a forked child, use spawn instead of fork",
        )
    if not layer.survives_fork:
        return Check(
            name,
            "ok",
            f"{found}; a forked child runs on one thread (TBB would go on: pip install tbb)",
        )
    return Check(name, "ok", found)


def _thread_limit(asked: int | None, runnable: Runnable) -> str:
    """Say what the number of threads comes from."""
    # Numba counts the processors where nothing is set: only a variable that is set is named.
    is_named = bool(os.environ.get("NUMBA_NUM_THREADS", "").strip())
    if asked is not None and asked < runnable.threads:
        return "; the limit is NUMBA_NUM_THREADS" if is_named else "; the limit is Numba's setting"
    more = f" of {asked} in NUMBA_NUM_THREADS" if is_named and asked != runnable.threads else ""
    return f"{more}; the limit is the {runnable.limit}"
