"""Chains: parts in the order in which blocks start, and what is before a part, on every dtype.

What is before is the same where a block publishes its value first, and where the state has the room
for each value to have a sector of its own.

The oracle says what stands in the state afterwards, too: every node of the tree that is combined.
"""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from kerneldsl.language.intrinsics.chains import CHAIN_SPREAD_WORDS, CHAIN_WORDS
from kerneldsl.language.intrinsics.table import INTRINSICS
from tests.support.arrays import HOST_DTYPES, poisoned, random_array
from tests.support.cases import CaseList
from tests.support.chains import Chains

__all__ = ["CASES"]

_list = CaseList("chains")
CASES = _list.cases


def _state(rng, blocks, dtype=np.uint64, words=CHAIN_WORDS):
    """The state of a chain after some launches, with more blocks than there are now."""
    state = np.zeros(words * blocks, np.uint64)
    launches = rng.integers(0, 5)
    state[0] = launches << 32
    state[1:] = rng.integers(0, launches + 1, state.size - 1) << 32
    state[1:] += rng.integers(0, 1 << 32, state.size - 1).astype(np.uint64)
    return state.astype(dtype)


def _values(blocks, dtype, *, is_special=False, words=CHAIN_WORDS):
    def make(rng):
        x = random_array(rng, blocks, dtype)
        if is_special:
            x[::5], x[1::5], x[7::31] = 0.0, -0.0, np.inf
            x[-3:] = np.nan
        return x, poisoned(blocks, dtype), _state(rng, blocks, words=words)

    return make


@kd.func
def is_first_thread():
    return kd.threadIdx.x == 0 and kd.threadIdx.y == 0 and kd.threadIdx.z == 0


@kd.kernel
def sums_before(x, out, state):
    part = kd.chain.next(state)
    before = kd.chain.before(state, part, x[part])
    if is_first_thread():
        out[part] = out.dtype.type(before)  # a sum of small integers is an int32


for _dtype in INTRINSICS["chain.before"].dtypes:
    if _dtype in HOST_DTYPES:
        _list.add(
            f"sums_{_dtype}",
            sums_before,
            _values(70, _dtype),
            grid=(70,),
            block=(33,),
            dtype=_dtype,
        )
for _blocks, _block in (
    (1, 96),
    (2, 1),
    (31, 5),
    (32, 40),
    (33, 31),
    (64, 32),
    (1100, 2),
    (1030, 64),
):
    for _dtype in ("float32", "int64"):
        _list.add(
            f"sums_{_dtype}_of_{_blocks}_blocks_of_{_block}",
            sums_before,
            _values(_blocks, _dtype),
            grid=(_blocks,),
            block=(_block,),
        )
for _grid, _block in (((7, 5), (8, 3)), ((3, 4, 5), (5, 4, 3)), ((2, 33), (4, 4, 4))):
    _shown = "x".join(map(str, _grid))
    _blocks = int(np.prod(_grid))
    _common = {"grid": _grid, "block": _block}
    _list.add(f"sums_of_a_grid_of_{_shown}", sums_before, _values(_blocks, np.float32), **_common)
_list.add(
    "sums_special", sums_before, _values(70, np.float64, is_special=True), grid=(70,), block=(32,)
)


@kd.kernel
def published_sums(x, out, state):
    part = kd.chain.next(state)
    kd.chain.publish(state, part, x[part])
    # A barrier, and shared memory, between what is published and what is asked for.
    all_of_block = kd.block.sum(1)
    before = kd.chain.before(state, part, x[part])
    if is_first_thread() and all_of_block == kd.blockDim.x * kd.blockDim.y * kd.blockDim.z:
        out[part] = out.dtype.type(before)


for _dtype in INTRINSICS["chain.publish"].dtypes:
    if _dtype in HOST_DTYPES:
        for _words in (CHAIN_WORDS, CHAIN_SPREAD_WORDS):
            _list.add(
                f"published_sums_{_dtype}_in_{_words}_words",
                published_sums,
                _values(70, _dtype, words=_words),
                grid=(70,),
                block=(33,),
                dtype=_dtype,
            )
#: Just too few elements for a sector each, and enough.
_ROOMS = (CHAIN_SPREAD_WORDS - 1, CHAIN_SPREAD_WORDS)
for _blocks, _block in ((1, 96), (1, 1), (2, 5), (32, 40), (33, 31), (1100, 2), (1030, 64)):
    for _dtype in ("float32", "int64"):
        for _words in _ROOMS:
            _list.add(
                f"published_sums_{_dtype}_of_{_blocks}_blocks_of_{_block}_in_{_words}_words",
                published_sums,
                _values(_blocks, _dtype, words=_words),
                grid=(_blocks,),
                block=(_block,),
            )
_list.add(
    "published_sums_of_a_grid_of_3x4x5",
    published_sums,
    _values(60, np.float32, words=CHAIN_SPREAD_WORDS),
    grid=(3, 4, 5),
    block=(5, 4, 3),
)
_list.add(
    "published_sums_special",
    published_sums,
    _values(70, np.float64, is_special=True),
    grid=(70,),
    block=(32,),
)


@kd.kernel
def scan(x, out, state):
    """Sum up, in a block by threads and then by blocks."""
    part = kd.chain.next(state)
    i = part * kd.blockDim.x + kd.threadIdx.x
    v = x[i] if i < x.size else x.dtype.type(0)
    s = kd.block.inclusive_scan(v)
    before = kd.chain.before(state, part, kd.block.broadcast(s, kd.blockDim.x - 1))
    if i < x.size:
        out[i] = before + s


def _elements(size, block, dtype):
    def make(rng):
        blocks = -(-size // block)
        x = random_array(rng, size, dtype)
        return x, poisoned(size, dtype), _state(rng, blocks, np.int64)

    return make


for _size, _block in ((4999, 128), (1057, 32), (3001, 100), (77, 8)):
    for _dtype in ("int32", "uint64", "float32", "float64"):
        _list.add(
            f"scan_{_dtype}_by_{_block}",
            scan,
            _elements(_size, _block, _dtype),
            grid=(-(-_size // _block),),
            block=(_block,),
        )


@kd.func
def then(first, second):
    """Combine maps x -> m x + c of integers modulo 2**32, of which m is in the upper half."""
    low, half = kd.uint64(0xFFFFFFFF), kd.uint64(32)
    m = ((first >> half) * (second >> half)) & low
    c = ((first & low) * (second >> half) + (second & low)) & low
    return m << half | c


@kd.kernel
def maps_before(x, out, state):
    # Maps do not commute, so that an order shows.
    part = kd.chain.next(state)
    before = kd.chain.before(state, part, x[part], then, 1 << 32)
    if is_first_thread():
        out[part] = before


@kd.kernel
def largest_before(x, out, state):
    part = kd.chain.next(state)
    largest = kd.chain.before(state, part, x[part], op=lambda a, b: a if a > b else b, initial=-3)
    if is_first_thread():
        out[part] = largest


@kd.kernel
def published_maps(x, out, state):
    part = kd.chain.next(state)
    kd.chain.publish(state, part, x[part], then)
    before = kd.chain.before(state, part, x[part], then, 1 << 32)
    if is_first_thread():
        out[part] = before


@kd.kernel
def published_largest(x, out, state):
    part = kd.chain.next(state)
    kd.chain.publish(state, part, x[part], op=lambda a, b: a if a > b else b)
    largest = kd.chain.before(state, part, x[part], op=lambda a, b: a if a > b else b, initial=-3)
    if is_first_thread():
        out[part] = largest


@kd.kernel
def sums_after_initial(x, out, state):
    part = kd.chain.next(state)
    before = kd.chain.before(state, part, x[part], initial=0.1)
    if is_first_thread():
        out[part] = before


for _blocks, _block in ((70, 32), (1, 64), (33, 5)):
    _common = {"grid": (_blocks,), "block": (_block,)}
    _of = f"of_{_blocks}_blocks_of_{_block}"
    _list.add(f"maps_{_of}", maps_before, _values(_blocks, np.uint64), **_common)
    _list.add(f"published_maps_{_of}", published_maps, _values(_blocks, np.uint64), **_common)
    for _dtype in ("int8", "float16", "float32", "float64"):
        _list.add(
            f"published_largest_{_dtype}_{_of}",
            published_largest,
            _values(_blocks, _dtype, words=CHAIN_SPREAD_WORDS),
            **_common,
        )
    for _dtype in ("int8", "int32", "float16", "float32", "float64"):
        _list.add(f"largest_{_dtype}_{_of}", largest_before, _values(_blocks, _dtype), **_common)
    for _dtype in ("float16", "float32", "float64"):
        _list.add(
            f"initial_{_dtype}_{_of}", sums_after_initial, _values(_blocks, _dtype), **_common
        )


@kd.func
def before_this_block(state, value):
    return kd.chain.before(state, kd.chain.next(state), value)


@kd.kernel
def two_chains(x, y, out, first, second):
    part = kd.chain.next(first)
    total = kd.block.sum(x[part, kd.threadIdx.x])
    sums = kd.chain.before(first, part, total)
    largest = kd.chain.before(second, part, y[part], lambda a, b: max(a, b), 0)
    out[part, kd.threadIdx.x] = sums + largest


@kd.kernel
def two_published_chains(x, y, out, first, second):
    # The block knows the launch of the second state alone, of which it has taken a part.
    part = kd.chain.next(first)
    other = kd.chain.next(second)
    total = kd.block.sum(x[part, kd.threadIdx.x])
    kd.chain.publish(first, part, total)
    kd.chain.publish(second, other, y[other], lambda a, b: max(a, b))
    sums = kd.chain.before(first, part, total)
    largest = kd.chain.before(second, other, y[other], lambda a, b: max(a, b), 0)
    out[part, kd.threadIdx.x] = sums
    y[other] = largest


@kd.kernel
def published_of_one_of_two(x, y, out, first, second):
    part = kd.chain.next(first)
    kd.chain.publish(first, part, y[part])
    total = kd.block.sum(x[part, kd.threadIdx.x])
    sums = kd.chain.before(second, part, total)
    earlier = kd.chain.before(first, part, y[part])
    out[part, kd.threadIdx.x] = sums + earlier


@kd.kernel
def chain_in_a_function(x, out, state):
    before = before_this_block(state, x.dtype.type(1))
    if kd.threadIdx.x == 0:
        out[before] = x[before]


@kd.kernel
def under_an_argument(x, out, state, how):
    if how > 0:
        part = kd.chain.next(state)
        t = kd.threadIdx.x
        value = x[part * kd.blockDim.x + t]
        if how > 1:
            value = kd.block.max(value)
        else:
            value = kd.block.min(value)
        before = kd.chain.before(state, part, value)
        out[part * kd.blockDim.x + t] = before + t
    else:
        out[kd.blockIdx.x * kd.blockDim.x + kd.threadIdx.x] = 0


def _two(rng):
    x, y = random_array(rng, (65, 48), np.int32), random_array(rng, 65, np.int64)
    first, second = _state(rng, 65), _state(rng, 65, np.int64)
    return x, y, poisoned(x.shape, np.int64), first, second


_list.add("two_chains", two_chains, _two, grid=(65,), block=(48,))
_list.add("two_published_chains", two_published_chains, _two, grid=(65,), block=(48,))
_list.add("published_of_one_of_two", published_of_one_of_two, _two, grid=(65,), block=(48,))
_list.add("in_a_function", chain_in_a_function, _values(40, np.int64), grid=(40,), block=(34,))
for _how in (0, 1, 2):
    _list.add(
        f"under_an_argument_{_how}",
        under_an_argument,
        lambda rng, how=_how: (
            random_array(rng, 37 * 50, np.int64),
            poisoned(37 * 50, np.int64),
            _state(rng, 37),
            how,
        ),
        grid=(37,),
        block=(50,),
    )


def _in_order(x, out, state):
    """Answer as the oracle does, without a thread for each thread of the blocks."""
    chains = Chains(x.size)
    with np.errstate(all="ignore"):
        for value in x:
            part = chains.answer("next", (state,))
            out[part] = chains.answer("before", (state, part, value, None, None))
    return {1: out, 2: state}


# In blocks of many warps each level has a warp.
for _blocks, _block in ((1100, 256), (3300, 512), (2100, 160), (1025, 1024), (40, 416)):
    for _dtype in ("float32", "int64", "float64"):
        _list.add(
            f"published_sums_{_dtype}_of_{_blocks}_blocks_of_{_block}",
            published_sums,
            _values(_blocks, _dtype, words=CHAIN_SPREAD_WORDS),
            grid=(_blocks,),
            block=(_block,),
            expected=_in_order,
        )
        _list.add(
            f"sums_{_dtype}_of_{_blocks}_blocks_of_{_block}",
            sums_before,
            _values(_blocks, _dtype),
            grid=(_blocks,),
            block=(_block,),
            expected=_in_order,
        )
