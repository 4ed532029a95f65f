"""Filling memory with patterns of eight and sixteen bytes, which the driver's memsets do not know.

To set every second word, or to copy a filled part again and again, takes the memory twice as long
as to write it once. So a kernel writes it: a few lines of PTX that the driver assembles for the
device when the first such pattern is asked for. Neither Numba nor a toolkit takes part.

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

#: Addresses and patterns are multiples of it.
WORD_BYTES = 8
#: Bytes that a thread writes at one time, at multiples of as many.
_PAIR_BYTES = 2 * WORD_BYTES
_ENTRY = "kerneldsl_fill"
_BLOCK_THREADS = 256
#: Blocks for each multiprocessor, each thread of which goes on in steps of the whole grid.
_BLOCKS_PER_MULTIPROCESSOR = 8

# Pairs of words are written from a multiple of their size on; the first thread writes the word
# before them, which is as the second of a pair, and the one behind them, where there are such.
_PTX = """\
.version {major}.{minor}
.target {arch}
.address_size 64

.visible .entry {entry}(
    .param .u64 destination,
    .param .u64 pair_count,
    .param .u64 first_word,
    .param .u64 second_word,
    .param .u64 word_before,
    .param .u64 word_behind
)
{{
    .reg .pred %is_other, %is_none, %is_done;
    .reg .b32 %block, %threads, %thread, %blocks;
    .reg .b64 %i, %step, %count, %first, %second, %address, %offset, %single;

    mov.u32 %block, %ctaid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %thread, %tid.x;
    mov.u32 %blocks, %nctaid.x;
    ld.param.u64 %count, [pair_count];
    ld.param.u64 %first, [first_word];
    ld.param.u64 %second, [second_word];
    ld.param.u64 %address, [destination];
    cvta.to.global.u64 %address, %address;

    mul.wide.u32 %i, %block, %threads;
    cvt.u64.u32 %offset, %thread;
    add.s64 %i, %i, %offset;
    mul.wide.u32 %step, %blocks, %threads;
    setp.ne.u64 %is_other, %i, 0;
    shl.b64 %offset, %i, 4;
    add.s64 %address, %address, %offset;
    shl.b64 %offset, %step, 4;
    @%is_other bra next;

    ld.param.u64 %single, [word_before];
    setp.eq.u64 %is_none, %single, 0;
    @%is_none bra behind;
    cvta.to.global.u64 %single, %single;
    st.global.u64 [%single], %second;
behind:
    ld.param.u64 %single, [word_behind];
    setp.eq.u64 %is_none, %single, 0;
    @%is_none bra next;
    cvta.to.global.u64 %single, %single;
    st.global.u64 [%single], %first;

next:
    setp.ge.u64 %is_done, %i, %count;
    @%is_done bra done;
    st.global.v2.u64 [%address], {{%first, %second}};
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
    first, second = pattern[:WORD_BYTES], pattern[-WORD_BYTES:]
    words = count * len(pattern) // WORD_BYTES
    before = behind = 0
    if destination % _PAIR_BYTES:
        before, words = destination, words - 1
        destination += WORD_BYTES
        first, second = second, first
    pairs, is_odd = divmod(words, 2)
    if is_odd:
        behind = destination + pairs * _PAIR_BYTES
    blocks = min(
        -(-max(pairs, 1) // _BLOCK_THREADS),
        device.limits.multiprocessor_count * _BLOCKS_PER_MULTIPROCESSOR,
    )
    functions.launch(
        driver,
        function,
        (blocks, 1, 1),
        (_BLOCK_THREADS, 1, 1),
        struct.pack("=QQ8s8sQQ", destination, pairs, first, second, before, behind),
        shared_bytes=0,
        stream=stream,
    )
