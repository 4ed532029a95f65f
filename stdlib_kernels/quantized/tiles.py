"""Products of many rows by quantized numbers, by tiles: their kernels, and how a CPU runs them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import host_threads, launch
from stdlib_kernels.checks import Array
from stdlib_kernels.quantized.weights import Weights

__all__ = ["groups_of_codes", "multiply_tiles", "rows_of_codes", "rows_of_floats"]

#: Rows and columns of a tile of the result, extents along k, and threads of a block. A tile has all
#: rows up to the first number, since its columns are unpacked once.
TILES = ((1024, 128, 512, 128), (1024, 32, 512, 128))


@kd.kernel(wraparound=False)
def rows_of_codes(
    x, words, x_scales, scales, out,
    *, numbers, is_packed, sums, rows, columns, depth,
):  # fmt: skip
    """Multiply ``x[m, k]`` by ``words[n, k]``, and sums by a scale of each row of both."""
    for m, n in kd.tiles(out.shape, (rows, columns)):
        acc = kd.tile.zeros((rows, columns), sums)
        for k in kd.pipelined(range(0, x.shape[1], depth)):
            codes = kd.packed(words, numbers) if is_packed else words
            y = kd.tile.load(codes, (n, k), (columns, depth))
            acc = kd.mma(kd.tile.load(x, (m, k), (rows, depth)), y.T, acc)
        by = kd.tile.load(x_scales, (m, 0), (rows, 1))
        scale = kd.float32(kd.tile.load(scales, (n, 0), (columns, 1)))
        kd.tile.store(out, (m, n), kd.float32(acc) * (by * scale.T))


@kd.kernel(wraparound=False)
def groups_of_codes(
    x, words, x_scales, scales, zeros, out,
    *, numbers, is_packed, has_zeros, has_x_groups, height, share, group, rows, columns, depth,
):  # fmt: skip
    """Multiply as `rows_of_codes`, with scales of groups along k; their sums are float32.

    `height` rows of numbers have the same scale, and a tile `share` different ones.
    """
    for m, n in kd.tiles(out.shape, (rows, columns)):
        acc = kd.tile.zeros((rows, columns), kd.float32)
        for k in kd.pipelined(range(0, x.shape[1], depth)):
            codes = kd.packed(words, numbers) if is_packed else words
            y = kd.tile.load(codes, (n, k), (columns, depth))
            left = kd.tile.load(x, (m, k), (rows, depth))
            if has_zeros:
                less = kd.tile.load(zeros, (n // height, k // group), (share, 1))
                part = kd.mma(left, kd.int8(kd.int32(y) - kd.int32(less)).T, promote=None)
            else:
                part = kd.mma(left, y.T, promote=None)
            row, g = n // height, k // group
            if share > 1:
                scale = kd.float32(kd.tile.load(scales, (row, g), (share, 1))).T
            else:
                scale = kd.float32(scales[row, g])
            if has_x_groups:
                acc += kd.float32(part) * (kd.tile.load(x_scales, (m, g), (rows, 1)) * scale)
            else:
                acc += kd.float32(part) * scale
        if has_x_groups:
            kd.tile.store(out, (m, n), acc)
        else:
            kd.tile.store(out, (m, n), acc * kd.tile.load(x_scales, (m, 0), (rows, 1)))


@kd.kernel(wraparound=False)
def rows_of_floats(
    x, words, scales, zeros, out,
    *, numbers, is_packed, has_zeros, scales_sums, height, share, group, rows, columns, depth,
):  # fmt: skip
    """Multiply ``x[m, k]`` by numbers that become floats of its dtype, scaled in groups along k.

    The sums are scaled if the dtype is float16: a number times its scale might not be one.
    """
    for m, n in kd.tiles(out.shape, (rows, columns)):
        acc = kd.tile.zeros((rows, columns), kd.float32)
        for k in kd.pipelined(range(0, x.shape[1], depth)):
            codes = kd.packed(words, numbers) if is_packed else words
            y = kd.float32(kd.tile.load(codes, (n, k), (columns, depth)))
            row, g = n // height, k // group
            if has_zeros:
                y = y - kd.float32(kd.tile.load(zeros, (row, g), (share, 1)))
            scale = kd.float32(kd.tile.load(scales, (row, g), (share, 1)))
            left = kd.tile.load(x, (m, k), (rows, depth))
            if scales_sums:
                acc += kd.mma(left, y.astype(x.dtype).T) * scale.T
            else:
                acc = kd.mma(left, (y * scale).astype(x.dtype).T, acc)
        kd.tile.store(out, (m, n), acc)


def multiply_tiles(x: Array, weights: Weights, out: Array) -> None:
    """Multiply rows by the numbers of weights, on a CPU."""
    chosen, by, height = weights.format, weights.x_scales, weights.height
    rows, columns, depth, threads = _tile(out, height if height > 1 else None)
    static: dict[str, Any] = {
        "numbers": chosen.numbers or kd.int4,  # any, if numbers are not packed
        "is_packed": chosen.numbers is not None,
        "rows": rows,
        "columns": columns,
        "depth": math.gcd(weights.group, depth),
    }
    has_zeros = weights.zeros is not None
    groups = weights.groups(columns) | {"has_zeros": has_zeros}
    kernel: Any
    args: tuple[Any, ...]
    common = (x, weights.words)
    scales = (weights.scales, weights.zeros if has_zeros else weights.scales)
    if x.dtype.itemsize > 1:
        kernel, args = rows_of_floats, (*common, *scales, out)
        static |= {**groups, "scales_sums": x.dtype == np.float16}
    elif has_zeros or height > 1 or weights.scales.shape[1] > 1:
        kernel, args = groups_of_codes, (*common, by, *scales, out)
        static |= {**groups, "has_x_groups": by.shape[1] > 1}
    else:
        kernel, args = rows_of_codes, (*common, by, weights.scales, out)
        static["sums"] = kd.float32 if chosen.is_float else kd.int32
    launch(kernel, _count(out, rows, columns), threads, *args, **static)


def _tile(out: Array, most: int | None) -> tuple[int, int, int, int]:
    """Return the largest tile that keeps all threads at work, of at most so many columns."""
    wanted, height = 2 * host_threads(), -(-out.shape[0] // 8) * 8
    fitting = [
        (min(tile[0], height), *tile[1:]) for tile in TILES if most is None or tile[1] <= most
    ]
    large = (tile for tile in fitting if _count(out, *tile[:2]) >= wanted)
    return next(large, fitting[-1])


def _count(out: Array, height: int, width: int) -> int:
    """Return the number of tiles of a product."""
    rows, columns = out.shape
    return -(-rows // height) * -(-columns // width)
