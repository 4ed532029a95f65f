"""Names and the order of evaluation, which no rewriting of a target may change."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.support.cases import CaseList, integers_into

__all__ = ["CASES"]

_list = CaseList("evaluation")
CASES = _list.cases


# -- names --------------------------------------------------------------------------------------


def _rotation(name):
    """A device function with a barrier under a given name, whose local outlives the barrier."""

    def rotate(s, t, v):
        k = v * 3 + t
        s[t] = v
        kd.syncthreads()
        other = s[(t + 1) % 8]
        kd.syncthreads()
        return k + other

    rotate.__name__ = rotate.__qualname__ = name
    return kd.func(rotate)


def _under(name):
    function = _rotation(name)

    @kd.kernel
    def calls(x, out):
        s = kd.shared.array(8, np.int64)
        t = kd.threadIdx.x
        out[t] = function(s, t, x[t])

    return calls


for _name in ("count", "active", "vote_1", "types_0", "mask_1", "left", "slot_x", "saved_1", "min"):
    _list.add(f"barrier_function_{_name}", _under(_name), integers_into(8), block=(8,))


@kd.func
def step(s, t, v):
    k = v + 1
    s[t] = k
    kd.syncthreads()
    k = s[3 - t]
    kd.syncthreads()
    return k


@kd.func
def step1(s, t, v):
    k = 1000
    r = step(s, t, v)
    r = step(s, t, r)
    r = step(s, t, r)
    r = step(s, t, r)
    r = step(s, t, r)
    r = step(s, t, r)
    r = step(s, t, r)
    r = step(s, t, r)
    r = step(s, t, r)
    r = step(s, t, r)
    return r + k


@kd.kernel
def eleven_calls(x, out):
    s = kd.shared.array(4, np.int64)
    t = kd.threadIdx.x
    out[t] = step1(s, t, x[t])


_list.add("eleven_calls", eleven_calls, integers_into(4), block=(4,))


@kd.kernel
def variables_alike(x, out):
    s = kd.shared.array(16, np.float64)
    t = kd.threadIdx.x
    v = x[t]
    v_1 = x[t] * 2
    v_2 = x[t] * 0.5
    s[t] = v
    kd.syncthreads()
    v = v + s[15 - t]
    kd.syncthreads()
    out[t] = v * 100 + v_1 * 10 + v_2 * 2


_list.add("variables_alike", variables_alike, integers_into(16), block=(16,))


@kd.func
def counted(b, t):
    return b[t] * 10 + kd.syncthreads_count(t % 2 == 0)


@kd.kernel
def saved_twice(x, out):
    t = kd.threadIdx.x
    out[t] = x[t] * 1000 + counted(x, t)


_list.add("saved_twice", saved_twice, integers_into(4), block=(4,))


@kd.kernel
def two_votes(x, out):
    t = kd.threadIdx.x
    if kd.syncthreads_or(x[t] > 900):
        out[t] = kd.syncthreads_count(x[t] > 0) * 10 + kd.syncthreads_count(x[t] > 500)
    else:
        n = kd.syncthreads_count(x[t] < 0)
        out[t] = n + kd.syncthreads_and(x[t] < 990)


_list.add("two_votes", two_votes, integers_into(16), block=(16,))

# -- order of evaluation ------------------------------------------------------------------------


@kd.func
def exchange(s, t, v):
    s[t] = v
    kd.syncthreads()
    r = s[7 - t]
    kd.syncthreads()
    return r


@kd.kernel
def augmented_element(x, out):
    s = kd.shared.array(8, np.int64)
    t = kd.threadIdx.x
    s[t] = x[t]
    s[t] += exchange(s, t, t)
    out[t] = s[t]


_list.add("augmented_element", augmented_element, integers_into(8), block=(8,))


@kd.kernel
def augmented_place(x, out):
    s = kd.shared.array(8, np.int64)
    t = kd.threadIdx.x
    out[t] = x[t]
    out[exchange(s, t, t)] -= exchange(s, t, x[t])


_list.add("augmented_place", augmented_place, integers_into(8), block=(8,))


@kd.kernel
def target_with_barrier(x, out):
    s = kd.shared.array(8, np.int64)
    t = kd.threadIdx.x
    out[exchange(s, t, t)] = x[t] + t


_list.add("target_with_barrier", target_with_barrier, integers_into(8), block=(8,))


@kd.kernel
def value_before_target(x, out):
    s = kd.shared.array(8, np.int64)
    t = kd.threadIdx.x
    s[t] = x[t]
    out[exchange(s, t, t)] = s[t]


_list.add("value_before_target", value_before_target, integers_into(8), block=(8,))


@kd.kernel
def atomic_in_tuple(x, out):
    i = kd.grid(1)
    out[i] = (kd.atomic.add(x, 0, 1), i)[1]


_list.add("atomic_in_tuple", atomic_in_tuple, integers_into(8), block=(8,))

# -- branches and loops around barriers ---------------------------------------------------------

ENABLED = True
DISABLED = False


@kd.kernel
def captured_flags(x, out):
    s = kd.shared.array(8, np.int64)
    t = kd.threadIdx.x
    v = x[t]
    if DISABLED:
        s[t] = v
        kd.syncthreads()
        v = s[7 - t]
    if ENABLED:
        s[t] = v * 2
        kd.syncthreads()
        v = s[(t + 1) % 8]
    out[t] = v


_list.add("captured_flags", captured_flags, integers_into(8), block=(8,))


@kd.kernel
def tuple_targets(x, out):
    s = kd.shared.array(8, np.int64)
    t = kd.threadIdx.x
    c = x[t]
    for a, b in ((1, 2), (3, 4)):
        s[t] = c
        kd.syncthreads()
        c += a * b * s[7 - t]
        kd.syncthreads()
    for a, b in ((5, 6), (7, 8)):
        kd.syncthreads()
        c += a - b
    out[t] = c


_list.add("tuple_targets", tuple_targets, integers_into(8), block=(8,))


@kd.func
def lane(a):
    return a + kd.threadIdx.x


@kd.kernel
def id_after_return(x, out):
    i = kd.grid(1)
    if i >= out.size:
        return
    out[i] = lane(x[i])


_list.add("id_after_return", id_after_return, integers_into(13), grid=(2,), block=(8,))
