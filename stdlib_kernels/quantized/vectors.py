"""Products of a few rows by packed numbers, which are unpacked in registers.

A row of words is read once, and a thread unpacks a word of it. So the elements of the other factor
are laid out in *planes* first. Plane i is multiplied by number i of each word, or of each byte.
"""

from __future__ import annotations

import math

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch
from stdlib_kernels.arrays import allocate, is_on_host
from stdlib_kernels.checks import Array
from stdlib_kernels.quantized.weights import Weights

__all__ = ["fits_vectors", "multiply_vectors"]

#: Rows of words that a block reads: each number of the other factor is used for all of them. With
#: scales of groups, a CPU has too few registers for the addresses of so many.
ROWS, HOST_GROUP_ROWS = 8, 2
#: Threads of a block: lanes of the widest vector of a CPU, and some warps of a GPU.
HOST_THREADS, DEVICE_THREADS = 16, 128
#: Fewest threads of a CPU's block, all in one group of numbers.
MIN_LANES = 4
#: Threads of a block that lays out planes.
PLANE_THREADS = 64
#: Most rows of the other factor: more are multiplied by tiles.
MAX_VECTORS = 4
#: A float32 with this number's bits and a code of 8 bits in the lowest ones is this number plus it.
MAGIC = 0x4B000000


@kd.kernel(wraparound=False)
def byte_planes(x, planes, sums, *, count):
    """Write int8 ``x[m, k]`` in words ``planes[m, p, c]``, and the sums of words c."""
    c, m = kd.grid(2)
    if c < planes.shape[2] and m < x.shape[0]:
        total = kd.int32(0)
        for p in range(count):
            word = kd.int32(0)
            for byte in range(4):
                k = (c * 4 + byte) * count + p
                if k < x.shape[1]:
                    value = kd.int32(x[m, k])
                    total += value
                    word |= (value & kd.int32(255)) << kd.int32(8 * byte)
            planes[m, p, c] = word
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
def _bytes_of(words, planes, m, n, c, total, bits, flip):
    """Add the products of a word's numbers, each in a byte of its plane."""
    word = kd.load(words, (n, c), cache="streaming") ^ kd.uint32(flip)
    for p in range(8 // bits):
        codes = kd.uint32(word >> kd.uint32(bits * p)) & kd.uint32(0x01010101 * (2**bits - 1))
        total = kd.dot4(kd.uint32(codes), planes[m, p, c], total)
    return total


@kd.func
def _floats_of(words, planes, m, n, c, zero, bits, flip):
    """Return the sum of the products of a word's numbers, each as a float32 minus the zero."""
    word = kd.load(words, (n, c), cache="streaming") ^ kd.uint32(flip)
    total = kd.float32(0)
    for i in range(32 // bits):
        code = kd.uint32(word >> kd.uint32(bits * i)) & kd.uint32(2**bits - 1)
        value = kd.bitcast(kd.uint32(code | kd.uint32(MAGIC)), kd.float32) - zero
        total = kd.fma(value, planes[m, i, c], total)
    return total


@kd.kernel(wraparound=False)
def rows_by_bytes(
    words, planes, sums, x_scales, scales, zeros, out,
    *, height, group, bits, flip, bias, rows, threads, is_grouped, is_whole, has_zeros, has_groups,
):  # fmt: skip
    """Multiply rows of words by bytes: by row m of these in the blocks of the grid's second axis.

    ``scales[n // height, c // group]`` is of word c of row n, ``x_scales[m, c // group]`` of the
    bytes if they `has_groups`. Without groups, those of group 0 are. The number that means 0 is in
    `zeros`, or is `bias`.
    """
    first, m, t = kd.blockIdx.x * rows, kd.blockIdx.y, kd.threadIdx.x
    last, count = words.shape[0] - 1, planes.shape[2]
    found, totals = kd.local.array(rows, kd.int32), kd.local.array(rows, kd.float32)
    less = kd.int32(0)
    for r in range(rows):
        found[r] = kd.int32(0)
        totals[r] = kd.float32(0)
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
                    part = _bytes_of(words, planes, m, n, c, less, bits, flip)
                    scale = kd.float32(scales[n // height, g])
                    if has_groups:
                        scale = kd.float32(scale * x_scales[m, g])
                    totals[r] = kd.fma(kd.float32(part), scale, totals[r])
            else:
                less = kd.int32(less + sums[m, c])
                for r in range(rows):
                    n = min(first + r, last)
                    found[r] = _bytes_of(words, planes, m, n, c, found[r], bits, flip)
    for r in range(rows):
        n = min(first + r, last)
        if is_grouped:
            total = kd.block.sum(totals[r])
            if not has_groups:
                total = kd.float32(total * x_scales[m, 0])
        else:
            zero = kd.int32(zeros[n // height, 0]) if has_zeros else kd.int32(bias)
            exact = kd.block.sum(kd.int32(found[r] - less * zero))
            scale = kd.float32(scales[n // height, 0] * x_scales[m, 0])
            total = kd.float32(exact) * scale
        if t == 0 and first + r <= last:
            out[m, n] = total


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
                zero = kd.float32(bias) + kd.float32(1 << 23)
                if has_zeros:
                    zero = kd.float32(zeros[n // height, g]) + kd.float32(1 << 23)
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
    block_rows = HOST_GROUP_ROWS if is_on_host(out) and groups > 1 else ROWS
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
        launch(byte_planes, planes_grid, PLANE_THREADS, x, planes, sums, count=per_byte)
        how = {"is_grouped": groups > 1, "has_groups": by.shape[1] > 1}
        launch(rows_by_bytes, grid, threads, words, planes, sums, by, *common, **how, **static)
        return
    planes = allocate(x, (rows, per_word, count), np.dtype(np.float32))
    launch(float_planes, planes_grid, PLANE_THREADS, x, planes, count=per_word)
    launch(rows_by_floats, grid, threads, words, planes, *common, **static)
