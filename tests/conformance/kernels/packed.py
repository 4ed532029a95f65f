"""Numbers of a few bits that are packed in words: read one by one, and a word at a time."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from kerneldsl.language.packed_numbers import PACKED_NUMBERS
from tests.support.arrays import poisoned, strided
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("packed")
CASES = _list.cases
_WORDS = ("uint8", "int32", "uint32", "int64")
_BLOCK = 64


def _words(rng, shape, dtype):
    """Words of random bits: every pattern, also those that stand for no ternary number."""
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


# --------------------------------------------------------------------------- one by one


def _reading(numbers):
    @kd.kernel
    def reading(words, out, shape):
        i, j = kd.grid(2)
        p = kd.packed(words, numbers)
        if i < p.shape[0] and j < p.shape[1]:
            out[i, j] = p[i, j]
            out[i, p.shape[1] + j] = p[-1 - i, j - p.shape[1]] * 2
        if i == 0 and j == 0:
            shape[0] = p.shape[0]
            shape[1] = p.shape[1]
            shape[2] = p.size
            shape[3] = p.ndim + 10 * len(p)

    return reading


def _for_reading(numbers, dtype, steps):
    per_word = 8 * np.dtype(dtype).itemsize // numbers.bits

    def make(rng):
        words = strided(_words(rng, (5, 3), dtype), steps)
        return words, poisoned((5, 6 * per_word), np.int64), poisoned(4, np.int64)

    return make


for _name, _numbers in PACKED_NUMBERS.items():
    for _dtype in _WORDS:
        for _label, _steps in (("", (1, 1)), ("_strided", (2, -1))):
            _list.add(
                f"read_{_name}_{_dtype}{_label}",
                _reading(_numbers),
                _for_reading(_numbers, _dtype, _steps),
                grid=(1, 3),
                block=(8, 32),
            )


@kd.func
def nearest(view, at):
    return view[at] + view[at - 1] if at > 0 else view[0] * 3


@kd.kernel
def called(words, out):
    i = kd.grid(1)
    if i < out.size:
        view = kd.packed(words, kd.int4)
        out[i] = nearest(view, i)


_list.add(
    "called",
    called,
    lambda rng: (_words(rng, 12, "uint32"), poisoned(90, np.int64)),
    grid=(2,),
    block=(_BLOCK,),
)


@kd.kernel
def element(words, scale, out):
    i = kd.grid(1)
    out[i] = kd.float32(kd.packed(words, kd.uint4)[i]) * scale


_list.add(
    "forall",
    element,
    lambda rng: (_words(rng, 40, "uint8"), np.float32(0.25), poisoned(80, np.float32)),
    extent=(80,),
)


@kd.kernel
def in_shared(words, out):
    t, i = kd.threadIdx.x, kd.grid(1)
    cells = kd.shared.array(_BLOCK, np.uint32)
    outside = kd.packed(words, kd.int2)
    inside = kd.packed(cells, kd.ternary)
    cells[t] = words[i] if i < words.size else np.uint32(0)
    kd.syncthreads()
    total = np.int64(0)
    for k in range(16):
        total += inside[16 * (_BLOCK - 1 - t) + k] * (k + 1)
    kd.syncthreads()
    cells[t] = np.uint32(i)
    kd.syncthreads()
    total += inside[16 * (t ^ 1)]
    if i < words.size:
        out[i] = total * 10 + outside[16 * i + 5]


_list.add(
    "shared",
    in_shared,
    lambda rng: (_words(rng, 150, "uint32"), poisoned(150, np.int64)),
    grid=(3,),
    block=(_BLOCK,),
)


# --------------------------------------------------------------------------- a word at a time


def _unpacking(numbers):
    @kd.kernel
    def unpacking(words, out):
        i = kd.grid(1)
        if i < words.size:
            parts = kd.unpack(words[i], numbers)
            for q in range(len(parts)):
                out[i, q] = parts[q]

    return unpacking


for _name, _numbers in PACKED_NUMBERS.items():
    for _dtype in ("int32", "uint32"):
        _list.add(
            f"unpack_{_name}_{_dtype}",
            _unpacking(_numbers),
            lambda rng, d=_dtype, n=_numbers: (
                _words(rng, 77, d),
                poisoned((77, 8 // n.bits), "uint32" if n.smallest == 0 else "int32"),
            ),
            grid=(2,),
            block=(_BLOCK,),
        )


@kd.kernel
def ternary_matvec(words, x, scale, y):
    """Multiply weights of -1, 0 and 1, 16 to a word, by bytes, four to a word: a row a warp."""
    row = kd.blockIdx.x * (kd.blockDim.x // 32) + kd.threadIdx.x // 32
    total = np.int32(0)
    if row < y.size:
        for k in range(kd.laneid, words.shape[1], 32):
            weights = kd.unpack(words[row, k], kd.ternary)
            for q in range(4):
                total = kd.dot4(weights[q], x[4 * k + q], total)
    total = kd.warp.sum(total)
    if row < y.size and kd.laneid == 0:
        y[row] = scale * np.float32(total)


def _for_matvec(rng):
    weights = rng.integers(-1, 2, (13, 16 * 37))
    x = rng.integers(-128, 128, weights.shape[1], np.int8)
    return kd.ternary.pack(weights), x.view(np.int32), np.float32(0.5), poisoned(13, np.float32)


def _matvec(words, x, scale, y):
    product = kd.ternary.unpack(words).astype(np.int32) @ x.view(np.int8).astype(np.int32)
    return {3: scale * product.astype(np.float32)}


_list.add("ternary_matvec", ternary_matvec, _for_matvec, grid=(4,), block=(128,), expected=_matvec)
