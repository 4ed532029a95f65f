"""What lives across a barrier: private scalars and arrays, uniform values, early returns."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("barrier_values")
CASES = _list.cases


def _ints(blocks, threads, *scalars):
    def make(rng):
        size = blocks * threads
        return (rng.integers(-1000, 1000, size), poisoned(size, np.int64), *scalars)

    return make


@kd.kernel
def private_scalars(x, out):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    i = kd.grid(1)
    mine = x[i] * 3
    small = np.int32(x[i]) + np.int32(1)
    real = np.float32(x[i]) * np.float32(0.5)
    flag = x[i] > 0
    s[t] = mine
    kd.syncthreads()
    other = s[(t + 1) % kd.blockDim.x]
    kd.syncthreads()
    s[t] = mine + other + small
    kd.syncthreads()
    result = s[(t + 2) % kd.blockDim.x] + np.int64(real * np.float32(2))
    out[i] = result if flag else -result


_list.add("private_scalars", private_scalars, _ints(3, 41), grid=(3,), block=(41,))


@kd.kernel
def private_array(x, out):
    s = kd.shared.array(64, np.int64)
    mine = kd.local.array(4, np.int64)
    t = kd.threadIdx.x
    i = kd.grid(1)
    for k in range(4):
        mine[k] = x[i] + k * t
    s[t] = mine[3]
    kd.syncthreads()
    mine[1] += s[(t + 5) % kd.blockDim.x]
    kd.syncthreads()
    s[t] = mine[1]
    kd.syncthreads()
    total = s[kd.blockDim.x - 1 - t]
    for k in range(4):
        total += mine[k]
    out[i] = total


_list.add("private_array", private_array, _ints(2, 39), grid=(2,), block=(39,))


@kd.kernel
def private_matrix(x, out):
    s = kd.shared.array(64, np.int64)
    mine = kd.local.array((2, 3), np.int64)
    t = kd.threadIdx.x
    for a in range(2):
        for b in range(3):
            mine[a, b] = x[kd.grid(1)] * (a + 1) + b
    s[t] = mine[1, 2]
    kd.syncthreads()
    mine[0, 1] = s[(t + 1) % kd.blockDim.x]
    kd.syncthreads()
    out[kd.grid(1)] = mine[0, 1] * 2 + mine[1, 0] - mine[0, 2]


_list.add("private_matrix", private_matrix, _ints(2, 20), grid=(2,), block=(20,))


@kd.kernel
def early_return(x, out, n):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    i = kd.grid(1)
    s[t] = 7
    kd.syncthreads()
    if i >= n:
        return
    s[t] = x[i]
    kd.syncthreads()
    out[i] = s[kd.blockDim.x - 1 - t]


for _n in (0, 1, 60, 64, 90, 96):
    _list.add(f"early_return_{_n}", early_return, _ints(3, 32, _n), grid=(3,), block=(32,))


@kd.kernel
def two_early_returns(x, out, n):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    i = kd.grid(1)
    s[t] = 0
    kd.syncthreads()
    if i >= n:
        return
    s[t] = x[i]
    kd.syncthreads()
    value = s[(t + 1) % kd.blockDim.x]
    if value % 2 == 0:
        out[i] = -1
        return
    kd.syncthreads()
    s[t] = value + 1
    kd.syncthreads()
    if t > 20:
        return
    out[i] = s[t] * 2


_list.add("two_early_returns", two_early_returns, _ints(3, 32, 77), grid=(3,), block=(32,))


@kd.kernel
def return_from_varying_loop(x, out):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    i = kd.grid(1)
    s[t] = x[i]
    out[i] = 5
    kd.syncthreads()
    for k in range(4):
        if s[(t + k) % kd.blockDim.x] % 5 == 0:
            out[i] = k
            return
    kd.syncthreads()
    out[i] = s[t]


_list.add(
    "return_from_varying_loop", return_from_varying_loop, _ints(3, 32), grid=(3,), block=(32,)
)


@kd.kernel
def early_return_in_uniform_loop(x, out, steps):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    s[t] = x[kd.grid(1)]
    for k in range(steps):
        kd.syncthreads()
        value = s[(t + k) % kd.blockDim.x]
        out[kd.grid(1)] = value
        if value % 7 == 3:
            return
        kd.syncthreads()
        s[t] = value + k


_list.add(
    "early_return_in_uniform_loop",
    early_return_in_uniform_loop,
    _ints(3, 32, 5),
    grid=(3,),
    block=(32,),
)


@kd.kernel
def uniform_modified_mid_region(x, out, n):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    i = kd.grid(1)
    s[t] = x[i] + n
    n += 1
    s[t] += n
    n = n * 2
    kd.syncthreads()
    value = s[(t + n) % kd.blockDim.x]
    n -= 3
    kd.syncthreads()
    out[i] = value * n + t


_list.add(
    "uniform_modified_mid_region",
    uniform_modified_mid_region,
    _ints(2, 37, 4),
    grid=(2,),
    block=(37,),
)


@kd.kernel
def uniform_then_varying(x, out, n):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    offset = n
    s[t] = x[kd.grid(1)] + offset
    kd.syncthreads()
    offset = t * 2
    value = s[offset % kd.blockDim.x]
    kd.syncthreads()
    s[t] = value + offset
    kd.syncthreads()
    offset = n + 1
    kd.syncthreads()
    out[kd.grid(1)] = s[(t + offset) % kd.blockDim.x]


_list.add("uniform_then_varying", uniform_then_varying, _ints(2, 37, 4), grid=(2,), block=(37,))


@kd.kernel
def type_changes(x, out):
    s = kd.shared.array(64, np.float64)
    t = kd.threadIdx.x
    i = kd.grid(1)
    value = x[i]
    s[t] = value
    kd.syncthreads()
    value = s[(t + 1) % kd.blockDim.x] / 4.0
    kd.syncthreads()
    s[t] = value
    kd.syncthreads()
    out[i] = s[(t + 1) % kd.blockDim.x] + value


def _int_to_float(rng):
    return rng.integers(-1000, 1000, 70), poisoned(70, np.float64)


_list.add("type_changes", type_changes, _int_to_float, grid=(2,), block=(35,))


@kd.kernel
def loop_variable_after_loop(x, out, steps):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    s[t] = x[kd.grid(1)]
    k = -1
    for k in range(steps):
        kd.syncthreads()
        s[t] += k
        kd.syncthreads()
    j = 0
    for j in range(3):
        s[t] += j
    kd.syncthreads()
    out[kd.grid(1)] = s[(t + j) % kd.blockDim.x] * 10 + k


for _steps in (0, 4):
    _list.add(
        f"loop_variable_after_loop_{_steps}",
        loop_variable_after_loop,
        _ints(2, 21, _steps),
        grid=(2,),
        block=(21,),
    )


@kd.kernel
def variable_defined_in_branch(x, out):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    i = kd.grid(1)
    if x[i] > 0:
        value = x[i] * 2
    else:
        value = -x[i]
    s[t] = value
    kd.syncthreads()
    if t % 2 == 0:
        value = s[(t + 1) % kd.blockDim.x]
    kd.syncthreads()
    out[i] = value + s[t]


_list.add(
    "variable_defined_in_branch", variable_defined_in_branch, _ints(2, 30), grid=(2,), block=(30,)
)


@kd.kernel
def tuples_across_barriers(x, out, shift):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    pair = (x[kd.grid(1)], t * 2)
    a, b = shift
    s[t] = pair[0]
    kd.syncthreads()
    pair = (s[(t + a) % kd.blockDim.x], pair[1] + b)
    kd.syncthreads()
    out[kd.grid(1)] = pair[0] * 3 + pair[1]


_list.add(
    "tuples_across_barriers",
    tuples_across_barriers,
    _ints(2, 30, (3, 4)),
    grid=(2,),
    block=(30,),
)


@kd.kernel
def loaded_trip_count(x, out, counts):
    # counts is read at an address that is the same in the whole block and never written.
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    s[t] = x[kd.grid(1)]
    total = 0
    for k in range(counts[kd.blockIdx.x]):
        kd.syncthreads()
        total += s[(t + k) % kd.blockDim.x]
    if counts[0] > 2:
        kd.syncthreads()
        total += s[0]
    out[kd.grid(1)] = total


def _counted(rng):
    return rng.integers(-9, 9, 96), poisoned(96, np.int64), rng.integers(0, 6, 3)


_list.add("loaded_trip_count", loaded_trip_count, _counted, grid=(3,), block=(32,))


@kd.kernel
def shared_flag_while(x, out):
    # The flag is read between two barriers between which nothing writes it.
    flag = kd.shared.array(1, np.int64)
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    s[t] = x[kd.grid(1)] % 8 + 8
    if t == 0:
        flag[0] = 0
    kd.syncthreads()
    rounds = 0
    while flag[0] < 5:
        kd.syncthreads()
        s[t] -= 1
        if t == 0:
            flag[0] += 1
        rounds += 1
        kd.syncthreads()
    out[kd.grid(1)] = s[t] * 100 + rounds


_list.add("shared_flag_while", shared_flag_while, _ints(2, 33), grid=(2,), block=(33,))


@kd.kernel
def promised_uniform(x, out):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    s[t] = x[kd.grid(1)]
    steps = kd.uniform(t // kd.blockDim.x + 3)
    total = 0
    for k in range(steps):
        kd.syncthreads()
        total += s[(t + k) % kd.blockDim.x]
    out[kd.grid(1)] = total


_list.add("promised_uniform", promised_uniform, _ints(2, 33), grid=(2,), block=(33,))


@kd.kernel
def part_before_a_barrier(x, out):
    t = kd.threadIdx.x
    s = kd.shared.array(256, np.int64)
    s[t] = -1
    kd.syncthreads()
    a = x[t]
    for n in range(2):
        part = s[t % 4 :]
        s[t] = a * 3 + n
        a = a + 1
        kd.syncthreads()
        a += part[0]
        kd.syncthreads()
    out[t] = a


@kd.kernel
def part_after_a_barrier(x, out):
    t = kd.threadIdx.x
    s = kd.shared.array(256, np.int64)
    s[t] = -1
    kd.syncthreads()
    a = x[t]
    s[t] = a * 3
    a = a * a + 1
    kd.syncthreads()
    part = s[t % 4 :]
    a += part[0] * 2
    kd.syncthreads()
    out[t] = a


# A CPU may run two rows of so many threads strip by strip.
for _kernel in (part_before_a_barrier, part_after_a_barrier):
    _list.add(_kernel.__name__, _kernel, _ints(1, 256), grid=(1,), block=(256,))
