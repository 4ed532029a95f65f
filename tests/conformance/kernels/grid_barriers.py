"""Barriers of the whole grid: what a block, its threads and its arrays keep across them."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned, random_array
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("grid_barriers")
CASES = _list.cases


def _into(size, dtype, *scalars):
    """A random array, a poisoned one of its size, and scalars."""

    def make(rng):
        return (random_array(rng, size, dtype), poisoned(size, dtype), *scalars)

    return make


@kd.kernel
def reversed_by_way_of_memory(x, between, out):
    i = kd.grid(1)
    if i < x.size:
        between[i] = x[i]
    kd.grid_group().sync()
    if i < x.size:
        out[i] = between[x.size - 1 - i]


for _grid, _block in ((7, 33), (1, 192), (190, 1), (5, 40)):
    _list.add(
        f"reversed_{_grid}_of_{_block}",
        reversed_by_way_of_memory,
        lambda rng: (
            random_array(rng, 190, np.float32),
            poisoned(190, np.float32),
            poisoned(190, np.float32),
        ),
        grid=(_grid,),
        block=(_block,),
    )


@kd.kernel
def jacobi(a, b, rounds):
    """Smooth in place, by way of another array."""
    grid = kd.grid_group()
    first, step = kd.grid(1), kd.gridsize(1)
    for _ in range(rounds):
        for i in range(first + 1, a.size - 1, step):
            b[i] = (a[i - 1] + a[i + 1]) * np.float32(0.5)
        grid.sync()
        for i in range(first + 1, a.size - 1, step):
            a[i] = b[i]
        grid.sync()


for _rounds in (0, 1, 6):
    _list.add(f"jacobi_{_rounds}", jacobi, _into(777, np.float32, _rounds), grid=(5,), block=(37,))


@kd.kernel
def summed(x, partial, out):
    """Sum up in one launch: threads, blocks, and the grid."""
    mine = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    total = 0
    for i in range(kd.grid(1), x.size, kd.gridsize(1)):
        total += x[i]
    mine[t] = total
    kd.syncthreads()
    if t == 0:
        total = 0
        for k in range(kd.blockDim.x):
            total += mine[k]
        partial[kd.blockIdx.x] = total
    kd.grid_group().sync()
    total = 0
    for k in range(kd.gridDim.x):
        total += partial[k]
    # What a block keeps in shared memory is there still.
    out[kd.grid(1)] = total + mine[kd.blockDim.x - 1 - t]


for _grid, _block in ((9, 64), (3, 41), (33, 7)):
    _list.add(
        f"summed_{_grid}_of_{_block}",
        summed,
        lambda rng, grid=_grid, block=_block: (
            random_array(rng, 3000, np.int64),
            poisoned(grid, np.int64),
            poisoned(grid * block, np.int64),
        ),
        grid=(_grid,),
        block=(_block,),
    )


@kd.kernel
def sorted_by_exchanges(x, n):
    """Sort by odd-even transposition."""
    i = kd.grid(1)
    for phase in range(n):
        j = 2 * i + phase % 2
        if j + 1 < x.size:
            a, b = x[j], x[j + 1]
            if b < a:
                x[j] = b
                x[j + 1] = a
        kd.grid_group().sync()


for _dtype, _size in ((np.int32, 61), (np.float64, 40), (np.uint8, 55)):
    _list.add(
        f"sorted_{np.dtype(_dtype)}",
        sorted_by_exchanges,
        lambda rng, size=_size, dtype=_dtype: (random_array(rng, size, dtype), size),
        grid=(4,),
        block=(9,),
    )


@kd.kernel
def until_nothing_changes(labels, changed, rounds):
    """Spread the smallest label along an array, until a round changes nothing."""
    i = kd.grid(1)
    done = 0
    changed[0] = 1
    kd.grid_group().sync()
    while changed[0] != 0:
        kd.grid_group().sync()
        if i == 0:
            changed[0] = 0
        left = labels[i]
        if i > 0:
            left = labels[i - 1]
        kd.grid_group().sync()
        if left < labels[i]:
            labels[i] = left
            kd.atomic.add(changed, 0, 1)
        done += 1
        kd.grid_group().sync()
    rounds[i] = done


_list.add(
    "until_nothing_changes",
    until_nothing_changes,
    lambda rng: (
        rng.integers(0, 1000, 63).astype(np.int32),
        poisoned(1, np.int32),
        poisoned(63, np.int64),
    ),
    grid=(3,),
    block=(21,),
)


@kd.func
def meet(out, value):
    out[kd.grid(1)] += value
    kd.grid_group().sync()
    return out[kd.gridsize(1) - 1 - kd.grid(1)]


@kd.kernel
def in_functions(x, out, how):
    i = kd.grid(1)
    out[i] = 0
    own = x[i]
    kd.grid_group().sync()
    if how == 0:
        return
    if how > 1:
        own += meet(out, own)
    else:
        own -= 1
    kd.grid_group().sync()
    for k in range(how, -3, -2):
        if k == 1:
            continue
        if k == -1:
            break
        own = meet(out, own + k)
        kd.grid_group().sync()
    if i % 3 == 0:
        return
    out[i] = own


for _how in (0, 1, 2, 5):
    _list.add(
        f"in_functions_{_how}", in_functions, _into(5 * 11, np.int64, _how), grid=(5,), block=(11,)
    )


@kd.kernel
def values_of_all_kinds(x, out, narrow):
    """Keep numbers of several types, a local array and a shared one in loops across barriers."""
    i = kd.grid(1)
    n = x.size
    own = kd.local.array(3, np.int32)
    ours = kd.shared.array(32, np.float64)
    for k in range(3):
        own[k] = i * 10 + k
    ours[kd.threadIdx.x] = x[i]
    small, is_odd = np.int8(i), i % 2 == 1
    z = complex(x[i], 1.0)
    for k in range(narrow, narrow + 3):
        if is_odd:
            own[k % 3] += 1
        kd.grid_group().sync()
        z = z * 2.0
        small = np.int8(small + k)
        for m in range(2):
            kd.syncthreads()
            value = ours[(kd.threadIdx.x + 1) % kd.blockDim.x]
            kd.syncthreads()
            ours[kd.threadIdx.x] = value + m
        kd.grid_group().sync()
        out[(i + k) % n] = z.real + z.imag + small + own[0] + own[1] + own[2]
        kd.grid_group().sync()
        out[i] += ours[kd.threadIdx.x]
    kd.grid_group().sync()


_list.add(
    "values_of_all_kinds",
    values_of_all_kinds,
    _into(4 * 23, np.float64, np.int8(2)),
    grid=(4,),
    block=(23,),
)


@kd.kernel
def planes(x, out, rounds):
    """Add up neighbours in a grid and in blocks of three axes."""
    i, j, k = kd.grid(3)
    nx, ny, nz = kd.gridsize(3)
    out[i, j, k] = x[i, j, k]
    for _ in range(rounds):
        kd.grid_group().sync()
        value = out[(i + 1) % nx, j, k] - out[i, (j + 1) % ny, k] + out[i, j, (k + 1) % nz]
        kd.grid_group().sync()
        out[i, j, k] = value


_list.add(
    "planes",
    planes,
    _into((6, 10, 6), np.int32, 3),
    grid=(2, 5, 3),
    block=(3, 2, 2),
)


@kd.kernel
def groups_and_lanes(x, partial, out):
    i = kd.grid(1)
    total = kd.block.sum(x[i])
    if kd.threadIdx.x == 0:
        partial[kd.blockIdx.x] = total
    up = kd.shfl_up_sync(0xFFFFFFFF, x[i], 1)
    kd.grid_group().sync()
    before = 0
    for b in range(kd.blockIdx.x):
        before += partial[b]
    scan = kd.block.inclusive_scan(x[i])
    kd.grid_group().sync()
    out[i] = before + scan + 1000 * up + kd.block.max(before)


for _block in (64, 50):
    _list.add(
        f"groups_and_lanes_{_block}",
        groups_and_lanes,
        lambda rng, block=_block: (
            rng.integers(0, 50, 6 * block),
            poisoned(6, np.int64),
            poisoned(6 * block, np.int64),
        ),
        grid=(6,),
        block=(_block,),
    )


@kd.kernel
def tiles_across(x, sums, out):
    """Normalize the columns of a matrix: a block has some rows, and knows them still."""
    at = kd.blockIdx.x * 5
    rows = kd.tile.load(x, (at, 0), (5, 12))
    kd.tile.store(sums, (kd.blockIdx.x, 0), rows.sum(axis=0))
    kd.grid_group().sync()
    others = kd.tile.load(sums, (0, 0), (8, 12))
    scaled = rows - others.sum(axis=0)
    kd.grid_group().sync()
    kd.tile.store(out, (at, 0), scaled + rows)


def _of_columns(x, sums, out):
    sums[...] = np.pad(x, ((0, 2), (0, 0))).reshape(8, 5, 12).sum(axis=1)
    return {1: sums, 2: 2 * x - x.sum(axis=0)}


for _block in (32, 45):
    _list.add(
        f"tiles_across_{_block}",
        tiles_across,
        lambda rng: (
            rng.integers(-999, 999, (38, 12)),
            poisoned((8, 12), np.int64),
            poisoned((38, 12), np.int64),
        ),
        grid=(8,),
        block=(_block,),
        expected=_of_columns,
    )


@kd.kernel
def dynamic_shared(x, out, rounds):
    ours = kd.shared.array(0, np.int32)
    t, i = kd.threadIdx.x, kd.grid(1)
    ours[t] = x[i]
    kd.syncthreads()
    for k in range(rounds):
        out[i] = ours[kd.blockDim.x - 1 - t]
        kd.grid_group().sync()
        ours[t] += out[(i + 7 * k) % x.size]
        kd.grid_group().sync()
    out[i] = ours[t]


_list.add(
    "dynamic_shared",
    dynamic_shared,
    _into(3 * 19, np.int32, 4),
    grid=(3,),
    block=(19,),
    shared_bytes=4 * 19,
)


@kd.kernel
def under_a_flag_of_a_tuple(x, state, out, rounds):
    """Rebuild where a flag in memory says so; each block lowers the flag once."""
    limit, (flags, counts), own = state
    i, t = kd.grid(1), kd.threadIdx.x
    n = x.size
    own[i] = 0
    if i == 0:
        flags[0] = flags[1] = 0
    kd.grid_group().sync()
    for k in range(rounds):
        if x[i] > limit:
            flags[0] = kd.gridDim.x
        kd.grid_group().sync()
        if flags[0] > 0:
            counts[i] = x[i] + own[i]
            kd.syncthreads()
            first = i - t
            own[i] += counts[first + (t + k + 1) % kd.blockDim.x]
            if t == 0:
                kd.atomic.add(flags, 0, -1)
            if i == 0:
                flags[1] += 1
        kd.grid_group().sync()
        x[i] += (i + k) % 3
        kd.grid_group().sync()
    out[i] = own[i] * 16 + flags[1] + own[(i + 1) % n]


for _grid, _block in ((5, 13), (1, 65), (65, 1)):
    _list.add(
        f"under_a_flag_of_a_tuple_{_grid}_of_{_block}",
        under_a_flag_of_a_tuple,
        lambda rng: (
            rng.integers(-3, 1, 65),
            (2, (poisoned(2, np.int32), poisoned(65, np.int64)), poisoned(65, np.int64)),
            poisoned(65, np.int64),
            6,
        ),
        grid=(_grid,),
        block=(_block,),
    )


@kd.kernel
def scanned_in_a_while_loop(x, sums, out):
    """Scan each block in a loop with a test, which ends early where a sum is large."""
    own = kd.shared.array(64, np.int64)
    t, width = kd.threadIdx.x, kd.blockDim.x
    i = kd.grid(1)
    own[t] = x[i]
    kd.syncthreads()
    step = 1
    while step < width and own[width - 1] < 40:
        left = own[t - step] if t >= step else 0
        kd.syncthreads()
        own[t] += left
        kd.syncthreads()
        step *= 2
    sums[kd.blockIdx.x] = step
    kd.grid_group().sync()
    out[i] = own[t] * 100 + sums[kd.gridDim.x - 1 - kd.blockIdx.x]


for _block in (37, 64):
    _list.add(
        f"scanned_in_a_while_loop_{_block}",
        scanned_in_a_while_loop,
        lambda rng, block=_block: (
            rng.integers(0, 5, 3 * block),
            poisoned(3, np.int64),
            poisoned(3 * block, np.int64),
        ),
        grid=(3,),
        block=(_block,),
    )
