"""Loops, branches and returns of single threads."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("control")
CASES = _list.cases


def _ints(rng):
    return rng.integers(-50, 50, 101), poisoned(101, np.int64)


def _case(function):
    """Add an element kernel of signature (x, out) under its own name."""
    _list.add(function.__name__, function, _ints, extent=(101,))
    return function


@_case
@kd.kernel
def branches(x, out):
    i = kd.grid(1)
    v = x[i]
    if v < -25:
        out[i] = 1
    elif v < 0:
        out[i] = 2
    elif v < 25 and v % 2 == 0:
        out[i] = 3
    elif v > 40 or v == 33:
        out[i] = 4
    else:
        out[i] = 5


@_case
@kd.kernel
def chained_comparisons(x, out):
    i = kd.grid(1)
    out[i] = (1 if -10 < x[i] <= 10 else 0) + (10 if x[i] != 3 != i else 0)


@_case
@kd.kernel
def ternaries(x, out):
    i = kd.grid(1)
    v = x[i]
    out[i] = (v if v > 0 else -v) + (1 if v % 3 == 0 else 2 if v % 3 == 1 else 3)


@_case
@kd.kernel
def while_loop(x, out):
    i = kd.grid(1)
    v = abs(x[i]) + 1
    count = 0
    while v != 1:
        v = v // 2 if v % 2 == 0 else 3 * v + 1
        count += 1
    out[i] = count


@_case
@kd.kernel
def for_with_break_and_continue(x, out):
    i = kd.grid(1)
    total = 0
    for k in range(20):
        if (x[i] + k) % 3 == 0:
            continue
        if k * k > abs(x[i]):
            break
        total += k
    out[i] = total


@_case
@kd.kernel
def ranges(x, out):
    i = kd.grid(1)
    total = 0
    for k in range(3, 11):
        total += k
    for k in range(x[i], x[i] + 9, 4):
        total += k * 2
    for k in range(10, -10, -3):
        total -= k
    for _k in range(-1):
        total += 1000
    out[i] = total


@_case
@kd.kernel
def nested_control(x, out):
    i = kd.grid(1)
    total = 0
    for a in range(6):
        if a == x[i] % 6:
            continue
        b = 0
        while True:
            b += 1
            if b > a:
                break
            if (a + b) % 2 == 0:
                continue
            for c in range(4):
                if c == 3:
                    break
                total += a * b * c
        if total > 60:
            break
    out[i] = total


@_case
@kd.kernel
def return_from_loops(x, out):
    i = kd.grid(1)
    out[i] = -1
    for a in range(10):
        k = 0
        while k < 10:
            if a * k == abs(x[i]):
                out[i] = a * 100 + k
                return
            k += 1
    if x[i] > 0:
        return
    out[i] = -2


@_case
@kd.kernel
def loop_variable_after_loop(x, out):
    i = kd.grid(1)
    k = 99
    for k in range(x[i] % 5):  # noqa: B007 - read after the loop
        pass
    out[i] = k


@_case
@kd.kernel
def augmented_assignments(x, out):
    i = kd.grid(1)
    v = x[i]
    v += 3
    v -= 1
    v *= 5
    v //= 2
    v %= 17
    v <<= 2
    v >>= 1
    v |= 8
    v &= 61
    v ^= 5
    v **= 2
    out[i] = 0
    out[i] += v
    out[i] -= 1


@_case
@kd.kernel
def tuples(x, out):
    i = kd.grid(1)
    a, b = x[i], i
    a, b = b, a
    t = (a, b, a + b)
    out[i] = t[0] + t[1] * 2 + t[-1] * 3 + len(t)


@_case
@kd.kernel
def builtins(x, out):
    i = kd.grid(1)
    v = x[i]
    out[i] = min(v, 7) + 10 * max(v, -7, 3) + 1000 * abs(v) + round(v * 0.25) + int(v > 3)


@_case
@kd.kernel
def boolean_variables(x, out):
    i = kd.grid(1)
    positive = x[i] > 0
    even = x[i] % 2 == 0
    both = positive and even
    out[i] = both + 2 * (positive or even) + 4 * (not both)
    if positive != even:
        out[i] += 8


@_case
@kd.kernel
def early_return(x, out):
    i = kd.grid(1)
    if x[i] < 0:
        out[i] = 0
        return
    out[i] = x[i] * 2


@_case
@kd.kernel
def variable_of_two_types(x, out):
    i = kd.grid(1)
    v = x[i]
    if x[i] > 0:
        v = v * 0.5
    out[i] = np.int64(v * 4)


@_case
@kd.kernel
def long_dependence(x, out):
    i = kd.grid(1)
    a, b, c = x[i], 1, 2
    for k in range(30):
        a, b, c = b, c, (a + 3 * b - c + k) % 1009
    out[i] = a + b + c


def _bounds(rng):
    return (int(rng.integers(1, 4)), np.float32(0.3), poisoned((3, 9), np.float32))


@kd.kernel
def _returns_after_a_loop(n, least, out):
    """Some threads of a row return behind a loop that the others share, and late ones do not."""
    j, t = kd.grid(2)
    half = np.float32(t >> 1)
    count = 0
    for _ in range(n):
        count += 1
    if least != count:  # noqa: SIM102 -- a return within two branches
        if half < j and half > least:
            return
    out[j, t] = half


_list.add("return_after_a_loop", _returns_after_a_loop, _bounds, extent=(3, 9))


@kd.func
def _opposite(c, a, b):
    return -(a if c else b)


@kd.func
def _inverse(c, a, b):
    return np.float64(~(a if c else b))


def _narrow_numbers(rng):
    a = rng.integers(0, 2**32, 50, np.uint32)
    return (a, rng.integers(-128, 128, 50, np.int8), poisoned(50, np.int64), poisoned(50, "f8"))


@kd.kernel
def _results_of_branches(a, b, out, inverse):
    """Branches have their common type before anything is done with the one that is taken."""
    i = kd.grid(1)
    out[i] = _opposite(i % 2 == 0, a[i], b[i])
    inverse[i] = _inverse(i % 2 == 0, a[i], b[i])


def _expected_of_branches(a, b, out, inverse):
    taken = np.where(np.arange(50) % 2 == 0, a.astype(np.int64), b)
    return {2: -taken, 3: (~taken).astype(np.float64)}


_list.add(
    "results_of_branches",
    _results_of_branches,
    _narrow_numbers,
    extent=(50,),
    expected=_expected_of_branches,
)


@kd.func
def quotient_or(p, lane):
    if lane - p > p:
        return lane // -3 & p
    return p


@kd.kernel
def products_in_short_branches(x, table, out):
    # In blocks of one thread nothing else runs while a result is on its way.
    i = kd.grid(1)
    value = np.int64(np.uint32(x[i]))
    value += quotient_or(value, i)
    found = table[i] if i < table.size else 0
    value += found * found
    if i < out.size:
        out[i] = value


for _block in (1, 16):
    _list.add(
        f"products_in_short_branches_{_block}",
        products_in_short_branches,
        lambda rng: (
            rng.integers(0, 50, 64),
            rng.integers(-90, 90, 5).astype(np.int16),
            poisoned(64, np.int64),
        ),
        grid=(64 // _block,),
        block=(_block,),
    )
