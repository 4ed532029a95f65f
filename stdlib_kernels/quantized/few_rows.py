"""Products of up to 64 rows by numbers of 2 or 4 bits, by tensor cores of a GPU.

Words are read once, and each thread unpacks those that it multiplies, in registers. Number p of a
word is multiplied by *plane* p of the rows: by their elements that belong to the numbers p of all
words. So the rows are laid out in planes first. As many blocks as keep a GPU at work multiply parts
along k. Their sums are added in order, so results are the same from run to run.
"""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch, launch_over
from stdlib_kernels.arrays import allocate, constant_beside
from stdlib_kernels.checks import Array
from stdlib_kernels.linalg.product import has_tensor_cores
from stdlib_kernels.quantized.weights import Weights

__all__ = ["fits_planes", "multiply_planes"]

#: Words of a row of a tile: an instruction multiplies as many elements along k.
DEPTH = 16
#: Stages of the pipeline: words are copied one iteration less than this early.
STAGES = 3
#: Tiles by rows of the other factor: rows of words, threads, and blocks of a multiprocessor. Each
#: tile reads all planes of its part, so tiles of 64 rows are tall. For more rows, unpacking the
#: words first is faster.
TILES = {
    32: (128, 128, 2),
    64: (192, 384, 1),
}
#: The tile that is no taller than a block of rows with the same scales, where others are.
TILE_IN_BLOCKS = (128, 256, 1)
#: Rows up to which warps multiply, of words in shared memory. For more rows, warpgroups do, of
#: words that threads load two iterations early.
MOST_BY_WARPS = 32
#: Multiprocessors of a large GPU.
PROCESSORS = 132
#: Fewest words along k of a part.
MIN_PART = 8 * DEPTH
#: Rows that a block lays out, and columns that a thread adds sums of if rows are many.
ROWS_TOGETHER, COLUMNS_OF_THREAD = 8, 4
#: Threads of a block that lays out planes, or adds sums.
OTHER_THREADS = 128


@kd.kernel(wraparound=False, early_start=True)
def lay_out_planes(x, planes, *, count):
    """Write ``x[m, c * count + p]`` in ``planes[p, c, m]``, and zeros beyond the last one."""
    c = kd.blockIdx.x * (OTHER_THREADS // ROWS_TOGETHER) + kd.threadIdx.x // ROWS_TOGETHER
    m = kd.blockIdx.y * ROWS_TOGETHER + kd.threadIdx.x % ROWS_TOGETHER
    if c < planes.shape[1]:
        for p in range(count):
            k, value = c * count + p, kd.float32(0)
            if m < x.shape[0] and k < x.shape[1]:
                value = kd.float32(x[m, k])
            planes[p, c, m] = value


def number_of(word, zero, shift, bits, flip, number, fraction, at):
    """Return the number of a word at some bits, minus the zero, as a float of 16 bits.

    The bits become those `at` some place of the `fraction` of a float, which is a power of two
    without them. The number at that place in a word needs no shift.
    """
    if shift >= at:
        moved = kd.uint32(word >> kd.uint32(shift - at))
    else:
        moved = kd.uint32(word << kd.uint32(at - shift))
    own = kd.uint32(moved & kd.uint32((2**bits - 1) << at))
    exponent = fraction - at + (127 if fraction == 7 else 15)
    own = kd.uint32(own ^ kd.uint32(exponent << fraction | flip << at))
    return number(kd.bitcast(kd.uint16(own), number) - zero)


@kd.func
def _add_planes(w, y0, y1, y2, y3, first, zero, found, bits, flip, number, fraction, place):
    """Add the products of four planes, from number `first` on."""
    at = first * bits
    found = kd.mma(w.map(number_of, zero, at, bits, flip, number, fraction, place), y0, found)
    at = at + bits
    found = kd.mma(w.map(number_of, zero, at, bits, flip, number, fraction, place), y1, found)
    at = at + bits
    found = kd.mma(w.map(number_of, zero, at, bits, flip, number, fraction, place), y2, found)
    at = at + bits
    return kd.mma(w.map(number_of, zero, at, bits, flip, number, fraction, place), y3, found)


def multiply_words(
    words, planes, scales, zeros, sums, length,
    *, bits, flip, bias, number, fraction, tall, rows, height, group, parts, is_grouped, has_zeros,
):  # fmt: skip
    """Multiply rows of words by planes: a part along k is below the one before it in `sums`.

    ``scales[n // height, c // group]`` is of word c of row n. Parts have `length` words.
    """
    below = sums.shape[0] // parts
    # Zeros of a tile may be larger than numbers: sums of them with a small power are exact.
    place = fraction - bits if has_zeros else 0
    power = 2 ** (fraction - place)
    p0, p1, p2, p3 = planes[0], planes[1], planes[2], planes[3]
    p4, p5, p6, p7 = planes[4], planes[5], planes[6], planes[7]
    if bits < 4:
        p8, p9, p10, p11 = planes[8], planes[9], planes[10], planes[11]
        p12, p13, p14, p15 = planes[12], planes[13], planes[14], planes[15]
    for n, m in kd.tiles(sums.shape, (tall, rows)):
        part = n // below
        first, start = n - part * below, part * length
        acc = kd.tile.zeros((tall, rows), kd.float32)
        row, g = first // height, start // group
        if height == 1:
            scale = kd.tile.load(scales, (row, g), (tall, 1))
            less = kd.tile.load(zeros, (row, g), (tall, 1))
        stop = min(start + length, words.shape[1])
        if rows > MOST_BY_WARPS:
            w = kd.tile.load(words, (first, start), (tall, DEPTH))
            next_words = kd.tile.load(words, (first, start + DEPTH), (tall, DEPTH))
        for c in kd.pipelined(range(start, stop, DEPTH), stages=STAGES):
            if rows > MOST_BY_WARPS:
                later_words = kd.tile.load(words, (first, c + 2 * DEPTH), (tall, DEPTH))
            else:
                w = kd.tile.load(words, (first, c), (tall, DEPTH))
            g = c // group
            if height == 1:  # a load takes as long as the products of a turn
                ahead = (c + DEPTH) // group
                next_scale = kd.tile.load(scales, (row, ahead), (tall, 1))
                next_less = kd.tile.load(zeros, (row, ahead), (tall, 1))
            zero = number(power + bias)
            if has_zeros:
                if height > 1:
                    zero = number(power) + number(zeros[row, g])
                else:
                    zero = number(power) + number(less)
            found = kd.tile.zeros((tall, rows), kd.float32)
            y0 = kd.tile.load(p0, (c, m), (DEPTH, rows))
            y1 = kd.tile.load(p1, (c, m), (DEPTH, rows))
            y2 = kd.tile.load(p2, (c, m), (DEPTH, rows))
            y3 = kd.tile.load(p3, (c, m), (DEPTH, rows))
            found = _add_planes(
                w, y0, y1, y2, y3, 0, zero, found, bits, flip, number, fraction, place
            )
            y0 = kd.tile.load(p4, (c, m), (DEPTH, rows))
            y1 = kd.tile.load(p5, (c, m), (DEPTH, rows))
            y2 = kd.tile.load(p6, (c, m), (DEPTH, rows))
            y3 = kd.tile.load(p7, (c, m), (DEPTH, rows))
            found = _add_planes(
                w, y0, y1, y2, y3, 4, zero, found, bits, flip, number, fraction, place
            )
            if bits < 4:
                y0 = kd.tile.load(p8, (c, m), (DEPTH, rows))
                y1 = kd.tile.load(p9, (c, m), (DEPTH, rows))
                y2 = kd.tile.load(p10, (c, m), (DEPTH, rows))
                y3 = kd.tile.load(p11, (c, m), (DEPTH, rows))
                found = _add_planes(
                    w, y0, y1, y2, y3, 8, zero, found, bits, flip, number, fraction, place
                )
                y0 = kd.tile.load(p12, (c, m), (DEPTH, rows))
                y1 = kd.tile.load(p13, (c, m), (DEPTH, rows))
                y2 = kd.tile.load(p14, (c, m), (DEPTH, rows))
                y3 = kd.tile.load(p15, (c, m), (DEPTH, rows))
                found = _add_planes(
                    w, y0, y1, y2, y3, 12, zero, found, bits, flip, number, fraction, place
                )
            if not is_grouped:
                acc += found
            elif height > 1:
                acc += found * kd.float32(scales[row, g])
            else:
                acc += found * kd.float32(scale)
            if height == 1:
                scale, less = next_scale, next_less
            if rows > MOST_BY_WARPS:
                w, next_words = next_words, later_words
        kd.tile.store(sums, (n, m), acc)


#: The kernel, by threads of a block and blocks of a multiprocessor.
WORDS_BY_PLANES = {
    bounds: kd.kernel(wraparound=False, early_start=True, launch_bounds=bounds)(multiply_words)
    for bounds in {each[1:] for each in (*TILES.values(), TILE_IN_BLOCKS)}
}


@kd.kernel(wraparound=False, early_start=True)
def add_scaled(sums, scales, x_scales, out, *, parts, height, is_grouped, each):
    """Add the parts of sums in order, and multiply them by the scales that they lack.

    A thread does so for `each` columns.
    """
    m = kd.blockIdx.y
    for j in range(each):
        n = (kd.blockIdx.x * each + j) * OTHER_THREADS + kd.threadIdx.x
        if n < out.shape[1]:
            below, total = sums.shape[1] // parts, sums[m, n]
            for part in range(1, parts):
                total += sums[m, part * below + n]
            by = x_scales[m, 0]
            out[m, n] = kd.float32(total) * (by if is_grouped else scales[n // height, 0] * by)


def fits_planes(x: Array, weights: Weights) -> bool:
    """Return whether a GPU multiplies a few rows by words, and groups begin at tiles."""
    begins = weights.group % (DEPTH * 32 // weights.format.bits) == 0
    is_few = 0 < x.shape[0] <= max(TILES) and x.shape[1] > 0 and x.dtype.itemsize == 2
    is_packed = weights.as_words is not None and weights.format.bits < 8
    return is_few and begins and is_packed and has_tensor_cores(x)


def multiply_planes(x: Array, weights: Weights, out: Array) -> None:
    """Multiply rows of 16-bit floats by the numbers of weights, on a GPU."""
    rows, chosen, scales = x.shape[0], weights.format, weights.scales
    words = weights.as_words
    assert words is not None
    count, is_grouped = 32 // chosen.bits, scales.shape[1] > 1
    number = x.dtype
    width = next(each for each in TILES if each >= rows)
    deep = -(-words.shape[1] // DEPTH) * DEPTH
    planes = allocate(x, (count, deep, width), number)
    # All rows of words of a tile have the scales of one block.
    chosen_tile = TILES[width]
    if weights.height > 1 and chosen_tile[0] > TILE_IN_BLOCKS[0]:
        chosen_tile = TILE_IN_BLOCKS
    tall, threads, blocks = chosen_tile
    tiles = -(-words.shape[0] // tall)
    parts = max(1, min(blocks * PROCESSORS // tiles, words.shape[1] // MIN_PART))
    sums = allocate(x, (width, parts * tiles * tall), np.dtype(np.float32))
    # A kernel with arguments that overlap copies no tiles early.
    none = constant_beside(x, np.zeros((1, 1), np.uint8))
    zeros = none if weights.zeros is None else weights.zeros
    static = {
        "bits": chosen.bits,
        "flip": chosen.flip & (2**chosen.bits - 1),
        "bias": chosen.bias,
        "number": number.type,
        "fraction": 7 if number.name == "bfloat16" else 10,
        "tall": tall,
        "rows": width,
        "height": weights.height,
        "group": max(1, weights.group * chosen.bits // 32),
        "parts": parts,
        "is_grouped": is_grouped,
        "has_zeros": weights.zeros is not None,
    }
    grid = (deep * ROWS_TOGETHER // OTHER_THREADS, width // ROWS_TOGETHER)
    launch(lay_out_planes, grid, OTHER_THREADS, x, planes, count=count)
    length = -(-words.shape[1] // (DEPTH * parts)) * DEPTH
    args = (words, planes, scales, zeros, sums.T, length)
    kernel = WORDS_BY_PLANES[threads, blocks]
    launch_over(kernel, sums.shape[::-1], *args, block=threads, **static)
    each = 1 if width <= MOST_BY_WARPS else COLUMNS_OF_THREAD
    how = {"parts": parts, "height": weights.height, "is_grouped": is_grouped, "each": each}
    grid = (-(-out.shape[1] // (each * OTHER_THREADS)), rows)
    launch(add_scaled, grid, OTHER_THREADS, sums, scales, weights.x_scales, out, **how)
