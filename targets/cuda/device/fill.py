"""Filling memory with patterns of eight and sixteen bytes, which the driver's memsets do not know.

To set every second word, or to copy a filled part again and again, takes the memory twice as long
as to write it once. So a kernel writes it: a few lines of PTX that the driver assembles for the
device when the first such pattern is requested. Neither Numba nor a toolkit takes part.

References
----------
PTX ISA, sections "Directives" and "Instruction Set".
"""

from __future__ import annotations

import struct
from functools import lru_cache

from kerneldsl.contract import Device
from kerneldsl.utilities.locks import ForkSafeLock
from targets.cuda.architectures import choose_ptx_version, parse_arch
from targets.cuda.driver import functions
from targets.cuda.driver.driver import Driver

__all__ = ["WORD_BYTES", "fill_ptx", "fill_words"]

#: Bytes that a thread writes at one time; addresses must be multiples of it.
WORD_BYTES = 8
_ENTRY = "kerneldsl_fill"
_BLOCK_THREADS = 256
#: Blocks for each multiprocessor; each thread goes on in steps of the whole grid.
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
