"""Products of up to 16 rows by packed numbers, by tensor cores of a GPU, in one pass.

Each thread unpacks the words that it multiplies, in registers, and reads the other factor as it is.
A block multiplies all of k, and each of its warps a part. Their sums are added in order, so results
are the same from run to run. What a turn of a warp reads is loaded during the one before.

Integers are multiplied as floats of 16 bits, which hold them. The sums of a turn are exact.
"""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch
from stdlib_kernels.arrays import constant_beside, is_on_host
from stdlib_kernels.checks import Array
from stdlib_kernels.linalg.product import has_tensor_cores
from stdlib_kernels.quantized.fragments import (
    EXCHANGES,
    INSTRUCTIONS,
    WARP,
    add_exactly,
    add_scaled,
    load_other,
    load_scales,
    multiply_word,
    pairs_of_other,
    subtrahend,
)
from stdlib_kernels.quantized.vectors import as_words
from stdlib_kernels.quantized.weights import Weights

__all__ = ["fits_warps", "multiply_by_warps"]

#: Threads that share a row of words, and so words of the smallest groups.
SHARING = 4
#: Warps of a block.
WARPS = 8
#: Rows of words of a block by rows of the other factor, and blocks of a multiprocessor.
TILES = {8: (32, 2), 16: (64, 1)}
#: Rows of words of a block if there are few blocks, and the fewest that keep a large GPU at work.
SMALL, MIN_BLOCKS = 16, 96


@kd.func
def load_turn(words, into, first, last, turn, t, tall, own, is_fine):
    """Load `own` words of each of a thread's rows: neighbours, or every fourth one."""
    for i in range(tall // 8):
        n = min(first + 8 * i, last)
        if is_fine:
            for j in range(own):
                c = (turn * own + j) * SHARING + t
                into[own * i + j] = words[n, min(c, words.shape[1] - 1)]
        else:
            c = min(turn * SHARING + t, words.shape[1] // own - 1)
            if own == 4:
                four = kd.load(kd.view(words, kd.uint32x4), (n, c), cache="streaming")
                into[4 * i], into[4 * i + 1] = four.x, four.y
                into[4 * i + 2], into[4 * i + 3] = four.z, four.w
            else:
                two = kd.load(kd.view(words, kd.uint32x2), (n, c), cache="streaming")
                into[2 * i], into[2 * i + 1] = two.x, two.y


@kd.func
def load_others(x, into, turn, g, t, rows, own, size, is_fine):
    """Load what belongs to the words of a turn; rows beyond the last one stay as they are."""
    for each in range(own * rows // 8):
        j, nt = each // (rows // 8), each % (rows // 8)
        c = (turn * own + j) * SHARING + t if is_fine else (turn * SHARING + t) * own + j
        if nt * 8 + g < x.shape[0]:
            load_other(x, into, each * size, nt * 8 + g, c, size)


def multiply_rows(
    x, words, scales, zeros, x_scales, out, mask,
    *, multiply, add, bits, flip, bias, size, tall, rows, own, sets, height, group, is_half,
    is_grouped, is_exact, has_zeros,
):  # fmt: skip
    """Multiply `tall` rows of words by up to `rows` rows, which are given as words.

    ``scales[n // height, c // group]`` is of word c of row n. A turn has words of so many `sets` of
    them. Beyond the last word of a row there are zeros in x. Exact sums are int32.
    """
    lane, warp = kd.threadIdx.x % WARP, kd.threadIdx.x // WARP
    g, t, count, wide = lane // 4, lane % 4, tall * rows // 32, rows // 8
    first, last = kd.blockIdx.x * tall + g, words.shape[0] - 1
    turns, mask = -(-words.shape[1] // (SHARING * own)), kd.uint32(mask)
    w, next_w = (
        kd.local.array(tall * own // 8, kd.uint32),
        kd.local.array(tall * own // 8, kd.uint32),
    )
    next_x = kd.local.array(rows * own * size // 8, kd.uint32)
    pairs = kd.local.array(rows * own * 2 // bits, kd.uint32)
    by, less = (
        kd.local.array(tall * sets // 8, kd.float32),
        kd.local.array(tall * sets // 8, kd.uint32),
    )
    next_by, next_less = kd.local.array(tall // 8, kd.float32), kd.local.array(tall // 8, kd.uint32)
    found = kd.local.array(tall * rows // 32, kd.float32)
    totals = kd.local.array(tall * rows // 32, kd.int32 if is_exact else kd.float32)
    held = kd.shared.array((WARPS, rows, tall + 4), kd.int32 if is_exact else kd.float32)
    for k in range(count):
        found[k], totals[k] = kd.float32(0), 0
    for k in range(rows * own * size // 8):
        next_x[k] = kd.uint32(0)
    for i in range(tall // 8):
        next_by[i], next_less[i] = kd.float32(1), subtrahend(bias, bits, is_half)
    length = -(-turns // WARPS)
    turn = min(warp * length, turns - 1)
    load_turn(words, next_w, first, last, turn, t, tall, own, sets > 1)
    load_others(x, next_x, turn, g, t, rows, own, size, sets > 1)
    if sets == 1 and (is_grouped or has_zeros):
        at = turn * SHARING * own // group if is_grouped else 0
        load_scales(
            scales, zeros, next_by, next_less, 0, first, last, at, tall, height, bits, is_half,
            has_zeros,
        )  # fmt: skip
    for i in range(tall * sets // 8):
        by[i], less[i] = kd.float32(1), subtrahend(bias, bits, is_half)
    for turn in range(warp * length, min((warp + 1) * length, turns)):
        for i in range(tall * own // 8):
            w[i] = next_w[i]
        for each in range(own * wide):
            pairs_of_other(next_x, each * size, pairs, each * 16 // bits, 16 // bits, size)
        following = min(turn + 1, turns - 1)
        load_turn(words, next_w, first, last, following, t, tall, own, sets > 1)
        load_others(x, next_x, following, g, t, rows, own, size, sets > 1)
        if sets > 1:
            for j in range(own):
                at = min((turn * own + j) * SHARING // group, scales.shape[1] - 1)
                load_scales(
                    scales, zeros, by, less, j * (tall // 8), first, last, at, tall, height, bits,
                    is_half, has_zeros,
                )  # fmt: skip
        else:
            for i in range(tall // 8):
                by[i], less[i] = next_by[i], next_less[i]
            if is_grouped:
                at = following * SHARING * own // group
                load_scales(
                    scales, zeros, next_by, next_less, 0, first, last, at, tall, height, bits,
                    is_half, has_zeros,
                )  # fmt: skip
        for j in range(own):
            at = j * (tall // 8) if sets > 1 else 0
            multiply_word(
                w, j, own, found, less, at, pairs, mask, tall, wide, multiply, add, bits, flip,
                is_half,
            )  # fmt: skip
            if sets > 1 or j == own - 1:
                if is_exact:
                    add_exactly(found, totals, count)
                elif is_grouped:
                    add_scaled(found, by, at, totals, count, wide)
    for k in range(count):
        n, m = k // (4 * wide) * 16 + k // 2 % 2 * 8 + g, k // 4 % wide * 8 + 2 * t + k % 2
        held[warp, m, n] = totals[k] if is_exact or is_grouped else found[k]
    kd.syncthreads()
    for i in range(kd.threadIdx.x, tall * rows, WARPS * WARP):
        m, n = i // tall, kd.blockIdx.x * tall + i % tall
        if m < out.shape[0] and n <= last:
            total = held[0, m, i % tall]
            for part in range(1, WARPS):
                total += held[part, m, i % tall]
            scale = kd.float32(x_scales[m, 0])
            if not is_grouped:
                scale *= scales[n // height, 0]
            out[m, n] = kd.float32(total) * scale


#: The kernel, by blocks of a multiprocessor.
KERNELS = {
    blocks: kd.kernel(wraparound=False, early_start=True, launch_bounds=(WARPS * WARP, blocks))(
        multiply_rows
    )
    for blocks in (1, 2)
}


def fits_warps(x: Array, weights: Weights) -> bool:
    """Return whether warps multiply words by a few rows, and groups begin at words of all."""
    begins = weights.group % (SHARING * 32 // weights.format.bits) == 0
    is_few = 0 < x.shape[0] <= max(TILES) and x.shape[1] > 0 and x.dtype.itemsize <= 2
    is_alike = weights.x_scales.shape[1] == 1
    return is_few and begins and weights.as_words is not None and is_alike and has_tensor_cores(x)


def multiply_by_warps(x: Array, weights: Weights, out: Array) -> None:
    """Multiply rows of int8 or of 16-bit floats by the numbers of weights, on a GPU."""
    chosen, scales, words = weights.format, weights.scales, weights.as_words
    assert words is not None
    per_word, own, is_half = 32 // chosen.bits, min(4, chosen.bits), x.dtype == np.float16
    is_grouped, group = scales.shape[1] > 1, max(1, weights.group // per_word)
    rows = next(each for each in TILES if each >= x.shape[0])
    tall, blocks = TILES[rows]
    if -(-words.shape[0] // tall) < MIN_BLOCKS:
        tall = SMALL
    multiply, add = (EXCHANGES if is_on_host(out) else INSTRUCTIONS)[is_half]
    is_fine = (is_grouped and group % (SHARING * own) > 0) or words.shape[1] % own > 0
    static = {
        "multiply": multiply,
        "add": add,
        "bits": chosen.bits,
        "flip": chosen.flip & (2**chosen.bits - 1),
        "bias": chosen.bias,
        "size": per_word * x.dtype.itemsize // 4,
        "tall": tall,
        "rows": rows,
        "own": own,
        "sets": own if is_fine else 1,
        "height": weights.height,
        "group": group,
        "is_half": is_half,
        "is_grouped": is_grouped,
        "is_exact": x.dtype == np.int8 and not is_grouped and weights.zeros is None,
        "has_zeros": weights.zeros is not None,
    }
    # A kernel with arguments that overlap loads nothing early.
    none = constant_beside(x, np.zeros((1, 1), np.uint8))
    zeros = none if weights.zeros is None else weights.zeros
    width = -(-words.shape[1] // (SHARING * own)) * SHARING * own * per_word
    args = (as_words(x, width), words, scales, zeros, weights.x_scales, out)
    grid, mask = -(-words.shape[0] // tall), (2**chosen.bits - 1) * 0x00010001
    launch(KERNELS[blocks], grid, WARPS * WARP, *args, mask, **static)
