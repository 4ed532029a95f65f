"""Matches, reductions and masks of lanes: dtypes, random masks, partial warps, shapes of blocks."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.conformance.kernels.warps import linear_thread, live_lanes
from tests.support.arrays import poisoned, random_array
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("lanes")
CASES = _list.cases

_FULL = 0xFFFFFFFF
_EXCHANGED = ("int32", "int64", "uint32", "uint64", "float32", "float64")
_NARROW = ("bool", "int8", "int16", "uint8", "uint16")
_BLOCKS = (*((n,) for n in (1, 2, 17, 31, 32, 33, 63, 96, 200)), (8, 4), (5, 7), (3, 4, 5))


@kd.func
def element():
    """This thread's index in the whole grid, x first, of blocks along x."""
    return kd.blockIdx.x * (kd.blockDim.x * kd.blockDim.y * kd.blockDim.z) + linear_thread()


def _masks(rng, threads, blocks):
    """A mask for each thread: the lanes of its warp that share a random number, if it lives."""
    groups = rng.choice((1, 2, 5), (blocks, -(-threads // 32), 1))
    labels = (rng.integers(0, 100, (blocks, -(-threads // 32), 32)) % groups).reshape(blocks, -1)
    masks = np.zeros((blocks, threads), np.int64)
    for block in range(blocks):
        for thread in range(threads):
            first = thread // 32 * 32
            same = labels[block, first : min(first + 32, threads)] == labels[block, thread]
            masks[block, thread] = sum(1 << int(k) for k in np.flatnonzero(same))
    return masks.ravel()


def _values(rng, size, dtype):
    """Values of which some are equal, and of floats some special."""
    x = random_array(rng, size, dtype)
    if np.dtype(dtype).kind == "f":
        chosen = rng.random(size) < 0.4
        x[chosen] = rng.choice((0.0, -0.0, np.nan, np.inf, 1.5, -2.0), size).astype(dtype)[chosen]
    elif dtype != "bool":
        x[rng.random(size) < 0.4] = 7
    return x


def _grouped(block, dtype, *outputs):
    threads, blocks = int(np.prod(block)), 2

    def make(rng):
        size = threads * blocks
        x = _values(rng, size, dtype)
        return x, _masks(rng, threads, blocks), *(poisoned((size, n), d) for n, d in outputs)

    return make


@kd.kernel
def extrema_and_sums(x, masks, out):
    i = element()
    out[i, 0] = kd.reduce_add_sync(masks[i], x[i])
    out[i, 1] = kd.reduce_min_sync(masks[i], x[i])
    out[i, 2] = kd.reduce_max_sync(masks[i], x[i])


@kd.kernel
def bitwise(x, masks, out):
    i = element()
    out[i, 0] = kd.reduce_and_sync(masks[i], x[i])
    out[i, 1] = kd.reduce_or_sync(masks[i], x[i])
    out[i, 2] = kd.reduce_xor_sync(masks[i], x[i])


@kd.kernel
def matches(x, masks, out):
    i = element()
    out[i, 0] = kd.match_any_sync(masks[i], x[i])
    lanes, is_one = kd.match_all_sync(masks[i], x[i])
    out[i, 1] = lanes
    out[i, 2] = is_one
    first, second = kd.match_all_sync(masks[i], kd.laneid < 0)
    out[i, 3] = first if second else -1
    out[i, 4] = kd.eq_sync(masks[i], x[i] != x[i]) + 2 * kd.eq_sync(masks[i], masks[i])


for _dtype in (*_EXCHANGED, *_NARROW):
    _blocks = _BLOCKS if _dtype in ("int32", "float32", "int64") else _BLOCKS[4:9:2]
    _wide = "int32" if _dtype in _NARROW else _dtype
    for _block in _blocks:
        _name = f"{_dtype}_{'x'.join(map(str, _block))}"
        _shape = {"grid": (2,), "block": _block}
        _list.add(f"sums_{_name}", extrema_and_sums, _grouped(_block, _dtype, (3, _wide)), **_shape)
        _list.add(f"matches_{_name}", matches, _grouped(_block, _dtype, (5, "int64")), **_shape)
        if "float" not in _dtype:
            _list.add(f"bitwise_{_name}", bitwise, _grouped(_block, _dtype, (3, _wide)), **_shape)


@kd.kernel
def of_products(x, y, out):
    # A lane's product is rounded before the sum, which is the same in all lanes.
    i = kd.grid(1)
    out[i] = kd.reduce_add_sync(_FULL, x[i] * y[i])


for _dtype in ("float32", "float64"):

    def _factors(rng, dtype=_dtype):
        return *(random_array(rng, 128, dtype) for _ in range(2)), poisoned(128, dtype)

    _list.add(f"of_products_{_dtype}", of_products, _factors, grid=(2,), block=(64,))


@kd.kernel
def masks_of_lanes(x, out):
    i = element()
    out[i, 0] = kd.lanemask_lt()
    out[i, 1] = kd.activemask()
    live = (1 << live_lanes()) - 1
    if x[i] % 2 == 0:
        out[i, 2] = kd.popc(kd.ballot_sync(kd.activemask(), x[i] > 0) & kd.lanemask_lt())
    else:
        out[i, 2] = -1
    out[i, 3] = kd.popc(kd.ballot_sync(live, True) & kd.lanemask_lt())


for _block in _BLOCKS:

    def _whole(rng, block=_block):
        threads = int(np.prod(block))
        return rng.integers(-50, 50, threads * 2), poisoned((threads * 2, 4), np.int64)

    _list.add(
        f"masks_{'x'.join(map(str, _block))}", masks_of_lanes, _whole, grid=(2,), block=_block
    )


@kd.kernel
def only_a_mask(out):
    out[kd.grid(1)] = kd.lanemask_lt()


@kd.kernel
def only_a_lane(out):
    out[kd.grid(1)] = kd.laneid


@kd.func
def lanes_below():
    return kd.popc(kd.lanemask_lt())


@kd.kernel
def only_a_function(out):
    out[kd.grid(1)] = lanes_below()


@kd.kernel
def guarded_mask(out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = kd.lanemask_lt()


# Nothing else in these needs blocks.
for _kernel in (only_a_mask, only_a_lane, only_a_function, guarded_mask):
    for _block in (32, 7, 96):
        _list.add(
            f"{_kernel.__name__}_{_block}",
            _kernel,
            lambda rng, n=_block: (poisoned(2 * n, np.uint32),),
            grid=(2,),
            block=(_block,),
        )


@kd.kernel
def counts_by_key(keys, counts):
    # One atomic for each key of a warp.
    i = kd.grid(1)
    same = kd.match_any_sync(_FULL, keys[i])
    if kd.ffs(same) - 1 == kd.laneid:
        kd.atomic.add(counts, keys[i], kd.popc(same))


def _keys(rng):
    return rng.integers(0, 10, 256), np.zeros(10, np.int64)


_list.add(
    "counts_by_key",
    counts_by_key,
    _keys,
    grid=(2,),
    block=(128,),
    expected=lambda keys, counts: {1: np.bincount(keys, minlength=10)},
)


@kd.kernel
def in_branches(x, masks, out):
    # Lanes go apart, and each side reduces among its own.
    i = kd.grid(1)
    mask = masks[i // 32]
    others = mask ^ _FULL
    if mask >> kd.laneid & 1:
        out[i] = kd.reduce_add_sync(mask, x[i])
        if kd.match_any_sync(mask, x[i] > 0) == mask:
            out[i] += 10**6
    else:
        total = kd.reduce_max_sync(others, x[i])
        kd.syncwarp(others)
        out[i] = total - kd.reduce_min_sync(others, x[i] * x[i])


def _halves(rng):
    masks = rng.integers(0, 2**32, 6, dtype=np.uint32).astype(np.int64)
    masks[0] = _FULL
    return rng.integers(-1000, 1000, 192), masks, poisoned(192, np.int64)


_list.add("in_branches", in_branches, _halves, grid=(2,), block=(96,))
