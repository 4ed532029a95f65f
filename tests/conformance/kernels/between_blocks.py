"""What blocks see of each other: loads and stores with an order, and the last block of a launch."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from kerneldsl.language.intrinsics.atomics import ATOMIC_ARITHMETIC
from tests.support.arrays import HOST_DTYPES, poisoned, random_array
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("between_blocks")
CASES = _list.cases
_THREADS = 74


@kd.kernel
def every_order(x, out):
    i = kd.grid(1)
    kd.atomic.store(out, (0, i), kd.atomic.load(x, i))
    v = kd.atomic.load(x, i, order="relaxed", scope="block")
    kd.atomic.store(out, (1, i), v, scope="block")
    v = kd.atomic.load(x, i, scope="system")
    kd.atomic.store(out, (2, i), v, "relaxed", "system")
    v = kd.atomic.load(x, i, "acquire", "block")
    kd.atomic.store(out, (3, i), v, "release", "block")
    v = kd.atomic.load(x, i, "acquire")
    kd.atomic.store(out, (4, i), v, "release")
    v = kd.atomic.load(x, i, "acquire", "system")
    kd.atomic.store(out, (5, i), v, "release", "system")
    v = kd.atomic.load(x, i, "seq_cst", "block")
    kd.atomic.store(out, (6, i), v, "seq_cst", "block")
    v = kd.atomic.load(x, -1 - i, "seq_cst")
    kd.atomic.store(out, (7, i), v, order="seq_cst")
    v = kd.atomic.load(x, i, "seq_cst", "system")
    kd.atomic.store(out, (8, i), v, "seq_cst", "system")


def _on_shared(dtype):
    @kd.kernel
    def every_order_on_shared(x, out):
        s = kd.shared.array(_THREADS, dtype)
        t = kd.threadIdx.x
        kd.atomic.store(s, t, x[kd.grid(1)], "release", "block")
        kd.syncthreads()
        other = kd.blockDim.x - 1 - t
        out[0, kd.grid(1)] = kd.atomic.load(s, other, "acquire", "block")
        out[1, kd.grid(1)] = kd.atomic.load(s, other)
        out[2, kd.grid(1)] = kd.atomic.load(s, other, "seq_cst")

    return every_order_on_shared


def _rows(dtype, rows):
    def make(rng):
        return random_array(rng, _THREADS, dtype), poisoned((rows, _THREADS), dtype)

    return make


for _dtype in (name for name in ATOMIC_ARITHMETIC if name in HOST_DTYPES):
    _common = {"grid": (2,), "block": (37,), "dtype": _dtype}
    _list.add(f"every_order_{_dtype}", every_order, _rows(_dtype, 9), **_common)
    _list.add(
        f"every_order_on_shared_{_dtype}", _on_shared(np.dtype(_dtype)), _rows(_dtype, 3), **_common
    )


@kd.kernel
def handed_over(x, out, flags, tickets):
    # Blocks wait for that which has taken its ticket before, and which therefore runs or has run.
    turn = kd.shared.array(1, np.int64)
    if kd.threadIdx.x == 0:
        turn[0] = kd.atomic.add(tickets, 0, 1)
    kd.syncthreads()
    part = turn[0]
    if kd.threadIdx.x == 0:
        before = 0
        if part > 0:
            while kd.atomic.load(flags, part - 1, order="acquire") == 0:
                pass
            before = out[part - 1]
        out[part] = before + x[part]
        kd.atomic.store(flags, part, 1, order="release")


def _parts(blocks):
    def make(rng):
        flags, tickets = np.zeros(blocks, np.int32), np.zeros(1, np.int64)
        return random_array(rng, blocks, np.int64), poisoned(blocks, np.int64), flags, tickets

    return make


for _blocks, _block in ((1, 32), (300, 40), (2000, 1)):
    _common = {"grid": (_blocks,), "block": (_block,)}
    _list.add(f"handed_over_by_{_blocks}_of_{_block}", handed_over, _parts(_blocks), **_common)


@kd.kernel
def summed_by_the_last_block(x, partial, total, count):
    """Sum up in one launch: the block that finishes last adds what the others have left.

    CUDA C++ Programming Guide, section "Memory Fence Functions".
    """
    is_last = kd.shared.array(1, np.int32)
    t, threads = kd.threadIdx.x, kd.blockDim.x
    i = kd.grid(1)
    own = kd.block.sum(x[i] if i < x.size else 0)
    if t == 0:
        partial[kd.blockIdx.x] = own
        kd.threadfence()
        is_last[0] = kd.atomic.inc(count, 0, kd.gridDim.x - 1) == kd.gridDim.x - 1
    kd.syncthreads()
    if is_last[0]:
        kd.threadfence()
        value = 0
        k = t
        while k < kd.gridDim.x:
            value += partial[k]
            k += threads
        value = kd.block.sum(value)
        if t == 0:
            total[0] = value


@kd.kernel
def summed_with_orders(x, partial, total, count):
    """Do the same, with a store that releases and loads that acquire in the place of fences."""
    ticket = kd.shared.array(1, np.int64)
    t = kd.threadIdx.x
    i = kd.grid(1)
    own = kd.block.sum(x[i] if i < x.size else 0)
    if t == 0:
        kd.atomic.store(partial, kd.blockIdx.x, own + 1, order="release")
        ticket[0] = kd.atomic.add(count, 0, 1)
    kd.syncthreads()
    if ticket[0] == kd.gridDim.x - 1 and t == 0:
        value = 0
        for k in range(kd.gridDim.x):
            value += kd.atomic.load(partial, k, order="acquire") - 1
        total[0] = value


def _summed(size, block):
    def make(rng):
        partial = poisoned(-(-size // block), np.int64)
        count = np.zeros(1, np.uint32)
        return random_array(rng, size, np.int64), partial, poisoned(1, np.int64), count

    return make


for _size, _block in ((5000, 64), (999, 37), (40, 64)):
    _common = {"grid": (-(-_size // _block),), "block": (_block,)}
    for _kernel in (summed_by_the_last_block, summed_with_orders):
        _list.add(f"{_kernel.__name__}_{_size}", _kernel, _summed(_size, _block), **_common)
