"""Products of many rows by quantized numbers, by tiles."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch, launch_over
from stdlib_kernels.arrays import is_on_host
from stdlib_kernels.checks import Array
from stdlib_kernels.quantized.weights import Weights

__all__ = ["multiply_tiles"]

#: Rows and columns of a tile of the result, extents along k, and threads of a block. On a CPU a
#: tile has all rows up to the first number, since its columns are unpacked once. On a GPU a
#: thread has registers for 64 sums of a tile and as many of a group.
HOST_TILES = ((1024, 128, 512, 128), (1024, 32, 512, 128))
DEVICE_TILES = ((128, 128, 64, 256), (64, 64, 64, 128))
#: Fewest tiles that keep a large GPU at work.
MIN_TILES = 96


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
    x, words, x_scales, scales, zeros, out, x_step,
    *, numbers, is_packed, has_zeros, height, share, group, rows, columns, depth,
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
                part = kd.mma(left, kd.int8(kd.int32(y) - kd.int32(less)).T)
            else:
                part = kd.mma(left, y.T)
            by = kd.tile.load(x_scales, (m, k // group * x_step), (rows, 1))
            scale = kd.float32(kd.tile.load(scales, (n // height, k // group), (share, 1)))
            acc += kd.float32(part) * (by * scale.T)
        kd.tile.store(out, (m, n), acc)


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
    """Multiply rows by the numbers of weights."""
    host, chosen, by = is_on_host(out), weights.format, weights.x_scales
    is_packed, height = chosen.numbers is not None, weights.height
    rows, columns, depth, threads = _tile(out, host=host, most=height if height > 1 else None)
    static: dict[str, Any] = {
        "numbers": chosen.numbers or kd.int4,  # any, if numbers are not packed
        "is_packed": is_packed,
        "rows": rows,
        "columns": columns,
        "depth": math.gcd(weights.group, depth),
    }
    groups: dict[str, Any] = {
        "group": weights.group,
        "height": height,
        "share": columns if height == 1 else 1,
    }
    kernel: Any
    args: tuple[Any, ...]
    common = (x, weights.words)
    has_zeros = weights.zeros is not None
    scales = (weights.scales, weights.zeros if has_zeros else weights.scales)
    groups["has_zeros"] = has_zeros
    if x.dtype.itemsize > 1:
        kernel, args = rows_of_floats, (*common, *scales, out)
        static |= {**groups, "scales_sums": x.dtype == np.float16}
    elif has_zeros or height > 1 or weights.scales.shape[1] > 1:
        kernel, args = groups_of_codes, (*common, by, *scales, out, int(by.shape[1] > 1))
        static |= groups
    else:
        kernel, args = rows_of_codes, (*common, by, weights.scales, out)
        static["sums"] = kd.float32 if chosen.is_float else kd.int32
    if host:
        launch(kernel, _count(out, rows, columns), threads, *args, **static)
    else:  # as many blocks as run at once, each of which loads its next tile early
        launch_over(kernel, out.shape, *args, block=threads, **static)


def _tile(out: Array, *, host: bool, most: int | None) -> tuple[int, int, int, int]:
    """Return the largest tile that keeps all processors at work, of at most so many columns."""
    wanted = 2 * (os.cpu_count() or 1) if host else MIN_TILES
    height = -(-out.shape[0] // 8) * 8
    fitting = [
        (min(tile[0], height) if host else tile[0], *tile[1:])
        for tile in (HOST_TILES if host else DEVICE_TILES)
        if most is None or tile[1] <= most
    ]
    large = (tile for tile in fitting if _count(out, *tile[:2]) >= wanted)
    return next(large, fitting[-1])


def _count(out: Array, height: int, width: int) -> int:
    """Return the number of tiles of a product."""
    rows, columns = out.shape
    return -(-rows // height) * -(-columns // width)
