"""Barriers inside device functions."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("barrier_functions")
CASES = _list.cases


def _ints(blocks, threads, *scalars):
    def make(rng):
        size = blocks * threads
        return (rng.integers(-1000, 1000, size), poisoned(size, np.int64), *scalars)

    return make


@kd.func
def rotate(s, t, value):
    s[t] = value
    kd.syncthreads()
    result = s[(t + 1) % kd.blockDim.x]
    kd.syncthreads()
    return result


@kd.kernel
def called_once(x, out):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    out[kd.grid(1)] = rotate(s, t, x[kd.grid(1)]) * 2


_list.add("called_once", called_once, _ints(2, 37), grid=(2,), block=(37,))


@kd.kernel
def called_twice(x, out):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    first = rotate(s, t, x[kd.grid(1)])
    second = rotate(s, t, first + t)
    out[kd.grid(1)] = first * 1000 + second


_list.add("called_twice", called_twice, _ints(2, 37), grid=(2,), block=(37,))


@kd.kernel
def called_in_loop(x, out, steps):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    value = x[kd.grid(1)]
    for k in range(steps):
        value = rotate(s, t, value) - k
    out[kd.grid(1)] = value


for _steps in (0, 5):
    _list.add(
        f"called_in_loop_{_steps}", called_in_loop, _ints(2, 37, _steps), grid=(2,), block=(37,)
    )


@kd.func
def rotate_own(value):
    own = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    own[t] = value
    kd.syncthreads()
    result = own[(t + 3) % kd.blockDim.x]
    kd.syncthreads()
    return result


@kd.kernel
def own_shared_array(x, out, steps):
    value = rotate_own(x[kd.grid(1)])
    for k in range(steps):
        value = rotate_own(value + k)
    out[kd.grid(1)] = value + rotate_own(kd.threadIdx.x)


_list.add("own_shared_array", own_shared_array, _ints(2, 37, 3), grid=(2,), block=(37,))


@kd.func
def rotate_unless(s, value, skip):
    t = kd.threadIdx.x
    if skip:
        return -value
    s[t] = value
    kd.syncthreads()
    result = s[(t + 1) % kd.blockDim.x]
    kd.syncthreads()
    if kd.blockIdx.x == 1:
        return result + 1
    s[t] = result
    kd.syncthreads()
    result = s[kd.blockDim.x - 1 - t]
    kd.syncthreads()
    return result


@kd.kernel
def early_uniform_return(x, out, n):
    s = kd.shared.array(64, np.int64)
    value = rotate_unless(s, x[kd.grid(1)], n > 3)
    value = rotate_unless(s, value, n <= 3)
    out[kd.grid(1)] = value


for _n in (2, 7):
    _list.add(
        f"early_uniform_return_{_n}", early_uniform_return, _ints(3, 33, _n), grid=(3,), block=(33,)
    )


@kd.func
def block_sum(value):
    partial = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    partial[t] = value
    kd.syncthreads()
    stride = 32
    while stride > 0:
        if t < stride and t + stride < kd.blockDim.x:
            partial[t] += partial[t + stride]
        kd.syncthreads()
        stride //= 2
    total = partial[0]
    kd.syncthreads()
    return total


@kd.func
def block_mean(value):
    return block_sum(value) // kd.blockDim.x


@kd.kernel
def nested_functions(x, out):
    mean = block_mean(x[kd.grid(1)])
    out[kd.grid(1)] = x[kd.grid(1)] - mean + block_sum(mean)


_list.add("nested_functions", nested_functions, _ints(2, 45), grid=(2,), block=(45,))


@kd.func
def publish(s, t, value):
    s[t] = value
    kd.syncthreads()


@kd.kernel
def without_result(x, out):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    publish(s, t, x[kd.grid(1)])
    out[kd.grid(1)] = s[kd.blockDim.x - 1 - t]


_list.add("without_result", without_result, _ints(2, 45), grid=(2,), block=(45,))


@kd.kernel
def in_uniform_condition(x, out):
    while_count = 0
    value = x[kd.grid(1)]
    if kd.blockIdx.x == 0:
        value = rotate_own(value)
        while_count += 1
    while while_count < 3:
        value = rotate_own(value) + while_count
        while_count += 1
    out[kd.grid(1)] = value


_list.add("in_uniform_condition", in_uniform_condition, _ints(3, 29), grid=(3,), block=(29,))


@kd.func
def swap_pair(a, b):
    s = kd.shared.array((2, 64), np.int64)
    t = kd.threadIdx.x
    s[0, t] = a
    s[1, t] = b
    kd.syncthreads()
    first, second = s[1, (t + 1) % kd.blockDim.x], s[0, (t + 2) % kd.blockDim.x]
    kd.syncthreads()
    return first, second


@kd.kernel
def returns_tuple(x, out):
    a, b = swap_pair(x[kd.grid(1)], kd.threadIdx.x)
    a, b = swap_pair(a, b)
    out[kd.grid(1)] = a * 100 + b


_list.add("returns_tuple", returns_tuple, _ints(2, 29), grid=(2,), block=(29,))
