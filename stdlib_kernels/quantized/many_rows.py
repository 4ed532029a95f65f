"""Products of many rows on a GPU: the other matrix is unpacked once, and plain tiles multiply it.

Tensor cores read both factors where copies have put them, so they wait for no arithmetic. Unpacking
takes as long as a write and a read of the unpacked numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch, launch_over
from stdlib_kernels.arrays import allocate, constant_beside
from stdlib_kernels.checks import Array
from stdlib_kernels.copying import itself
from stdlib_kernels.elementwise.calls import map_call
from stdlib_kernels.linalg.blocks import MIN_SIDE, multiply_blocks
from stdlib_kernels.linalg.product import choose_tile, has_tensor_cores, multiply_mma
from stdlib_kernels.quantized.encoding import dequantize_numbers
from stdlib_kernels.quantized.tiles import groups_of_codes, rows_of_codes, rows_of_floats
from stdlib_kernels.quantized.weights import BLOCK, Weights

__all__ = ["multiply_many"]

#: Threads of a block.
THREADS = 128
#: Most bytes of unpacked numbers at a time, and most rows: a grid has no more blocks along y.
MAX_BYTES, MAX_ROWS = 1 << 28, 65408
#: Numbers to which a row of unpacked ones is extended, so that rows begin at multiples of 16 bytes.
PADDED = 16
#: Rows, columns and threads of tiles. If sums are scaled group by group, a thread has registers for
#: 64 sums of a tile, and for as many of a group.
GROUP_TILES = ((128, 128, 256), (64, 64, 128))
#: Tile if each thread has the scales of its rows, and the compute capability with its shared
#: memory.
WIDE_TILE, WIDE_ARCHITECTURE = (192, 128, 384), 90
#: Fewest tiles that keep a large GPU at work.
MIN_TILES = 96
#: Bytes of a row of a tile along k.
ROW_BYTES = 128
#: Rows, columns, numbers along k and threads of tiles of float32, which no tensor core multiplies.
FLOAT_TILE = (64, 64, 32, 128)


@kd.kernel(wraparound=False)
def scaled_groups(
    a, b, a_scales, b_scales, out, *, group, rows, columns, depth, has_a_groups, has_blocks
):  # fmt: skip
    """Multiply ``a[i, k]`` by ``b[j, k]``; the sums of each group are scaled, and added as float32.

    ``a_scales[i, k // group]`` are for rows, and ``b_scales[j // 128, k // group]`` for blocks, or
    ``b_scales[j, 0]``. A thread has those of its rows in registers, early.
    """
    for i, j in kd.tiles(out.shape, (rows, columns)):
        acc = kd.tile.zeros((rows, columns), kd.float32)
        by = kd.tile.load(a_scales, (i, 0), (rows, 1))
        for k in kd.pipelined(range(0, a.shape[1], depth)):
            g, ahead = k // group, (k + depth) // group if has_a_groups else 0
            following = kd.tile.load(a_scales, (i, ahead), (rows, 1))
            right = kd.tile.load(b, (j, k), (columns, depth))
            part = kd.mma(kd.tile.load(a, (i, k), (rows, depth)), right.T, promote=None)
            if has_blocks:
                acc += kd.float32(part) * (kd.float32(by) * kd.float32(b_scales[j // BLOCK, g]))
            else:
                acc += kd.float32(part) * kd.float32(by)
            by = following
        if has_blocks:
            kd.tile.store(out, (i, j), acc)
        else:
            other = kd.float32(kd.tile.load(b_scales, (j, 0), (columns, 1)))
            kd.tile.store(out, (i, j), acc * other.T)


@kd.kernel(wraparound=False)
def unpack_words(
    words, scales, zeros, out,
    *, number, nbytes, count, vector, bits, flip, bias, height, group, has_zeros, is_scaled,
):  # fmt: skip
    """Unpack a word by a thread, to `count` words of numbers of a dtype, scaled or not.

    ``scales[n // height, c // group]`` is that of the word.
    """
    c, n = kd.blockIdx.x * THREADS + kd.threadIdx.x, kd.blockIdx.y
    if c < words.shape[1]:
        width = 4 // nbytes
        made = kd.local.array(count, kd.uint32)
        word = kd.load(words, (n, c), cache="streaming") ^ kd.uint32(flip)
        zero = kd.float32(bias)
        if has_zeros:
            zero = kd.float32(zeros[n // height, c // group])
        by = kd.float32(scales[n // height, c // group]) if is_scaled else kd.float32(1)
        for i in range(count):
            whole = kd.uint32(0)
            for j in range(width):
                code = kd.uint32(word >> kd.uint32(bits * (i * width + j))) & kd.uint32(2**bits - 1)
                # 2**23 with the code in its lowest bits
                value = kd.bitcast(kd.uint32(code | kd.uint32(0x4B000000)), kd.float32)
                value = (value - (zero + kd.float32(1 << 23))) * by
                if nbytes == 1:
                    own = kd.uint32(kd.int32(value)) & kd.uint32(255)
                elif nbytes == 2:
                    own = kd.uint32(kd.bitcast(number(value), kd.uint16))
                else:
                    own = kd.bitcast(value, kd.uint32)
                whole |= own << kd.uint32(8 * nbytes * j)
            made[i] = whole
        size = len(kd.view(made, vector)[0])
        for i in range(count // size):
            kd.view(out, vector)[n, c * (count // size) + i] = kd.view(made, vector)[i]


def multiply_many(x: Array, weights: Weights, out: Array) -> None:
    """Multiply rows by the numbers of weights, on a GPU."""
    inner, size = x.shape[1], x.dtype.itemsize
    if size == 1 and weights.format.dtype.itemsize == 1 and weights.format.numbers is None:
        _multiply_codes(x, weights, weights.words, out)
    elif size == 4 and min(x.shape[0], out.shape[1]) < MIN_SIDE:
        _multiply_floats(x, weights, out)
    else:
        rows, width = out.shape[1], -(-inner // PADDED) * PADDED
        step = MAX_BYTES // max(1, width * size) // BLOCK * BLOCK
        step = min(max(BLOCK, step), MAX_ROWS)
        for first in range(0, rows, step):
            part = slice(first, min(first + step, rows))
            _multiply_part(x, weights.part(part), width, out[:, part])


def _multiply_part(x: Array, weights: Weights, width: int, out: Array) -> None:
    """Unpack numbers, and multiply rows by them.

    Numbers of bfloat16 and float32 are scaled. For float16 the sums are: a number times its scale
    might not be one.
    """
    is_scaled = x.dtype.name in ("bfloat16", "float32")
    numbers = _unpacked(weights, x.shape[1], width, x.dtype, is_scaled=is_scaled)
    if not is_scaled:
        _multiply_codes(x, weights, numbers, out)
    elif x.dtype.itemsize == 2:
        multiply_mma(x, numbers.T, out)
    elif out.dtype == x.dtype:
        multiply_blocks(x, numbers.T, out)
    else:
        product = allocate(out, tuple(out.shape), x.dtype)
        multiply_blocks(x, numbers.T, product)
        map_call(itself, [product], [out.dtype], [out], product)


def _multiply_codes(x: Array, weights: Weights, numbers: Array, out: Array) -> None:
    """Multiply rows by numbers of the same size, and sums by scales."""
    depth, by, scales = ROW_BYTES // x.dtype.itemsize, weights.x_scales, weights.scales
    static: dict[str, Any] = {"numbers": kd.int4, "is_packed": False}
    kernel: Any = rows_of_codes
    args: tuple[Any, ...]
    if scales.shape[1] == 1 and weights.height == 1:
        is_integer = x.dtype == np.int8
        if is_integer or x.dtype.itemsize > 1:
            rows, columns, _, threads = choose_tile(tuple(out.shape), 1)[0]
        else:  # which have sums of parts along k, too
            rows, columns, threads = _group_tile(out)
        static |= {"sums": kd.int32 if is_integer else kd.float32}
        args = (x, numbers, by, scales, out)
    else:
        rows, columns, threads = _group_tile(out)
        depth = math.gcd(weights.group, depth)
        static |= weights.groups(columns)
        has_x_groups = by.shape[1] > 1
        if weights.height > 1 or not has_x_groups:
            args = (x, numbers, by, scales, out)
            if weights.height == 1:
                args = (numbers, x, scales, by, out.T)
            if rows > GROUP_TILES[-1][0] and has_tensor_cores(x, WIDE_ARCHITECTURE):
                (rows, columns, threads), depth = WIDE_TILE, math.gcd(weights.group, BLOCK)
                if weights.height > 1 and (whole := _whole_rows(out)):
                    for part in (slice(whole), slice(whole, out.shape[0])):
                        own = weights._replace(x_scales=by[part])
                        _multiply_codes(x[part], own, numbers, out[part])
                    return
            static = {"group": weights.group, "has_blocks": weights.height > 1}
            static["has_a_groups"] = has_x_groups or weights.height == 1
            kernel = scaled_groups
        else:
            static |= {"has_zeros": False, "has_x_groups": True}
            # A kernel with arguments that overlap copies no tiles early.
            none = constant_beside(x, np.zeros((1, 1), np.uint8))
            kernel, args = groups_of_codes, (x, numbers, by, scales, none, out)
    static |= {"rows": rows, "columns": columns, "depth": depth}
    launch_over(kernel, args[-1].shape, *args, block=threads, **static)


def _multiply_floats(x: Array, weights: Weights, out: Array) -> None:
    """Multiply a few rows of float32, without unpacking numbers before."""
    rows, columns, depth, threads = FLOAT_TILE
    scales, zeros, numbers = weights.scales, weights.zeros, weights.format.numbers
    static: dict[str, Any] = {"numbers": numbers or kd.int4, "is_packed": numbers is not None}
    static |= {**weights.groups(columns), "has_zeros": zeros is not None}
    static |= {"rows": rows, "columns": columns, "depth": math.gcd(weights.group, depth)}
    args = (x, weights.words, scales, scales if zeros is None else zeros, out)
    launch_over(rows_of_floats, out.shape, *args, block=threads, scales_sums=False, **static)


def _whole_rows(out: Array) -> int:
    """Return the rows of whole wide tiles, if the few that are left would take another round.

    A round is a tile of each multiprocessor. Otherwise return 0.
    """
    device: Any = out.device
    count: int = device.limits.multiprocessor_count
    whole, rest = divmod(out.shape[0], WIDE_TILE[0])
    beside = -(-out.shape[1] // WIDE_TILE[1])
    few, more = (-(-n * beside // count) for n in (whole, whole + 1))
    has_few = 0 < rest <= GROUP_TILES[-1][0] and beside < MIN_TILES  # which have small tiles
    return whole * WIDE_TILE[0] if has_few and 0 < few < more else 0


def _group_tile(out: Array) -> tuple[int, int, int]:
    """Return the largest tile that keeps all processors at work."""
    rows, columns = out.shape
    large, small = GROUP_TILES
    return large if -(-rows // large[0]) * -(-columns // large[1]) >= MIN_TILES else small


def _unpacked(
    weights: Weights, inner: int, width: int, dtype: np.dtype[Any], *, is_scaled: bool
) -> Array:
    """Return the numbers of weights, in rows that begin at multiples of 16 bytes."""
    chosen, scales, zeros = weights.format, weights.scales, weights.zeros
    packed, words = weights.as_words, weights.words
    rows = words.shape[0]
    out = allocate(words, (rows, width), dtype)
    if not inner:
        return out
    static: dict[str, Any] = {
        "has_zeros": zeros is not None,
        "height": weights.height,
        "is_scaled": is_scaled,
    }
    least = scales if zeros is None else zeros
    if packed is not None and weights.group % (32 // chosen.bits) == 0:
        count = dtype.itemsize * 8 // chosen.bits
        static |= {
            "number": dtype.type,
            "nbytes": dtype.itemsize,
            "count": count,
            "vector": kd.uint32x4 if count % 4 == 0 else kd.uint32x2,
            "bits": chosen.bits,
            "flip": chosen.flip,
            "bias": chosen.bias,
            "group": weights.group * chosen.bits // 32,
        }
        grid = (-(-packed.shape[1] // THREADS), rows)
        launch(unpack_words, grid, THREADS, packed, scales, least, out.view(np.uint32), **static)
    else:
        static |= {"numbers": chosen.numbers or kd.int4, "is_packed": chosen.numbers is not None}
        static["group"] = weights.group
        grid = (-(-inner // THREADS), rows)
        found = out[:, :inner]
        launch(dequantize_numbers, grid, THREADS, words, scales, least, found, **static)
    return out if width == inner else out[:, :inner]
