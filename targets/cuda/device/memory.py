"""Device memory: allocating, freeing, clearing and filling it.

References
----------
CUDA Driver API, sections "Memory Management" and "API synchronization behavior".
"""

from __future__ import annotations

import struct
import sys
import weakref
from functools import lru_cache
from typing import Any

from kerneldsl.contract import Buffer, Device
from kerneldsl.errors import DriverError
from kerneldsl.utilities.locks import ForkSafeLock
from targets.cuda.architectures import choose_ptx_version, parse_arch
from targets.cuda.driver import functions
from targets.cuda.driver.driver import Driver
from targets.cuda.driver.fork import fork_guard

__all__ = [
    "WORD_BYTES",
    "CudaBuffer",
    "allocate",
    "clear",
    "fill_ptx",
    "fill_words",
    "free",
    "whole_words",
]


class CudaBuffer(Buffer):
    """Memory of a CUDA device, freed when the object goes.

    Raises `DriverError` when memory has run out.

    - `driver`: the driver that allocates it.
    - `device`: on which device.
    - `nbytes`: number of bytes; 0 is allowed and has address 0.

    Notes
    -----
    Freeing waits for the device, so the last reference to memory may go while a kernel still uses
    it. When the interpreter ends, nothing is freed: the driver does it with the process.
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


# Setting every second word, or copying a filled part repeatedly, takes the memory twice as long as
# writing it once. So a kernel writes it: a few lines of PTX that the driver assembles for the
# device when the first such pattern is requested. Neither Numba nor a toolkit takes part.

#: Bytes that a thread writes at one time; addresses must be multiples of it.
WORD_BYTES = 8
_ENTRY = "kerneldsl_fill"
_BLOCK_THREADS = 256
#: Blocks for each multiprocessor; each thread continues in steps of the whole grid.
_BLOCKS_PER_MULTIPROCESSOR = 8

# The step is even, so each thread writes either the even words of the pattern or the odd ones.
_PTX = """\
.version {major}.{minor}
.target {arch}
.address_size 64

.visible .entry {entry}(
    .param .u64 destination,
    .param .u64 word_count,
    .param .u64 even_word,
    .param .u64 odd_word
)
{{
    .reg .pred %is_odd, %is_done;
    .reg .b32 %block, %threads, %thread, %blocks, %parity;
    .reg .b64 %i, %step, %count, %word, %other, %address, %offset;

    mov.u32 %block, %ctaid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %thread, %tid.x;
    mov.u32 %blocks, %nctaid.x;
    ld.param.u64 %count, [word_count];
    ld.param.u64 %word, [even_word];
    ld.param.u64 %other, [odd_word];
    ld.param.u64 %address, [destination];
    cvta.to.global.u64 %address, %address;

    mul.wide.u32 %i, %block, %threads;
    cvt.u64.u32 %offset, %thread;
    add.s64 %i, %i, %offset;
    mul.wide.u32 %step, %blocks, %threads;
    and.b32 %parity, %thread, 1;
    setp.ne.u32 %is_odd, %parity, 0;
    selp.b64 %word, %other, %word, %is_odd;
    shl.b64 %offset, %i, 3;
    add.s64 %address, %address, %offset;
    shl.b64 %offset, %step, 3;

next:
    setp.ge.u64 %is_done, %i, %count;
    @%is_done bra done;
    st.global.u64 [%address], %word;
    add.s64 %i, %i, %step;
    add.s64 %address, %address, %offset;
    bra next;

done:
    ret;
}}
"""


@lru_cache
def fill_ptx(arch: str) -> str:
    """Return the kernel's text for an architecture such as ``"sm_90"``."""
    known = parse_arch(arch)
    major, minor = choose_ptx_version(known)
    return _PTX.format(major=major, minor=minor, arch=known.name, entry=_ENTRY)


_loaded: dict[int, functions.LoadedFunction] = {}
_lock = ForkSafeLock()


def _load(driver: Driver, device: Device) -> functions.LoadedFunction:
    with _lock:
        function = _loaded.get(device.index)
        if function is None:
            ptx = fill_ptx(device.arch)
            function = _loaded[device.index] = functions.load(driver, device.index, ptx, _ENTRY)
    return function


def fill_words(
    driver: Driver, device: Device, destination: int, pattern: bytes, count: int, *, stream: int
) -> None:
    """Set device memory to repetitions of a pattern of 8 or 16 bytes, in the stream's order.

    The address is a multiple of eight, and the pattern is repeated at least once.
    """
    function = _loaded.get(device.index) or _load(driver, device)
    even, odd = pattern[:WORD_BYTES], pattern[-WORD_BYTES:]
    words = count * len(pattern) // WORD_BYTES
    blocks = min(
        -(-words // _BLOCK_THREADS),
        device.limits.multiprocessor_count * _BLOCKS_PER_MULTIPROCESSOR,
    )
    functions.launch(
        driver,
        function,
        (blocks, 1, 1),
        (_BLOCK_THREADS, 1, 1),
        struct.pack("=QQ8s8s", destination, words, even, odd),
        shared_bytes=0,
        stream=stream,
    )
