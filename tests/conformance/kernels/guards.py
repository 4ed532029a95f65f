"""Types of guards, and guards whose arithmetic wraps: what a rewriting of loops must not assume."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned
from tests.support.cases import CaseList, integers_into

__all__ = ["CASES"]

_list = CaseList("guards")
CASES = _list.cases

GREATEST, LEAST = 2**63 - 1, -(2**63)


# -- types --------------------------------------------------------------------------------------


@kd.kernel(contract=False)
def guarded_types(x, out):
    i = kd.blockIdx.x * kd.blockDim.x + kd.threadIdx.x
    v = x[i] if i < x.size else 0.0
    w = 0.0
    if i < x.size:
        w = x[i]
    if i < out.size:
        out[i] = v * v + w * w


def _as_doubles(x, out):
    square = x.astype(np.float64) ** 2
    return {1: square + square}


_list.add(
    "guarded_types",
    guarded_types,
    lambda rng: (rng.random(12).astype(np.float32), poisoned(12, np.float64)),
    grid=(2,),
    block=(8,),
    expected=_as_doubles,
)

# -- guards of unsigned scalars ------------------------------------------------------------------


@kd.kernel
def unsigned_guards(out, a, b):
    i = kd.grid(1)
    if i < out.shape[1]:
        if i + a < b:
            out[0, i] = 1
        if -(i + a) > -5:
            out[1, i] = 1
        if i + a - b < a:
            out[2, i] = 1


@kd.kernel
def below_difference(out, a, b):
    i = kd.grid(1)
    if i + a < b and i < out.shape[1]:
        out[0, i] = 1


def _unsigned_guards(out, a, b):
    i, a, b = np.arange(out.shape[1]), int(a), int(b)
    tests = (i + a < b, -(i + a) > -5, i + a - b < a)
    return {0: np.array([np.where(test, 1, row) for test, row in zip(tests, out, strict=True)])}


def _below_difference(out, a, b):
    after = out.copy()
    after[0, : max(int(b) - int(a), 0)] = 1
    return {0: after}


for _dtype in (np.uint8, np.uint16, np.uint32):
    for _a, _b in ((1, 0), (0, 9), (3, 9)):
        for _kernel, _expected in (
            (unsigned_guards, _unsigned_guards),
            (below_difference, _below_difference),
        ):
            _list.add(
                f"{_kernel.__name__}_{_dtype.__name__}_{_a}_{_b}",
                _kernel,
                lambda rng, d=_dtype, a=_a, b=_b: (poisoned((3, 12), np.int64), d(a), d(b)),
                extent=(12,),
                expected=_expected,
            )

# -- guards that assume something of a scalar, around a loop that is interchanged -----------------


@kd.kernel
def interchanged_under_assumption(x, out, n, shift):
    i = kd.grid(1)
    if i + shift < n:
        acc = 0
        for k in range(x.shape[0]):
            acc += x[k, i]
        out[i] = acc


def _column_sums(x, out, n, shift):
    last = min(max(n - shift, 0), out.size) if abs(shift) < 2**62 else 0
    return {1: np.append(x.sum(axis=0)[:last], out[last:])}


for _name, _n, _shift in (("small", 90, 3), ("wraps", 90, GREATEST - 200), ("none", 3, 5)):
    _list.add(
        f"interchanged_under_assumption_{_name}",
        interchanged_under_assumption,
        lambda rng, n=_n, shift=_shift: (
            rng.integers(-9, 9, (5, 100)),
            poisoned(100, np.int64),
            n,
            shift,
        ),
        extent=(100,),
        expected=_column_sums,
    )

# -- divisions under conditions -----------------------------------------------------------------


@kd.kernel
def gather(table, x, out, n, m):
    i = kd.grid(1)
    if i < out.size and m > 0:
        acc = 0
        for j in range(n):
            acc += table[j % m] * table[i] if x[i] > 0 else 0
        out[i] = acc


@kd.kernel
def ring_sum(ring, out, n, depth):
    i = kd.grid(1)
    if i < out.size and depth > 0:
        acc = 0
        for k in range(n):
            acc += ring[k % depth, i - 1] if i > 0 else 0
        out[i] = acc


@kd.kernel
def quotient_in_own_loop(x, out, n, m):
    i = kd.grid(1)
    if i < out.size:
        acc = 0
        for k in range(n):
            if x[k] > 0:
                acc += x[i // m] * k
        out[i] = acc


@kd.func
def ring_function(ring, x, i, n, m):
    acc = 0
    for k in range(n):
        if x[k] > 0:
            acc += ring[i % m] + i // m
    return acc


@kd.kernel
def division_in_function(x, out, n, m):
    i = kd.grid(1)
    if i < out.size:
        out[i] = ring_function(x, x, i, n, m)


for _size in (7, 15, 16, 17, 64, 200):
    _list.add(
        f"gather_{_size}",
        gather,
        lambda rng, n=_size: (
            rng.integers(-9, 9, n),
            rng.integers(-1, 2, n),
            poisoned(n, np.int64),
            20,
            3,
        ),
        extent=(_size,),
    )
    _list.add(
        f"ring_sum_{_size}",
        ring_sum,
        lambda rng, n=_size: (rng.integers(-9, 9, (3, n)), poisoned(n, np.int64), 5, 3),
        extent=(_size,),
    )
    _list.add(
        f"quotient_in_own_loop_{_size}",
        quotient_in_own_loop,
        integers_into(_size, _size, 3),
        extent=(_size,),
    )
    _list.add(
        f"division_in_function_{_size}",
        division_in_function,
        integers_into(_size, _size, 3),
        extent=(_size,),
    )


@kd.kernel
def divided_by_anything(x, out, d):
    i = kd.grid(1)
    if i < x.size:
        out[i, 0] = x[i] // d
        out[i, 1] = x[i] % d


for _divisor in (1, -1, 2, -3, 1000, GREATEST, LEAST):
    _list.add(
        f"divided_by_{_divisor}",
        divided_by_anything,
        lambda rng, d=_divisor: (
            np.append(rng.integers(LEAST + 1, GREATEST, 29), [LEAST + 1, -1, 0, 1, GREATEST]),
            poisoned((34, 2), np.int64),
            d,
        ),
        extent=(40,),
    )

# -- guards at the ends of int64 ----------------------------------------------------------------


@kd.kernel
def guards(x, out, n, shift):
    i = kd.grid(1)
    if i < out.size:
        v = 0
        if i <= n:
            v += 1
        if i < n:
            v += 10
        if i > n:
            v += 100
        if i + shift < n:
            v += 1000
        if n - i >= shift:
            v += 10000
        if i == n:
            v += 100000
        out[i] = v


@kd.kernel
def not_beyond(x, out, n, shift):
    i = kd.grid(1)
    if i <= n and i < out.size:
        out[i] = 1


@kd.kernel
def linear_place(x, out, n, shift):
    """The place of a block is a product of three, of which nothing is known beforehand."""
    t = kd.threadIdx.x + kd.threadIdx.y * kd.blockDim.x
    block = kd.blockIdx.x + kd.gridDim.x * (kd.blockIdx.y + kd.gridDim.y * kd.blockIdx.z)
    i = block * 21 + t + shift
    if i >= n:
        return
    s = kd.shared.array(21, np.int64)
    s[t] = x[i]
    kd.syncthreads()
    out[i] = s[0] + t


def _linear_place(x, out, n, shift):
    i = np.arange(n)
    return {1: x[i - i % 21] + i % 21}


for _n in (40, 63):
    _list.add(
        f"linear_place_{_n}",
        linear_place,
        lambda rng, n=_n: (rng.integers(0, 99, n), poisoned(n, np.int64), n, 0),
        grid=(1, 3),
        block=(3, 7),
        expected=_linear_place,
    )


@kd.kernel
def shifted_below(x, out, n, shift):
    i = kd.grid(1)
    if i < out.size and i + shift < n:
        out[i] = 2


@kd.kernel
def reversed_below(x, out, n, shift):
    t = kd.threadIdx.x
    i = kd.blockIdx.x * kd.blockDim.x + t
    w = x[i] if i + shift < n else 0
    if i < out.size:
        if n - i > shift:
            out[i] = 3
        else:
            out[i] = w


def _wrapped(body):
    """What the guards say in the arithmetic of int64, which wraps."""

    def expected(x, out, n, shift):
        with np.errstate(over="ignore"):
            i = np.arange(out.size, dtype=np.int64)
            return {1: body(x, out, i, np.int64(n), np.int64(shift))}

    return expected


def _guards(x, out, i, n, shift):
    v = np.where(i <= n, 1, 0) + np.where(i < n, 10, 0) + np.where(i > n, 100, 0)
    v += np.where(i + shift < n, 1000, 0) + np.where(n - i >= shift, 10000, 0)
    return v + np.where(i == n, 100000, 0)


def _reversed_below(x, out, i, n, shift):
    w = np.where(i + shift < n, x[: out.size], 0)
    return np.where(n - i > shift, 3, w)


_WRAPPING = (
    (guards, _guards),
    (not_beyond, lambda x, out, i, n, shift: np.where(i <= n, 1, out)),
    (shifted_below, lambda x, out, i, n, shift: np.where(i + shift < n, 2, out)),
    (reversed_below, _reversed_below),
)
_LIMITS = (
    (GREATEST, 0),
    (LEAST, 0),
    (GREATEST, GREATEST),
    (LEAST, GREATEST),
    (LEAST + 5, 7),
    (GREATEST - 3, -9),
    (5, GREATEST),
    (-5, LEAST),
    (9, 4),
)
for _kernel, _body in _WRAPPING:
    for _number, (_n, _shift) in enumerate(_LIMITS):
        for _shape in ({"extent": (24,)}, {"grid": (3,), "block": (8,)}):
            _list.add(
                f"{_kernel.__name__}_{_number}_{next(iter(_shape))}",
                _kernel,
                lambda rng, n=_n, shift=_shift: (
                    rng.integers(1, 100, 24),
                    poisoned(21, np.int64),
                    n,
                    shift,
                ),
                expected=_wrapped(_body),
                **_shape,
            )
