"""Shared and private arrays of every dtype and rank, and dynamic shared memory."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.support.arrays import HOST_DTYPES, poisoned, random_array
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("memory")
CASES = _list.cases


def _shared_of(dtype):
    @kd.kernel
    def shared_of_dtype(x, out):
        s = kd.shared.array(64, dtype)
        t = kd.threadIdx.x
        s[t] = x[kd.grid(1)]
        kd.syncthreads()
        out[kd.grid(1)] = s[kd.blockDim.x - 1 - t]

    return shared_of_dtype


def _local_of(dtype):
    @kd.kernel
    def local_of_dtype(x, out):
        mine = kd.local.array(5, dtype)
        i = kd.grid(1)
        for k in range(5):
            mine[k] = x[(i + k) % x.size]
        for k in range(5):
            out[i, k] = mine[4 - k]

    return local_of_dtype


def _inputs(dtype, columns=1):
    def make(rng):
        shape = (74, columns) if columns > 1 else 74
        return random_array(rng, 74, dtype), poisoned(shape, dtype)

    return make


for _name in HOST_DTYPES:
    _dtype = np.dtype(_name).type
    _list.add(
        f"shared_{_name}",
        _shared_of(_dtype),
        _inputs(_dtype),
        grid=(2,),
        block=(37,),
        dtype=_name,
    )
    _list.add(
        f"local_{_name}",
        _local_of(_dtype),
        _inputs(_dtype, 5),
        grid=(2,),
        block=(37,),
        dtype=_name,
    )


@kd.kernel
def two_shared_types(x, out):
    small = kd.shared.array(37, np.int8)
    large = kd.shared.array(37, np.float64)
    flags = kd.shared.array(37, np.bool_)
    t = kd.threadIdx.x
    i = kd.grid(1)
    small[t] = t
    large[t] = x[i]
    flags[t] = x[i] > 0
    kd.syncthreads()
    k = (t + 1) % kd.blockDim.x
    out[i] = small[k] + large[k] if flags[k] else large[k]


def _floats(rng):
    return random_array(rng, 74, np.float64), poisoned(74, np.float64)


_list.add("two_shared_types", two_shared_types, _floats, grid=(2,), block=(37,))


@kd.kernel
def shared_ranks(x, out):
    one = kd.shared.array(24, np.int64)
    two = kd.shared.array((4, 6), np.int64)
    three = kd.shared.array((2, 3, 4), np.int64)
    t = kd.threadIdx.x
    i = kd.grid(1)
    one[t] = x[i]
    two[t // 6, t % 6] = x[i] * 2
    three[t // 12, t // 4 % 3, t % 4] = x[i] * 3
    kd.syncthreads()
    r = kd.blockDim.x - 1 - t
    out[i] = one[r] + two[r // 6, r % 6] * 10 + three[r // 12, r // 4 % 3, r % 4] * 100
    if t == 0:
        out[i] += one.size + two.shape[0] * two.shape[1] + three.shape[2] + three.ndim


def _shared_ranks(rng):
    return rng.integers(-1000, 1000, 48), poisoned(48, np.int64)


_list.add("shared_ranks", shared_ranks, _shared_ranks, grid=(2,), block=(24,))


@kd.kernel
def local_ranks(x, out):
    two = kd.local.array((2, 3), np.float32)
    three = kd.local.array((2, 2, 2), np.int32)
    i = kd.grid(1)
    for a in range(2):
        for b in range(3):
            two[a, b] = x[i] + a * 3 + b
        for b in range(2):
            for c in range(2):
                three[a, b, c] = a * 4 + b * 2 + c
    out[i] = two[1, 2] + two[0, 1] + three[1, 0, 1] * two[-1, -1]


def _whole_floats(rng):
    return rng.integers(-99, 99, 40).astype(np.float32), poisoned(40, np.float32)


_list.add("local_ranks", local_ranks, _whole_floats, extent=(40,))


@kd.kernel
def dynamic_shared(x, out):
    s = kd.shared.array(0, np.float32)
    t = kd.threadIdx.x
    s[t] = x[kd.grid(1)]
    kd.syncthreads()
    out[kd.grid(1)] = s[kd.blockDim.x - 1 - t]


def _dynamic(rng):
    return random_array(rng, 111, np.float32), poisoned(111, np.float32)


_list.add("dynamic_shared", dynamic_shared, _dynamic, grid=(3,), block=(37,), shared_bytes=37 * 4)


@kd.kernel
def dynamic_and_static_shared(x, out):
    static = kd.shared.array(37, np.int16)
    s = kd.shared.array(0, np.float64)
    t = kd.threadIdx.x
    static[t] = t
    s[t] = x[kd.grid(1)]
    s[t + kd.blockDim.x] = x[kd.grid(1)] * 2.0
    kd.syncthreads()
    k = (t + 5) % kd.blockDim.x
    out[kd.grid(1)] = s[k] + s[k + kd.blockDim.x] + static[k]


def _dynamic_doubles(rng):
    return rng.integers(-99, 99, 111).astype(np.float64), poisoned(111, np.float64)


_list.add(
    "dynamic_and_static_shared",
    dynamic_and_static_shared,
    _dynamic_doubles,
    grid=(3,),
    block=(37,),
    shared_bytes=37 * 16,
)


@kd.kernel
def dynamic_as_two_types(x, out):
    # As in CUDA, every declaration of dynamic shared memory names the same bytes.
    words = kd.shared.array(0, np.uint32)
    reals = kd.shared.array(0, np.float32)
    t = kd.threadIdx.x
    reals[t] = x[kd.grid(1)]
    kd.syncthreads()
    out[kd.grid(1)] = words[(t + 1) % kd.blockDim.x]


def _bits(rng):
    return random_array(rng, 74, np.float32), poisoned(74, np.uint32)


_list.add(
    "dynamic_as_two_types",
    dynamic_as_two_types,
    _bits,
    grid=(2,),
    block=(37,),
    shared_bytes=37 * 4,
)


@kd.kernel
def dynamic_in_parts(x, out):
    # As in CUDA: parts of the one dynamic shared memory, cut out by whoever declares it.
    n = kd.blockDim.x
    doubles = kd.shared.array(0, np.float64)[:n]
    halves = kd.shared.array(0, np.int16)[4 * n : 5 * n]
    rest = kd.shared.array(0, np.int16)[5 * n + 1 :].view(np.int32)
    t = kd.threadIdx.x
    doubles[t] = x[kd.grid(1)]
    halves[t] = 3 * t
    rest[t] = -t
    kd.syncthreads()
    k = (t + 5) % n
    out[kd.grid(1)] = doubles[k] + 1000 * np.int64(halves[k]) + rest[k] + rest.size


_list.add(
    "dynamic_in_parts",
    dynamic_in_parts,
    _dynamic_doubles,
    grid=(3,),
    block=(37,),
    shared_bytes=37 * 10 + 2 + 37 * 4,
)


@kd.kernel
def large_shared(x, out):
    # 40 KB, which no stack frame of a thread should be asked for.
    s = kd.shared.array((64, 160), np.float32)
    t = kd.threadIdx.x
    for k in range(160):
        s[t, k] = x[kd.grid(1)] * np.float32(k)
    kd.syncthreads()
    total = np.float32(0)
    for k in range(64):
        total += s[k, (t + k) % 160]
    out[kd.grid(1)] = total


def _large(rng):
    return rng.integers(-8, 8, 128).astype(np.float32), poisoned(128, np.float32)


_list.add("large_shared", large_shared, _large, grid=(2,), block=(64,))


@kd.kernel
def dynamic_beside_private_values(x, out):
    s = kd.shared.array(0, np.int64)
    t = kd.threadIdx.x
    a, b, c, d = x[t], x[t] * 2, x[t] * 3, x[t] * 5
    e, f, g, h = x[t] * 7, x[t] * 11, x[t] * 13, x[t] * 17
    j, k = x[t] * 19, x[t] * 23
    s[t] = 1000 + t
    kd.syncthreads()
    other = s[1023 - t]
    out[t] = a + b + c + d + e + f + g + h + j + k + other


_list.add(
    "dynamic_beside_private_values",
    dynamic_beside_private_values,
    lambda rng: (rng.integers(-1000, 1000, 1024), poisoned(1024, np.int64)),
    block=(1024,),
    shared_bytes=8 * 1024,
    expected=lambda x, out: {1: x * 101 + 1000 + np.arange(1024)[::-1]},
)


@kd.func
def last_of_three(x, i):
    mine = kd.local.array(3, x.dtype)
    for k in range(3):
        mine[k] = x[(i + k) % x.size]
    return mine[2]


@kd.kernel
def dtypes_of_values(x, out):
    dtype = x.dtype
    s = kd.shared.array(64, dtype=x.dtype)
    mine = kd.local.array(2, dtype)
    t, i = kd.threadIdx.x, kd.grid(1)
    s[t] = x[i]
    kd.syncthreads()
    mine[0], mine[1] = s[kd.blockDim.x - 1 - t], last_of_three(x, i)
    out[i] = mine[t % 2]


for _dtype in ("int8", "float32", "complex128"):
    _list.add(
        f"dtypes_of_values_{_dtype}",
        dtypes_of_values,
        lambda rng, d=_dtype: (random_array(rng, 128, d), poisoned(128, d)),
        grid=(2,),
        block=(64,),
    )
