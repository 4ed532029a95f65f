"""Operations of warps on sides of branches to which several ways lead.

All lanes on one side are a group, whichever part of a condition sent them there, and whether the
condition is tested here or was before.
"""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned
from tests.support.cases import CaseList, integers_into

__all__ = ["CASES"]

_list = CaseList("joined_lanes")
CASES = _list.cases


def _numbers(columns):
    """Arguments (x, y, out): small numbers, and results of each thread."""

    def make(rng):
        x, y = (rng.integers(-4, 5, 150) for _ in range(2))
        return x, y, poisoned((150, columns), np.int64)

    return make


def _add(kernel, columns):
    for block in (25, 75):
        _list.add(
            f"{kernel.__name__}_{block}",
            kernel,
            _numbers(columns),
            grid=(150 // block,),
            block=(block,),
        )


@kd.kernel
def either_side(x, y, out):
    i = kd.grid(1)
    if x[i] > 0 and y[(i + x[i]) % 150] > 0:
        out[i, 0] = kd.warp.sum(x[i])
    else:
        out[i, 0] = -kd.warp.sum(y[i])
    if x[i] > 1 or y[(i + x[i]) % 150] > 1 or x[i] == y[i]:
        out[i, 1] = kd.warp.count(x[i] > 0)
    else:
        out[i, 1] = -kd.warp.max(y[i])
    if not (x[i] < 2 and (y[i] < 0 or x[(i + 7) % 150] > 0)):
        out[i, 2] = kd.warp.inclusive_scan(x[i])
    else:
        out[i, 2] = kd.warp.exclusive_scan(y[i])
    out[i, 3] = kd.warp.min(x[i]) if x[i] > 0 or y[i * 5 % 150] > 0 else kd.warp.max(x[i])
    out[i, 4] = (x[i] > 0 or y[i * 7 % 150] > 2) and kd.warp.any(y[i] > 3)


@kd.kernel
def flags(x, y, out):
    i = kd.grid(1)
    is_chosen = False
    if x[i] > 0:
        is_chosen = y[(i + x[i]) % 150] > 0
    elif x[i] < -2:
        is_chosen = True
    if is_chosen:
        out[i, 0] = kd.warp.sum(x[i])
    else:
        out[i, 0] = kd.warp.sum(y[i])
    if y[i] > 1:
        is_chosen = not is_chosen
    if is_chosen:
        out[i, 1] = kd.warp.sum(x[i] + 1)
    else:
        out[i, 1] = kd.warp.sum(y[i] + 2)


@kd.kernel
def returns(x, y, out):
    i = kd.grid(1)
    out[i, 0] = out[i, 1] = out[i, 2] = 0
    if x[i] > 2 and y[(i + x[i]) % 150] > 0:
        return
    out[i, 0] = kd.warp.sum(x[i])
    if x[i] < -2 or y[(i + x[i]) % 150] < -3:
        return
    out[i, 1] = kd.warp.sum(y[i])
    out[i, 2] = kd.block.sum(x[i])


@kd.func
def settled(value, other):
    if value > 1 and other[value] > 0:
        return kd.warp.sum(value)
    return -kd.warp.sum(value + 1)


@kd.kernel
def functions(x, y, out):
    i = kd.grid(1)
    out[i, 0] = settled(x[i], y)
    if x[i] == 0 or y[i] == 0:
        out[i, 1] = settled(y[i], x)
    else:
        out[i, 1] = kd.warp.min(y[i])


_add(either_side, 5)
_add(flags, 2)
_add(returns, 3)
_add(functions, 2)


@kd.kernel
def replaced(x, y, out):
    """A second branch on the same condition replaces results that took lanes apart."""
    i = kd.grid(1)
    lane = kd.laneid
    found = x[i]
    if kd.threadIdx.x < 32:
        lanes = kd.match_any_sync(0xFFFFFFFF, x[i] % 3)
        found = np.int64(kd.reduce_add_sync(lanes, np.int32(x[i])))
    if kd.threadIdx.x < 32:
        found = kd.shfl_xor_sync(0xFFFFFFFF, y[i], 2)
    out[i, 0] = found
    out[i, 1] = lane


for _block in (50, 75):
    _list.add(f"replaced_{_block}", replaced, _numbers(2), grid=(150 // _block,), block=(_block,))


@kd.kernel
def kept_or_exchanged(x, out):
    """What a branch without ``else`` stores is read after rows that a CPU may run together."""
    i = kd.grid(1)
    kd.syncthreads()
    is_high = x[i] > 0
    lanes = kd.ballot_sync(0xFFFFFFFF, is_high)
    found = 1
    if is_high:
        found = kd.reduce_add_sync(lanes, x[i])
    out[i] = found
    kd.syncthreads()


_list.add("kept_or_exchanged", kept_or_exchanged, integers_into(256), grid=(2,), block=(128,))


@kd.kernel
def skips_a_sort(x, y, out):
    """Results that took lanes apart decide on a sort that nothing reads."""
    i = kd.grid(1)
    t = kd.threadIdx.x
    shared = kd.shared.array(8, np.int64)
    lanes = kd.match_any_sync(255, i % 3)
    found = np.int64(kd.reduce_min_sync(lanes, np.int32(i)))
    if found % 3 < x[i] % 5:
        found = kd.warp.sort(y[i])
    shared[t] = y[i] + (found - found)
    kd.syncthreads()
    out[i, 0] = shared[7 - t]
    out[i, 1] = t


_list.add("skips_a_sort", skips_a_sort, _numbers(2), grid=(150 // 8,), block=(8,))
