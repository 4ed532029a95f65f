"""Barriers under every uniform control flow; each thread reads what another one wrote."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("barriers")
CASES = _list.cases


def _per_thread(blocks, threads, *scalars, dtype=np.int64):
    """Arguments (x, out, *scalars) with one element a thread."""

    def make(rng):
        size = blocks * threads
        x = rng.integers(-1000, 1000, size).astype(dtype)
        return (x, poisoned(size, dtype), *scalars)

    return make


@kd.kernel
def uniform_while(x, out):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    s[t] = x[kd.grid(1)]
    kd.syncthreads()
    stride = kd.blockDim.x // 2
    while stride > 0:
        if t < stride:
            s[t] += s[t + stride]
        kd.syncthreads()
        stride //= 2
    out[kd.grid(1)] = s[0]


_list.add("uniform_while", uniform_while, _per_thread(3, 64), grid=(3,), block=(64,))


@kd.kernel
def for_scalar_bound(x, out, steps):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    n = kd.blockDim.x
    s[t] = x[kd.grid(1)]
    for k in range(steps):
        kd.syncthreads()
        right = s[(t + k + 1) % n]
        kd.syncthreads()
        s[t] = s[t] - right
    out[kd.grid(1)] = s[t]


for _steps in (0, 1, 5):
    _list.add(
        f"for_scalar_bound_{_steps}",
        for_scalar_bound,
        _per_thread(2, 37, _steps),
        grid=(2,),
        block=(37,),
    )


@kd.kernel
def for_range_start_step(x, out, start, stop, step):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    s[t] = x[kd.grid(1)]
    total = 0
    for k in range(start, stop, step):
        kd.syncthreads()
        total += s[(t + k) % kd.blockDim.x] * k
    out[kd.grid(1)] = total


for _name, _range in {"up": (2, 17, 4), "down": (9, -1, -3), "empty": (5, 5, 1)}.items():
    _list.add(
        f"for_range_{_name}",
        for_range_start_step,
        _per_thread(2, 33, *_range),
        grid=(2,),
        block=(33,),
    )


@kd.kernel
def for_uniform_break(x, out, steps, last):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    s[t] = x[kd.grid(1)]
    kd.syncthreads()
    for k in range(steps):
        if k == last:
            break
        value = s[(t + 1) % kd.blockDim.x]
        kd.syncthreads()
        s[t] = value + k
        kd.syncthreads()
    out[kd.grid(1)] = s[t]


for _last in (0, 3, 99):
    _list.add(
        f"for_uniform_break_{_last}",
        for_uniform_break,
        _per_thread(2, 48, 7, _last),
        grid=(2,),
        block=(48,),
    )


@kd.kernel
def for_uniform_continue(x, out, steps):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    s[t] = x[kd.grid(1)]
    kd.syncthreads()
    for k in range(steps):
        if k % 2 == 1:
            continue
        value = s[(t + k) % kd.blockDim.x]
        kd.syncthreads()
        s[t] += value
        kd.syncthreads()
    out[kd.grid(1)] = s[t]


_list.add(
    "for_uniform_continue", for_uniform_continue, _per_thread(2, 31, 6), grid=(2,), block=(31,)
)


@kd.kernel
def two_in_one_loop(x, out):
    front = kd.shared.array(64, np.int64)
    back = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    front[t] = x[kd.grid(1)]
    kd.syncthreads()
    step = 1
    while step < kd.blockDim.x:
        back[t] = front[t] + (front[t - step] if t >= step else 0)
        kd.syncthreads()
        front[t] = back[t]
        kd.syncthreads()
        step *= 2
    out[kd.grid(1)] = front[t]


_list.add("two_in_one_loop", two_in_one_loop, _per_thread(3, 50), grid=(3,), block=(50,))


@kd.kernel
def conditional_in_loop(x, out, steps):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    s[t] = x[kd.grid(1)]
    for k in range(steps):
        kd.syncthreads()
        if t % 2 == k % 2:
            if t + 1 < kd.blockDim.x:
                s[t] = s[t] + s[t + 1]
        else:
            out[kd.grid(1)] = k
    kd.syncthreads()
    out[kd.grid(1)] = s[kd.blockDim.x - 1 - t]


_list.add("conditional_in_loop", conditional_in_loop, _per_thread(2, 40, 5), grid=(2,), block=(40,))


@kd.kernel
def barrier_in_uniform_branch(x, out, steps):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    mine = x[kd.grid(1)]
    for k in range(steps):
        if k % 3 == 0:
            s[t] = mine
            kd.syncthreads()
            mine = s[(t + 1) % kd.blockDim.x]
            kd.syncthreads()
        elif k % 3 == 1:
            s[t] = mine * 2
            kd.syncthreads()
            mine -= s[0]
            kd.syncthreads()
        else:
            mine += k
    if kd.blockIdx.x % 2 == 0:
        s[t] = mine
        kd.syncthreads()
        mine = s[kd.blockDim.x - 1 - t]
    out[kd.grid(1)] = mine


_list.add(
    "barrier_in_uniform_branch",
    barrier_in_uniform_branch,
    _per_thread(3, 32, 7),
    grid=(3,),
    block=(32,),
)


@kd.kernel
def nested_loops(x, out, outer, inner):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    n = kd.blockDim.x
    s[t] = x[kd.grid(1)]
    total = 0
    for a in range(outer):
        kd.syncthreads()
        total += s[(t + a) % n]
        b = 0
        while b < inner + a:
            kd.syncthreads()
            total -= s[(t + b) % n] * a
            kd.syncthreads()
            s[t] += b
            b += 1
        kd.syncthreads()
    out[kd.grid(1)] = total


_list.add("nested_loops", nested_loops, _per_thread(2, 33, 3, 2), grid=(2,), block=(33,))


@kd.kernel
def bitonic_sort(x, out):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    s[t] = x[kd.grid(1)]
    kd.syncthreads()
    k = 2
    while k <= kd.blockDim.x:
        j = k // 2
        while j > 0:
            other = t ^ j
            if other > t:
                ascending = (t & k) == 0
                if (s[t] > s[other]) == ascending:
                    s[t], s[other] = s[other], s[t]
            kd.syncthreads()
            j //= 2
        k *= 2
    out[kd.grid(1)] = s[t]


_list.add("bitonic_sort", bitonic_sort, _per_thread(2, 64), grid=(2,), block=(64,))


@kd.kernel
def break_from_nested(x, out, limit):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    s[t] = x[kd.grid(1)]
    total = 0
    for a in range(10):
        for b in range(10):
            kd.syncthreads()
            total += s[(t + a * b) % kd.blockDim.x]
            if a * b > limit:
                break
            if b % 2 == 0:
                continue
            kd.syncthreads()
            total += 1
        if a > limit:
            break
    out[kd.grid(1)] = total


_list.add("break_from_nested", break_from_nested, _per_thread(2, 17, 4), grid=(2,), block=(17,))


@kd.kernel
def uniform_return_in_loop(x, out, limit):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    s[t] = x[kd.grid(1)]
    out[kd.grid(1)] = -1
    for a in range(10):
        kd.syncthreads()
        if a == limit:
            return
        out[kd.grid(1)] = s[(t + a) % kd.blockDim.x] + a
    kd.syncthreads()
    out[kd.grid(1)] = s[0]


for _limit in (0, 4, 50):
    _list.add(
        f"uniform_return_in_loop_{_limit}",
        uniform_return_in_loop,
        _per_thread(2, 35, _limit),
        grid=(2,),
        block=(35,),
    )


@kd.kernel
def varying_control_between_barriers(x, out):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    s[t] = x[kd.grid(1)]
    kd.syncthreads()
    count = 0
    k = t
    while True:
        if s[k] % 3 == 0:
            break
        k += 1
        if k >= kd.blockDim.x:
            count = -100
            break
        if s[k] % 2 == 0:
            continue
        count += 1
    kd.syncthreads()
    s[t] = count
    kd.syncthreads()
    out[kd.grid(1)] = s[kd.blockDim.x - 1 - t] + k


_list.add(
    "varying_control_between_barriers",
    varying_control_between_barriers,
    _per_thread(3, 45),
    grid=(3,),
    block=(45,),
)
