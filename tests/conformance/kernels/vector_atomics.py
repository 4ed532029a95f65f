"""Additions to vectors, of which each number is added by itself."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("vector_atomics")
CASES = _list.cases


def _scatter(make, count):
    @kd.kernel
    def two(x, where, sums):
        i = kd.grid(1)
        xs = kd.view(x, make)
        if i < xs.size:
            kd.atomic.add(kd.view(sums, make), where[i], xs[i])

    @kd.kernel
    def four(x, where, sums):
        i = kd.grid(1)
        xs = kd.view(x, make)
        if i < xs.size:
            kd.atomic.add(kd.view(sums, make), where[i], xs[i] + make(i, 0, -i, 1))

    return two if count == 2 else four


def _whole(rng, size, offset):
    """Whole numbers, whose sums are exact in any order, at an address that may be odd."""
    return rng.integers(-99, 99, size + offset).astype(np.float32)[offset:]


for _count, _make in ((2, kd.float32x2), (4, kd.float32x4)):
    for _label, _offset in (("", 0), ("_unaligned", 1)):
        _list.add(
            f"scatter_{_count}{_label}",
            _scatter(_make, _count),
            lambda rng, count=_count, offset=_offset: (
                _whole(rng, 150 * count + 1, 0),
                rng.integers(-7, 7, 150),
                _whole(rng, 7 * count + count - 1, offset),
            ),
            grid=(5,),
            block=(33,),
        )


@kd.kernel
def of_block(x, out):
    """Sums in shared memory; the old vector is given back."""
    t = kd.threadIdx.x
    held = kd.shared.array(8, np.float32)
    if t < 8:
        held[t] = t
    kd.syncthreads()
    sums = kd.view(held, kd.float32x4)
    if t < 30:
        kd.atomic.add(sums, t % 2, kd.float32x4(x[t], 1, t, -x[t]))
    kd.syncthreads()
    if t == 0:
        old = kd.atomic.add(sums, 1, kd.float32x4(1, 2, 3, 4))
        out[8] = old.x + 2 * old.y + 4 * old.z + 8 * old.w
    kd.syncthreads()
    if t < 8:
        out[t] = held[t]


_list.add(
    "of_block",
    of_block,
    lambda rng: (_whole(rng, 32, 0), poisoned(9, "float32")),
    grid=(1,),
)


@kd.kernel
def in_order(x, olds, sums):
    """One thread adds; what is given back is what was there."""
    own = kd.local.array(2, kd.float32x2)
    if kd.grid(1) == 0:
        own[0] = kd.float32x2(0.5, -0.0)
        for k in range(5):
            old = kd.atomic.add(kd.view(sums, kd.float32x4), -1, kd.float32x4(x[k], 1, -0.0, x[0]))
            kd.view(olds, kd.float32x4)[k] = old
            kd.atomic.add(own, 0, kd.float32x2(x[k], -0.0))
        sums[0] = own[0].x
        sums[1] = own[0].y


_list.add(
    "in_order",
    in_order,
    lambda rng: (
        _whole(rng, 5, 0),
        poisoned(20, "float32"),
        np.array([0, 0, 0, 0, 1.5, np.nan, -0.0, np.inf], np.float32),
    ),
)
