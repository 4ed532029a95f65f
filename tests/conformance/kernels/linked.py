"""Device functions of PTX, with their meaning in Python."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned
from tests.support.cases import CaseList
from tests.support.linked_code import PTX

__all__ = ["CASES"]

_list = CaseList("linked")
CASES = _list.cases
_SIZE = 333


@kd.func(link=PTX, signature="float32(float32, float32)")
def weigh(a, b):
    return a * b + 0.25


@kd.func(link=PTX, signature="bool(int64)", pure=True)
def is_even(n):
    return n % 2 == 0


@kd.func(link=PTX, signature="int16(int8, uint16, bool)", name="narrow", pure=True)
def sum_of_three(a, b, c):
    return a + b + c


@kd.func(link=PTX, signature="void(float64[::1], int64, float64)")
def add_to(p, i, v):
    p[i] += v


@kd.func(link=PTX, signature="void(int64[::1], int64[::1])")
def swap(p, q):
    p[0], q[0] = q[0], p[0]


@kd.kernel
def weighs(x, w, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = weigh(x[i], w)


@kd.kernel
def halves(out):
    i = kd.grid(1)
    if is_even(i):
        out[i] = -1
    else:
        out[i] = i


@kd.kernel
def sums(a, b, c, out):
    i = kd.grid(1)
    out[i] = sum_of_three(a[i], b[i], c[i])


@kd.kernel
def adds(x, out):
    i = kd.grid(1)
    if i < x.size:
        add_to(out, x.size - 1 - i, x[i])


@kd.kernel
def exchanges(x, y):
    i = kd.grid(1)
    if 2 * i + 2 <= x.size:
        swap(x[2 * i :], y[2 * i + 1 :])


def _floats(rng, dtype=np.float32):
    return rng.integers(-1000, 1000, _SIZE).astype(dtype) / 8


_ARGUMENTS = {
    "weighs": lambda rng: (_floats(rng), 3, poisoned(_SIZE, np.float32)),
    "halves": lambda rng: (poisoned(_SIZE, np.int64),),
    "sums": lambda rng: (
        rng.integers(-128, 128, _SIZE).astype(np.int8),
        rng.integers(0, 1 << 16, _SIZE).astype(np.uint16),
        rng.integers(0, 2, _SIZE).astype(np.bool_),
        poisoned(_SIZE, np.int16),
    ),
    "adds": lambda rng: (_floats(rng, np.float64), _floats(rng, np.float64)),
    "exchanges": lambda rng: (
        rng.integers(-9, 9, _SIZE).astype(np.int64),
        rng.integers(-9, 9, _SIZE).astype(np.int64),
    ),
}


def _exchanged(x, y):
    last = _SIZE // 2 * 2
    kept = x[:last:2].copy()
    x[:last:2], y[1 : last + 1 : 2] = y[1 : last + 1 : 2], kept
    return {0: x, 1: y}


_EXPECTED = {
    "weighs": lambda x, w, out: {2: x * np.float32(w) + np.float32(0.25)},
    "halves": lambda out: {0: np.where(np.arange(_SIZE) % 2 == 0, -1, np.arange(_SIZE))},
    "sums": lambda a, b, c, out: {
        3: (a.astype(np.int64) + b.astype(np.int64) + c).astype(np.int16)
    },
    "adds": lambda x, out: {1: out + x[::-1]},
    "exchanges": _exchanged,
}

for _kernel in (weighs, halves, sums, adds, exchanges):
    _name = _kernel.__name__
    _list.add(_name, _kernel, _ARGUMENTS[_name], extent=(_SIZE,), expected=_EXPECTED[_name])
for _kernel in (weighs, adds):
    _name = _kernel.__name__
    _list.add(
        f"{_name}_by_blocks",
        _kernel,
        _ARGUMENTS[_name],
        grid=(6,),
        block=(64,),
        expected=_EXPECTED[_name],
    )
