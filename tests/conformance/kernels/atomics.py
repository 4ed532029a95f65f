"""Atomics on every dtype, on global and on shared memory, with the values they return."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from kerneldsl.language.intrinsics.atomics import ATOMIC_ARITHMETIC, ATOMIC_BITWISE, ATOMIC_WRAPPING
from tests.support.arrays import HOST_DTYPES, poisoned, random_array
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("atomics")
CASES = _list.cases
_THREADS = 74


@kd.kernel
def arithmetic(x, out):
    # Every thread updates one of five elements of each row.
    i = kd.grid(1)
    k = i % 5
    kd.atomic.add(out, (0, k), x[i])
    kd.atomic.sub(out, (1, k), x[i])
    kd.atomic.max(out, (2, k), x[i])
    kd.atomic.min(out, (3, k), x[i])


def _shared_arithmetic(dtype):
    @kd.kernel
    def arithmetic_on_shared(x, out):
        s = kd.shared.array((4, 5), dtype)
        t = kd.threadIdx.x
        i = kd.grid(1)
        if t < 20:
            s[t // 5, t % 5] = out[kd.blockIdx.x, t // 5, t % 5]
        kd.syncthreads()
        k = t % 5
        kd.atomic.add(s, (0, k), x[i])
        kd.atomic.sub(s, (1, k), x[i])
        kd.atomic.max(s, (2, k), x[i])
        kd.atomic.min(s, (3, k), x[i])
        kd.syncthreads()
        if t < 20:
            out[kd.blockIdx.x, t // 5, t % 5] = s[t // 5, t % 5]

    return arithmetic_on_shared


def _limit(dtype):
    """What numbers stay below whose sums are exact; bfloat16 has 8 bits for them."""
    return 3 if np.dtype(dtype).itemsize == 2 else 1000


def _whole(dtype, shape):
    """Whole numbers, so that sums of floats are exact in any order."""

    def make(rng):
        limit = _limit(dtype)
        low = 0 if np.dtype(dtype).kind == "u" else -limit
        x = rng.integers(low, limit, _THREADS).astype(dtype)
        out = rng.integers(0, limit, shape).astype(dtype)
        return x, out

    return make


@kd.kernel
def returned_values(x, out, old):
    # One element a thread, so the old values are known.
    i = kd.grid(1)
    old[0, i] = kd.atomic.add(out, (0, i), x[i])
    old[1, i] = kd.atomic.sub(out, (1, i), x[i])
    old[2, i] = kd.atomic.max(out, (2, i), x[i])
    old[3, i] = kd.atomic.min(out, (3, i), x[i])
    old[4, i] = kd.atomic.exch(out, (4, i), x[i])
    old[5, i] = kd.atomic.cas(out, (5, i), out[5, i], x[i])
    old[6, i] = kd.atomic.cas(out, (6, i), out[6, i] + x[i] + x[i], x[i])


def _rows_of(dtype, rows):
    def make(rng):
        x = rng.integers(1, 1000, _THREADS).astype(dtype)
        out = rng.integers(1, 1000, (rows, _THREADS)).astype(dtype)
        return x, out, poisoned((rows, _THREADS), dtype)

    return make


@kd.kernel
def compare_and_swap_loop(x, out):
    i = kd.grid(1)
    old = out[0]
    while True:
        found = kd.atomic.cas(out, 0, old, old + x[i])
        if found == old:
            break
        old = found


def _sum_into_one(x, out):
    with np.errstate(all="ignore"):
        return {1: (out + x.sum(dtype=x.dtype)).astype(out.dtype)}


for _name in (name for name in ATOMIC_ARITHMETIC if name in HOST_DTYPES):
    _dtype = np.dtype(_name).type
    _common = {"grid": (2,), "block": (37,), "dtype": _name}
    _list.add(f"arithmetic_{_name}", arithmetic, _whole(_dtype, (4, 5)), **_common)
    _list.add(
        f"arithmetic_shared_{_name}",
        _shared_arithmetic(_dtype),
        _whole(_dtype, (2, 4, 5)),
        **_common,
    )
    _list.add(f"returned_{_name}", returned_values, _rows_of(_dtype, 7), **_common)
    _list.add(
        f"cas_loop_{_name}",
        compare_and_swap_loop,
        _whole(_dtype, 1),
        expected=_sum_into_one,
        **_common,
    )


@kd.kernel
def bitwise(x, out, old):
    i = kd.grid(1)
    old[0, i] = kd.atomic.and_(out, (0, i), x[i])
    old[1, i] = kd.atomic.or_(out, (1, i), x[i])
    old[2, i] = kd.atomic.xor(out, (2, i), x[i])
    kd.atomic.and_(out, (3, 0), x[i] | 7)
    kd.atomic.or_(out, (3, 1), x[i] & 0x77)
    kd.atomic.xor(out, (3, 2), x[i])


def _shared_bitwise(dtype):
    @kd.kernel
    def bitwise_on_shared(x, out):
        s = kd.shared.array(3, dtype)
        t = kd.threadIdx.x
        i = kd.grid(1)
        if t < 3:
            s[t] = out[kd.blockIdx.x, t]
        kd.syncthreads()
        kd.atomic.and_(s, 0, x[i] | 7)
        kd.atomic.or_(s, 1, x[i] & 0x77)
        kd.atomic.xor(s, 2, x[i])
        kd.syncthreads()
        if t < 3:
            out[kd.blockIdx.x, t] = s[t]

    return bitwise_on_shared


def _bits(dtype, shape, with_old):
    def make(rng):
        x = random_array(rng, _THREADS, dtype)
        out = random_array(rng, shape, dtype)
        return (x, out, poisoned((3, _THREADS), dtype)) if with_old else (x, out)

    return make


for _name in ATOMIC_BITWISE:
    _dtype = np.dtype(_name).type
    _common = {"grid": (2,), "block": (37,), "dtype": _name}
    _list.add(f"bitwise_{_name}", bitwise, _bits(_dtype, (4, _THREADS), True), **_common)
    _list.add(
        f"bitwise_shared_{_name}",
        _shared_bitwise(_dtype),
        _bits(_dtype, (2, 3), False),
        **_common,
    )


@kd.kernel
def wrapping(x, out, old):
    i = kd.grid(1)
    old[0, i] = kd.atomic.inc(out, (0, i), x[i])
    old[1, i] = kd.atomic.dec(out, (1, i), x[i])
    kd.atomic.inc(out, (2, i % 5), 6)
    kd.atomic.dec(out, (2, 5 + i % 5), 6)


def _wrapping(dtype):
    def make(rng):
        x = rng.integers(0, 5, _THREADS).astype(dtype)
        out = rng.integers(0, 5, (3, _THREADS)).astype(dtype)
        return x, out, poisoned((2, _THREADS), dtype)

    return make


def _shared_wrapping(dtype):
    @kd.kernel
    def wrapping_on_shared(out):
        s = kd.shared.array(2, dtype)
        t = kd.threadIdx.x
        if t < 2:
            s[t] = t
        kd.syncthreads()
        kd.atomic.inc(s, 0, 9)
        kd.atomic.dec(s, 1, 9)
        kd.syncthreads()
        if t < 2:
            out[kd.blockIdx.x, t] = s[t]

    return wrapping_on_shared


for _name in ATOMIC_WRAPPING:
    _dtype = np.dtype(_name).type
    _common = {"grid": (2,), "block": (37,), "dtype": _name}
    _list.add(f"wrapping_{_name}", wrapping, _wrapping(_dtype), **_common)
    _list.add(
        f"wrapping_shared_{_name}",
        _shared_wrapping(_dtype),
        lambda rng, d=_dtype: (poisoned((2, 2), d),),
        **_common,
    )


@kd.kernel
def float_extremes(x, out):
    # A NaN yields to a number.
    i = kd.grid(1)
    kd.atomic.max(out, 0, x[i])
    kd.atomic.min(out, 1, x[i])


def _with_nan(dtype):
    def make(rng):
        x = random_array(rng, _THREADS, dtype)
        x[::7] = np.nan
        x[3] = -np.inf
        return x, np.array([np.nan, 5.0], dtype)

    return make


for _name in (name for name in ATOMIC_ARITHMETIC if name in HOST_DTYPES and "float" in name):
    _list.add(
        f"extremes_with_nan_{_name}",
        float_extremes,
        _with_nan(np.dtype(_name).type),
        grid=(2,),
        block=(37,),
    )


@kd.kernel
def index_forms(x, flat, matrix, cube):
    i = kd.grid(1)
    kd.atomic.add(flat, i % 4, x[i])
    kd.atomic.add(flat, -1, x[i])
    kd.atomic.add(matrix, (i % 2, i % 3), x[i])
    kd.atomic.add(cube, (i % 2, i % 3, -1), np.int32(1))


def _index_forms(rng):
    return (
        rng.integers(-9, 9, _THREADS).astype(np.int32),
        np.zeros(6, np.int32),
        np.zeros((2, 3), np.int64)[:, ::-1],
        np.zeros((2, 3, 4), np.float32),
    )


_list.add("index_forms", index_forms, _index_forms, grid=(2,), block=(37,))


@kd.kernel
def histogram(x, bins):
    local = kd.shared.array(16, np.int32)
    t = kd.threadIdx.x
    if t < 16:
        local[t] = 0
    kd.syncthreads()
    i = kd.grid(1)
    while i < x.size:
        kd.atomic.add(local, x[i] & 15, 1)
        i += kd.gridsize(1)
    kd.syncthreads()
    if t < 16:
        kd.atomic.add(bins, t, local[t])


def _histogram(rng):
    return rng.integers(0, 16, 5000).astype(np.uint8), np.zeros(16, np.int32)


def _counts(x, bins):
    return {1: np.bincount(x, minlength=16).astype(np.int32)}


_list.add("histogram", histogram, _histogram, grid=(3,), block=(64,), expected=_counts)


@kd.kernel
def one_operation_each(x, sums, extremes, bits):
    # All blocks update the same elements, whose old values nobody asks for.
    i, t = kd.grid(1), kd.threadIdx.x
    kd.atomic.add(sums, (t % 2, -1 - t % 3), x[i])
    if x[i] > 0:
        kd.atomic.max(extremes, t % extremes.size, x[i])
    kd.atomic.xor(bits, 0, kd.blockIdx.x << t % 8)


def _one_operation_each(rng):
    return (
        rng.integers(-500, 500, 36 * 23).astype(np.float32),
        np.full((2, 3), -0.0, np.float32),
        np.full(9, -np.inf, np.float32)[::2],
        np.zeros(1, np.int64),
    )


_list.add("one_operation_each", one_operation_each, _one_operation_each, grid=(36,), block=(23,))
