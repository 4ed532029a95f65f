"""Vectors of two or four numbers: made, read, computed with and stored, in arrays of any place."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from kerneldsl.language.element_types import ELEMENT_TYPES, vector_names
from tests.support.arrays import poisoned, random_array
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("vectors")
CASES = _list.cases
_BLOCK = 32


def _apart(rng, size, dtype, offset=0):
    """An array of whole numbers that does not begin at a multiple of 16 bytes."""
    found = rng.integers(1, 50, size + offset).astype(dtype)[offset:]
    assert offset == 0 or found.ctypes.data % 16
    return found


def _of(name, sizes, offset=0, out=None):
    dtype = ELEMENT_TYPES[name].fields[0].dtype
    return lambda rng: (
        *(_apart(rng, size, dtype, offset) for size in sizes[:-1]),
        poisoned(sizes[-1] + offset, out or dtype)[offset:],
    )


def _arithmetic(make, count):
    @kd.kernel(contract=False)
    def two(x, y, out):
        i = kd.grid(1)
        xs, ys, outs = kd.view(x, make), kd.view(y, make), kd.view(out, make)
        if i < outs.size:
            v = xs[i] * 3 + ys[i] - make(1, i)
            v += xs[-1]
            v -= -ys[i]
            outs[i] = make(v.y, v.x) + v // 7 * v[1] + v % 5

    @kd.kernel(contract=False)
    def four(x, y, out):
        i = kd.grid(1)
        xs, ys, outs = kd.view(x, make), kd.view(y, make), kd.view(out, make)
        if i < outs.size:
            v = xs[i] * 3 + ys[i] - make(1, i, 2, 3)
            v += xs[-1]
            v -= -ys[i]
            outs[i] = make(v.w, v.z, v.y, v.x) + v // 7 * v[1] + v % 5

    return two if count == 2 else four


for _name in vector_names():
    _count = len(ELEMENT_TYPES[_name].fields)
    _kernel = _arithmetic(getattr(kd, _name), _count)
    for _label, _offset in (("", 0), ("_unaligned", 1)):
        # Not all numbers are in vectors.
        _sizes = (50 * _count + 1, 50 * _count, 50 * _count + _count - 1)
        _list.add(
            f"arithmetic_{_name}{_label}", _kernel, _of(_name, _sizes, _offset), grid=(2,),
        )  # fmt: skip


@kd.kernel
def bits(x, out):
    i = kd.grid(1)
    xs, outs = kd.view(x, kd.uint32x4), kd.view(out, kd.uint32x4)
    if i < outs.size:
        v = xs[i]
        v ^= v << 13
        v ^= v >> 17
        outs[i] = ~(v & 0xFFFF | kd.uint32x4(1 << 20, 0, 1 << 31, i))


_list.add(
    "bits",
    bits,
    lambda rng: (random_array(rng, 160, "uint32"), poisoned(160, "uint32")),
    grid=(2,),
)


def _dot_products(first, second, result):
    @kd.kernel
    def dot_products(x, y, z, out):
        i = kd.grid(1)
        xs, ys, zs = kd.view(x, first), kd.view(y, second), kd.view(z, result)
        outs = kd.view(out, result)
        if i < zs.size:
            outs[i, 0] = kd.dot4(xs[i], ys[i], zs[i])
            outs[i, 1] = kd.dot4(ys[i], xs[i], 7)
            outs[i, 2] = kd.dot4(xs[i], y[i], kd.dot4(x[i], ys[i], zs[i]))

    return dot_products


def _words(rng, first, second, result, count):
    def words(dtype):
        found = random_array(rng, 50 * count, dtype)
        ends = np.array([0x80808080, 0x7F7F7F7F, 0xFFFFFFFF, 0, 0x807F00FF], np.uint32)
        found[rng.integers(0, found.size, 60)] = rng.choice(ends, 60).view(dtype)
        return found

    return words(first), words(second), words(result), poisoned((50, 3 * count), result)


for _count in (2, 4):
    for _first in ("int32", "uint32"):
        for _second in ("int32", "uint32"):
            _result = "uint32" if _first == _second == "uint32" else "int32"
            _kinds = (_first, _second, _result)
            _list.add(
                f"dot_products_{_first}x{_count}_{_second}x{_count}",
                _dot_products(*(getattr(kd, f"{kind}x{_count}") for kind in _kinds)),
                lambda rng, kinds=_kinds, count=_count: _words(rng, *kinds, count),
                grid=(2,),
            )


@kd.kernel(contract=False)
def divided(x, out):
    i = kd.grid(1)
    xs, outs = kd.view(x, kd.float32x4), kd.view(out, kd.float32x4)
    if i < outs.size:
        outs[i] = abs(xs[i] / 3) + 1 / xs[i]


_list.add(
    "divided",
    divided,
    lambda rng: (random_array(rng, 130, "float32"), poisoned(131, "float32")),
    grid=(2,),
    ulp={"cpu": 0, "cuda": 2},
)


@kd.kernel
def rows(x, out, shape):
    """Rows whose length is no multiple of a vector's."""
    i, j = kd.grid(2)
    xs, outs = kd.view(x, kd.float32x2), kd.view(out, kd.float32x2)
    if i < xs.shape[0] and j < xs.shape[1]:
        outs[xs.shape[0] - 1 - i, j] = xs[i, j] + xs[i, -1]
    row = kd.view(x[i % x.shape[0]], kd.float32x2)
    if i == 0 and j == 0:
        shape[0] = xs.size + 1000 * row.size
        shape[1] = xs.shape[1] + 1000 * len(row[0])


_list.add(
    "rows",
    rows,
    lambda rng: (
        _apart(rng, 7 * 13, "float32").reshape(7, 13),
        poisoned((7, 15), "float32"),
        poisoned(2, "int64"),
    ),
    grid=(1, 1),
    block=(8, 8),
)


@kd.func
def dot(a, b):
    total = a.x * b.x
    for k in range(1, len(a)):
        total += a[k] * b[k]
    return total


@kd.func
def turned(v):
    return kd.float64x2(-v.y, v.x)


@kd.kernel(contract=False)
def called(x, out):
    i = kd.grid(1)
    xs = kd.view(x, kd.float64x2)
    if i < out.size:
        out[i] = dot(xs[i], turned(xs[i]) + 1)


_list.add("called", called, _of("float64x2", (80, 40)), grid=(2,))


@kd.kernel
def in_shared(x, out):
    """Vectors in shared and local arrays, and one that outlives barriers."""
    t, i = kd.threadIdx.x, kd.grid(1)
    xs, outs = kd.view(x, kd.int32x4), kd.view(out, kd.int32x4)
    cells = kd.shared.array(_BLOCK, kd.int32x4)
    words = kd.shared.array(4 * _BLOCK, np.int32)
    own = kd.local.array(2, kd.int32x4)
    mine = kd.int32x4(0, 0, 0, 0)
    if i < xs.size:
        mine = xs[i]
    cells[t] = mine
    own[t % 2] = mine * 2
    own[1 - t % 2] = mine
    kd.syncthreads()
    other = cells[_BLOCK - 1 - t]
    words[4 * t] = mine.w
    for k in range(1, 4):
        words[4 * t + k] = mine[k]
    kd.syncthreads()
    mine += other + own[t % 2] + kd.view(words, kd.int32x4)[t ^ 1]
    kd.syncthreads()
    if i < outs.size:
        outs[i] = mine


_list.add("shared", in_shared, _of("int32x4", (4 * 75, 4 * 75)), grid=(3,), block=(_BLOCK,))


@kd.kernel(contract=False)
def element(x, scale, out):
    i = kd.grid(1)
    kd.view(out, kd.float32x4)[i] = kd.view(x, kd.float32x4)[i] * scale


_list.add(
    "forall",
    element,
    lambda rng: (random_array(rng, 404, "float32"), np.float64(0.3), poisoned(404, "float32")),
    extent=(101,),
)


@kd.kernel
def chosen(x, out):
    """A vector that is one of two, in a loop."""
    i = kd.grid(1)
    xs = kd.view(x, kd.int16x4)
    best = xs[0] if i % 2 else xs[1]
    for k in range(xs.size):
        candidate = xs[(k + i) % xs.size]
        if candidate.x > best.x:
            best = candidate
    if i < out.size:
        out[i] = np.int64(best.x) * 1000 + best.w


_list.add("chosen", chosen, _of("int16x4", (36, 30), out=np.int64), grid=(1,))
