"""Products of a few rows by packed numbers, which are unpacked in registers.

A row of words is read once, and a thread unpacks a word of it. So the elements of the other factor
are laid out in *planes* first. Plane i is multiplied by number i of each word, or of each byte.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded import bytes_after_word
from kerneldsl.repeating.recorded_calls import launch
from stdlib_kernels.arrays import allocate, is_contiguous, is_on_host
from stdlib_kernels.checks import Array
from stdlib_kernels.copying import itself
from stdlib_kernels.elementwise.calls import map_call
from stdlib_kernels.quantized.weights import Weights

__all__ = ["as_words", "fits_vectors", "multiply_vectors"]

#: Rows of words that a block reads: each number of the other factor is used for all of them. A CPU
#: has too few registers for more, if rows have several sums or the scales of groups. A GPU's blocks
#: are small, so that there are many.
ROWS, DEVICE_ROWS, HOST_ROWS = 8, 2, 4
#: Bytes of these rows on a CPU. It prefetches data as far ahead: those of the next block.
HOST_BYTES = 1 << 13
#: Words of a row up to which sums fit in 32 bits if numbers keep their places in bytes.
MOST_APART = 1 << 18
#: Threads of a block: lanes of the widest vector of a CPU, and some warps of a GPU.
HOST_THREADS, DEVICE_THREADS = 16, 64
#: Fewest threads of a CPU's block, all in one group of numbers.
MIN_LANES = 4
#: Threads of a block that lays out planes.
PLANE_THREADS = 64
#: Most rows of the other factor: more are multiplied by tiles.
MAX_VECTORS = 4


@kd.kernel(wraparound=False)
def byte_planes(x, planes, sums, *, count):
    """Write bytes of words ``x[m, i]`` in words ``planes[m, p, c]``, and the sums of words c."""
    c, m = kd.grid(2)
    if c < planes.shape[2] and m < x.shape[0]:
        total = kd.int32(0)
        for p in range(count):
            word = kd.uint32(0)
            for byte in range(4):
                at = byte * count + p
                own = kd.uint32(x[m, c * count + at // 4] >> kd.uint32(at % 4 * 8))
                word |= (own & kd.uint32(255)) << kd.uint32(8 * byte)
            planes[m, p, c] = kd.bitcast(kd.uint32(word), kd.int32)
            total = kd.dot4(kd.uint32(0x01010101), planes[m, p, c], total)
        sums[m, c] = total


@kd.kernel(wraparound=False)
def float_planes(x, planes, *, count):
    """Write ``x[m, k]`` as float32 in ``planes[m, i, c]``."""
    c, m = kd.grid(2)
    if c < planes.shape[2] and m < x.shape[0]:
        for i in range(count):
            k = c * count + i
            planes[m, i, c] = kd.float32(x[m, k]) if k < x.shape[1] else kd.float32(0)


@kd.func
def _bytes_of(word, planes, m, c, total, bits):
    """Add the products of a word's numbers, each in a byte of its plane."""
    for p in range(8 // bits):
        codes = kd.uint32(word >> kd.uint32(bits * p)) & kd.uint32(0x01010101 * (2**bits - 1))
        total = kd.dot4(kd.uint32(codes), planes[m, p, c], total)
    return total


@kd.func
def _floats_of(words, planes, m, n, c, zero, bits, flip):
    """Return the sum of the products of a word's numbers, each as a float32 minus the zero.

    The bits become the first ones of the fraction of a float between 2**bits and its double.
    """
    word = kd.load(words, (n, c), cache="streaming")
    total = kd.float32(0)
    for i in range(32 // bits):
        if bits * i > 23 - bits:
            moved = kd.uint32(word >> kd.uint32(bits * i - 23 + bits))
        else:
            moved = kd.uint32(word << kd.uint32(23 - bits - bits * i))
        own = kd.uint32(moved & kd.uint32((2**bits - 1) << (23 - bits)))
        own = kd.uint32(own ^ kd.uint32((127 + bits) << 23 | (flip & (2**bits - 1)) << (23 - bits)))
        total = kd.fma(kd.bitcast(own, kd.float32) - zero, planes[m, i, c], total)
    return total


@kd.kernel(wraparound=False)
def rows_by_bytes(
    words, planes, sums, x_scales, scales, zeros, out,
    *, height, group, bits, apart, flip, bias, rows, threads, is_grouped, is_whole, has_zeros,
    has_groups,
):  # fmt: skip
    """Multiply rows of words by bytes: by row m of these in the blocks of the grid's second axis.

    ``scales[n // height, c // group]`` is of word c of row n, ``x_scales[m, c // group]`` of the
    bytes if they `has_groups`. Without groups, those of group 0 are. The number that means 0 is in
    `zeros`, or is `bias`. A row has a sum for each plane, or one: there are `apart` of them.
    """
    first, m, t = kd.blockIdx.x * rows, kd.blockIdx.y, kd.threadIdx.x
    last, count = words.shape[0] - 1, planes.shape[2]
    found, totals = kd.local.array(rows * apart, kd.int32), kd.local.array(rows, kd.float32)
    less = kd.int32(0)
    for r in range(rows):
        totals[r] = kd.float32(0)
    for i in range(rows * apart):
        found[i] = kd.int32(0)
    for chunk in range(-(-count // threads)):
        c = chunk * threads + t
        if is_whole or c < count:
            if is_grouped:
                g = c // group if group % threads else chunk * threads // group
                less = kd.int32(sums[m, c] * kd.int32(-bias))
                for r in range(rows):
                    n = min(first + r, last)
                    if has_zeros:
                        less = kd.int32(sums[m, c] * -kd.int32(zeros[n // height, g]))
                    word = kd.load(words, (n, c), cache="streaming") ^ kd.uint32(flip)
                    part = kd.float32(_bytes_of(word, planes, m, c, less, bits))
                    scale = kd.float32(scales[n // height, g])
                    if has_groups:
                        scale = kd.float32(scale * x_scales[m, g])
                    totals[r] = kd.fma(part, scale, totals[r])
            else:
                less = kd.int32(less + sums[m, c])
                for r in range(rows):
                    n = min(first + r, last)
                    word = kd.load(words, (n, c), cache="streaming") ^ kd.uint32(flip)
                    if apart == 1:
                        found[r] = _bytes_of(word, planes, m, c, found[r], bits)
                    else:  # numbers keep their places, so sums are times 2**(bits * p)
                        for p in range(apart):
                            mask = 0x01010101 * (2**bits - 1) << bits * p
                            i = r * apart + p
                            codes = kd.uint32(word & kd.uint32(mask))
                            found[i] = kd.dot4(codes, planes[m, p, c], found[i])
    for r in range(rows):
        if is_grouped:
            totals[r] = kd.block.sum(totals[r])
        else:
            n = min(first + r, last)
            zero = kd.int32(zeros[n // height, 0]) if has_zeros else kd.int32(bias)
            own = kd.int32(found[r * apart] - less * zero)
            for p in range(1, apart):
                own = kd.int32(own + (found[r * apart + p] >> kd.int32(bits * p)))
            totals[r] = kd.float32(kd.block.sum(own))
    if t == 0:
        for r in range(rows):
            n = first + r
            if n <= last:
                by = kd.float32(1) if has_groups else x_scales[m, 0]
                if not is_grouped:
                    by = kd.float32(scales[n // height, 0] * by)
                out[m, n] = totals[r] * by


@kd.kernel(wraparound=False)
def rows_by_floats(
    words, planes, scales, zeros, out,
    *, height, group, bits, flip, bias, rows, threads, is_whole, has_zeros,
):  # fmt: skip
    """Multiply rows of words by floats; see `rows_by_bytes`."""
    first, m, t = kd.blockIdx.x * rows, kd.blockIdx.y, kd.threadIdx.x
    last, count = words.shape[0] - 1, planes.shape[2]
    totals = kd.local.array(rows, kd.float32)
    for r in range(rows):
        totals[r] = kd.float32(0)
    for chunk in range(-(-count // threads)):
        c = chunk * threads + t
        if is_whole or c < count:
            g = c // group if group % threads else chunk * threads // group
            for r in range(rows):
                n = min(first + r, last)
                zero = kd.float32(2**bits + bias)
                if has_zeros:
                    zero = kd.float32(2**bits) + kd.float32(zeros[n // height, g])
                part = _floats_of(words, planes, m, n, c, zero, bits, flip)
                totals[r] = kd.fma(part, scales[n // height, g], totals[r])
    for r in range(rows):
        total = kd.block.sum(totals[r])
        if t == 0 and first + r <= last:
            out[m, first + r] = total


def fits_vectors(x: Array, weights: Weights) -> bool:
    """Return whether words are multiplied by a few rows, and groups begin at words."""
    begins = weights.group % (32 // weights.format.bits) == 0
    is_few = x.shape[0] <= MAX_VECTORS and x.shape[1] > 0
    return is_few and begins and weights.as_words is not None


def as_words(x: Array, width: int) -> Array:
    """Return rows as words of uint32, with zeros up to a width if they lack some."""
    if x.shape[1] != width or not is_contiguous(x) or bytes_after_word(x):
        whole = allocate(x, (x.shape[0], width), x.dtype, zero=True)
        map_call(itself, [x], [x.dtype], [whole[:, : x.shape[1]]], x)
        x = whole
    return x.view(np.uint32)


def multiply_vectors(x: Array, weights: Weights, out: Array) -> None:
    """Multiply rows of int8 or floats by the numbers of weights."""
    (rows, inner), chosen = x.shape, weights.format
    words, zeros, scales, by = weights.as_words, weights.zeros, weights.scales, weights.x_scales
    assert words is not None
    per_word, per_byte, groups = 32 // chosen.bits, 8 // chosen.bits, scales.shape[1]
    count = -(-inner // per_word)
    group = weights.group // per_word
    threads = HOST_THREADS if is_on_host(out) else DEVICE_THREADS
    if is_on_host(out) and math.gcd(group, threads) >= MIN_LANES:
        threads = math.gcd(group, threads)
    is_apart = is_on_host(out) and per_byte > 1 and count <= MOST_APART
    block_rows = ROWS if is_on_host(out) else DEVICE_ROWS
    if is_on_host(out) and (groups > 1 or x.dtype == np.int8):
        block_rows = max(1, min(HOST_ROWS, HOST_BYTES // (4 * count)))
    static = {
        "height": weights.height,
        "bits": chosen.bits,
        "flip": chosen.flip,
        "bias": chosen.bias,
        "rows": block_rows,
        "threads": threads,
        "group": group,
        "is_whole": count % threads == 0,
        "has_zeros": zeros is not None,
    }
    common = (scales, scales if zeros is None else zeros, out)
    grid, planes_grid = (-(-words.shape[0] // block_rows), rows), (-(-count // PLANE_THREADS), rows)
    if x.dtype == np.int8:
        planes = allocate(x, (rows, per_byte, count), np.dtype(np.int32))
        sums = allocate(x, (rows, count), np.dtype(np.int32))
        x_words = as_words(x, count * per_word)
        launch(byte_planes, planes_grid, PLANE_THREADS, x_words, planes, sums, count=per_byte)
        how: dict[str, Any] = {"is_grouped": groups > 1, "has_groups": by.shape[1] > 1}
        how["apart"] = per_byte if is_apart else 1
        launch(rows_by_bytes, grid, threads, words, planes, sums, by, *common, **how, **static)
        return
    planes = allocate(x, (rows, per_word, count), np.dtype(np.float32))
    launch(float_planes, planes_grid, PLANE_THREADS, x, planes, count=per_word)
    launch(rows_by_floats, grid, threads, words, planes, *common, **static)
