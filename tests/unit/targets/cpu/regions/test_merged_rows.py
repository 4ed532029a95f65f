"""Rows that a barrier parts, which a CPU may run strip by strip: other strips' stores are read."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.arrays import poisoned
from tests.support.source import exec_source

_THREADS = 256
_STATIC, _DYNAMIC = f"kd.shared.array({_THREADS}, np.int64)", "kd.shared.array(0, np.int64)"
#: The array that is stored, and the one that is read: another name of the launch's memory.
_ARRAYS = {"static": (_STATIC, "s"), "dynamic": (_DYNAMIC, "s"), "dynamic twice": (_DYNAMIC, "q")}
#: Before the store, after the barrier, and what is read, of an array and an index.
_READS = {
    "element": ("pass", "pass", "{0}[{1}]"),
    "part": ("pass", "v = {0}[{1}:]", "v[0]"),
    "part before": ("v = {0}[{1}:]", "pass", "v[0]"),
    "whole": ("pass", "v = {0}[:]", "v[{1}]"),
    "whole before": ("v = {0}[:]", "pass", "v[{1}]"),
}
_INDICES = {
    "t": lambda t: t,
    "255 - t": lambda t: 255 - t,
    "t ^ 64": lambda t: t ^ 64,
    "t % 4": lambda t: t % 4,
    "t // 2": lambda t: t // 2,
    "(t + 1) % 256": lambda t: (t + 1) % 256,
}


@pytest.mark.parametrize("loops", [1, 3])
@pytest.mark.parametrize("how", _READS)
@pytest.mark.parametrize("memory", _ARRAYS)
def test_what_is_stored_before_a_barrier_is_read_after_it(rng, memory, how, loops):
    made, name = _ARRAYS[memory]
    stored, read = (str(rng.choice([*_INDICES][:count])) for count in (3, len(_INDICES)))
    before, after, found = (text.format(name, read) for text in _READS[how])
    text = f"""
import numpy as np
import kerneldsl as kd

@kd.kernel
def kernel(x, out):
    t = kd.threadIdx.x
    s, q = {made}, {made if name == "q" else "0"}
    s[t] = -1
    kd.syncthreads()
    a = x[t]
    for k in range({loops}):
        {before}
        s[{stored}] = a * 3 + k
        a = a * 2 + 1
        kd.syncthreads()
        {after}
        a += {found}
        kd.syncthreads()
    out[t] = a
"""
    x, out = rng.integers(-1000, 1000, _THREADS), poisoned(_THREADS, np.int64)
    with kd.use("cpu"):
        kernel = exec_source(text, "merged")["kernel"]
        kernel[1, _THREADS, None, 8 * _THREADS if "dynamic" in memory else 0](x, out)
    t, expected = np.arange(_THREADS), x
    for k in range(loops):
        elements = np.empty_like(x)
        elements[_INDICES[stored](t)] = expected * 3 + k
        expected = expected * 2 + 1 + elements[_INDICES[read](t)]
    np.testing.assert_array_equal(out, expected)


@kd.kernel
def swapped_buffers(out, rounds):
    t = kd.threadIdx.x
    s, q = kd.shared.array(257, np.int64), kd.shared.array(257, np.int64)
    s[t], q[t] = t, 1000 + t
    if t == 0:
        s[256], q[256] = 256, 1256
    kd.syncthreads()
    one, other = s, q
    for _ in range(rounds):
        v = one[t + 1]
        kd.syncthreads()
        s[t] = v * 3
        kd.syncthreads()
        one, other = other, one
    out[t] = s[t]


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_an_array_that_a_loop_hands_on_may_be_the_stored_one(rounds):
    out = poisoned(_THREADS, np.int64)
    with kd.use("cpu"):
        swapped_buffers[1, _THREADS](out, rounds)
    s, q = np.arange(257), np.arange(257) + 1000
    for number in range(rounds):
        s[:256] = (q if number % 2 else s)[1:] * 3
    np.testing.assert_array_equal(out, s[:256])


@kd.kernel
def two_accesses_before(x, out):
    t = kd.threadIdx.x
    s = kd.shared.array(257, np.float64)
    # With a hint, an element stays in memory: both accesses are compared with the store below.
    kd.store(s, t + 1, x[t], cache="global")
    is_positive = s[t + 1] >= 0
    kd.syncthreads()
    s[t] = is_positive
    kd.syncthreads()
    out[t] = s[t]


def test_two_accesses_are_in_order_with_one_after_the_barrier(rng):
    x, out = rng.standard_normal(_THREADS), poisoned(_THREADS, np.float64)
    with kd.use("cpu"):
        two_accesses_before[1, _THREADS](x, out)
    np.testing.assert_array_equal(out, x >= 0)
