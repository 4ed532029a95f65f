"""Tiles in tuples: assigned together, exchanged, given back by functions, and to several names."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("tile_tuples")
CASES = _list.cases


@kd.kernel
def fibonacci(x, out, rounds):
    """Exchange tiles in a loop: each becomes the sum of the two before."""
    a, b = kd.tile.load(x, 0, 24), kd.tile.load(x, 24, 24)
    for _ in range(rounds):
        a, b = b, a + b
    kd.tile.store(out, 0, a)
    a, b = b, a
    kd.tile.store(out, 24, a - b)


def _fibonacci(x, out, rounds):
    a, b = x[:24], x[24:]
    for _ in range(rounds):
        a, b = b, a + b
    return {1: np.concatenate([a, b - a])}


@kd.func
def halves(t, factor):
    scaled = t * factor
    return scaled, scaled.sum(), (t.max(), -t)


@kd.kernel
def of_functions(x, out, factor):
    pair = halves(kd.tile.load(x, (0, 0), (4, 6)), factor)
    a, total, (most, c) = pair
    first = second = a + most
    (first, n), c = (c, 3), first
    kd.tile.store(out, (0, 0), first * n + total)
    kd.tile.store(out, (4, 0), c - second + a)


def _of_functions(x, out, factor):
    t = x.reshape(8, 6)[:4]
    a = t * factor
    return {1: np.concatenate([-t * 3 + a.sum(), a]).reshape(out.shape)}


@kd.kernel
def rotated(x, out, flag):
    """Assign three together, of other shapes than each other, and numbers between them."""
    a, n, b, c = kd.tile.load(x, 0, 16), 1, kd.tile.load(x, 16, 8), kd.tile.load(x, 24, 16)
    if flag:
        a, n, c = c, n + 1, a
    else:
        c, a = a * 2, c
    out[0], b = n, b + a.sum()
    kd.tile.store(out, 1, a)
    kd.tile.store(out, 17, b)
    kd.tile.store(out, 25, c)


def _rotated(x, out, flag):
    a, b, c = x[:16], x[16:24], x[24:40]
    n, c, a = (2, a, c) if flag else (1, 2 * a, c)
    out[:41] = np.concatenate([[n], a, b + a.sum(), c])
    return {1: out}


for _block in (32, 45):
    _list.add(
        f"fibonacci_{_block}",
        fibonacci,
        lambda rng: (rng.integers(-99, 99, 48), poisoned(48, np.int64), 9),
        block=(_block,),
        expected=_fibonacci,
    )
    _list.add(
        f"of_functions_{_block}",
        of_functions,
        lambda rng: (rng.integers(-99, 99, (8, 6)), poisoned((8, 6), np.int64), 5),
        block=(_block,),
        expected=_of_functions,
    )
    for _flag in (0, 1):
        _list.add(
            f"rotated_{_flag}_{_block}",
            rotated,
            lambda rng, flag=_flag: (rng.integers(-99, 99, 48), poisoned(48, np.int64), flag),
            block=(_block,),
            expected=_rotated,
        )
