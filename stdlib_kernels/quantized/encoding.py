"""Quantize arrays in rows, groups or blocks, and the way back."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch
from stdlib_kernels.arrays import allocate, finish, on_device
from stdlib_kernels.checks import Array, check_array
from stdlib_kernels.functions import library_function
from stdlib_kernels.parameters import integer_of, integers_of, wrong_value
from stdlib_kernels.quantized.formats import check_words, format_of, pack
from stdlib_kernels.quantized.weights import (
    FLOATS,
    check_scales,
    check_zeros,
    float_dtype_of,
    of_each_row,
    scales_of,
)

__all__ = ["Quantized", "dequantize", "quantize"]

#: Threads of a block, which quantizes a group.
THREADS = 128
#: Rules for the scale of a group of numbers.
ABSMAX, ABSMEAN, RANGE = range(3)


class Quantized(NamedTuple):
    """Packed numbers, their scales, and the numbers that mean 0."""

    words: Any
    scales: Any
    zeros: Any = None


@kd.kernel(wraparound=False)
def quantize_groups(
    x, codes, scales, zeros, height, width, *, threads, method, largest, smallest, is_float
):  # fmt: skip
    """Quantize a group by a block: `height` rows and `width` columns of them."""
    top, left = kd.blockIdx.y * height, kd.blockIdx.x * width
    bottom, right = min(top + height, x.shape[0]), min(left + width, x.shape[1])
    low = high = kd.float32(0)
    total = kd.float64(0)
    has_nan = False
    for i in range(top, bottom):
        for j in range(left + kd.threadIdx.x, right, threads):
            v = kd.float32(x[i, j])
            low, high = min(low, v), max(high, v)
            total += abs(v)
            has_nan = has_nan or math.isnan(v)
    low, high = kd.block.min(low), kd.block.max(high)
    total = kd.block.sum(total)
    has_nan = kd.block.any(has_nan)
    if method == ABSMEAN:
        scale = kd.float32(total / ((bottom - top) * (right - left)))
    elif method == RANGE:
        scale = (high - low) / kd.float32(largest)
        if math.isinf(scale):
            scale = high / kd.float32(largest) - low / kd.float32(largest)
    else:
        scale = max(high, -low) / kd.float32(largest)
    zero = kd.float32(0)
    if method == RANGE and scale > 0:
        zero = kd.float32(round(-low / scale))
    for i in range(top, bottom):
        for j in range(left + kd.threadIdx.x, right, threads):
            v = kd.float32(x[i, j]) / scale if scale > 0 else kd.float32(0)
            if is_float:  # which are rounded when they are stored
                codes[i, j] = v
            else:
                v = kd.float32(round(v)) + zero
                codes[i, j] = int(max(kd.float32(smallest), min(v, kd.float32(largest))))
    if kd.threadIdx.x == 0:
        scales[kd.blockIdx.y, kd.blockIdx.x] = kd.float32(math.nan) if has_nan else scale
        if method == RANGE:
            zeros[kd.blockIdx.y, kd.blockIdx.x] = int(zero)


@kd.kernel(wraparound=False)
def dequantize_numbers(
    words, scales, zeros, out, *, numbers, is_packed, has_zeros, is_scaled, height, group
):  # fmt: skip
    """Write numbers, multiplied by their scales or not."""
    j, i = kd.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        codes = kd.packed(words, numbers) if is_packed else words
        value, row, g = kd.float32(codes[i, j]), i // height, j // group
        if has_zeros:
            value -= kd.float32(zeros[row, g])
        if is_scaled:
            value *= kd.float32(scales[row, g])
        out[i, j] = value


@library_function
def quantize(x: Array, format: str, group: Any = None) -> Any:
    """Quantize a matrix: in rows, in groups of a row, or in blocks.

    A scale is the largest absolute value of a group divided by the largest number of the format.
    For "ternary" it is the mean absolute value. For "uint4" it is the extent of the values and 0,
    divided by 15, and a group has a number that means 0. Values are rounded to the nearest number,
    halves to even ones.

    Parameters
    ----------
    x : ndarray or device array of shape (n, k)
        float32, float16 or bfloat16.
    format : str
        "int8", "int4", "uint4", "ternary", "float8_e4m3fn" or "float8_e5m2".
    group : int or (int, int), optional
        Columns of a group, or its rows and columns. By default, a row. A group has one row, 128
        rows or all. Its columns are all, or an equal part of them that is a multiple of 16. If
        that many groups cannot be equal parts, they may be of 128 columns, the last of fewer.

    Returns
    -------
    words : array of shape (n, elements)
        Numbers as `pack` returns them. Same kind as `x`.
    scales : array of float32, of shape (rows, groups)
        A group with NaN has the scale NaN. If a scale is infinite or 0, the numbers mean 0.
    zeros : array of uint8, of the same shape
        None for formats other than "uint4".

    Raises
    ------
    kerneldsl.errors.ArgumentError
        If `x` is not a matrix of floats, or the format or the group is not valid.

    References
    ----------
    S. Ma et al., "The Era of 1-bit LLMs: All Large Language Models are in 1.58 Bits" (2024):
    ternary numbers with the mean absolute value as scale.

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels import quantized
    >>> words, scales, _ = quantized.quantize(np.array([[1.0, -2.0, 0.5]], np.float32), "int8")
    >>> words.tolist(), scales.tolist() == [[np.float32(2 / 127)]]
    ([[64, -127, 32]], True)
    """
    chosen = format_of(format)
    check_array("x", x, dtypes=FLOATS, ndim=2)
    rows, columns = x.shape
    extents = (1, columns) if group is None else integers_of("group", group, 1)
    height, width = (1, *extents)[-2:]
    if len(extents) > 2:
        raise wrong_value("group", group, "It must be an int, or (rows, columns)")
    height, width = max(height, 1), max(width, 1)
    shape = scales_of((height, width), (rows, columns), chosen)
    source = on_device(x)
    scales = allocate(source, shape, np.dtype(np.float32), zero=True)
    codes = allocate(source, (rows, columns), chosen.dtype, zero=True)
    zeros = allocate(source, shape, np.dtype(np.uint8), zero=True) if chosen.has_zeros else None
    if rows and columns:
        method = RANGE if chosen.has_zeros else ABSMEAN if chosen.largest == 1 else ABSMAX
        static = {"threads": THREADS, "method": method, "largest": chosen.largest}
        static |= {"smallest": chosen.smallest, "is_float": chosen.is_float}
        args = (source, codes, scales, scales if zeros is None else zeros, height, width)
        launch(quantize_groups, shape[::-1], THREADS, *args, **static)
    words = pack(finish(codes, like=x), format)
    found = None if zeros is None else finish(zeros, like=x)
    return Quantized(words, finish(scales, like=x), found)


@library_function
def dequantize(
    words: Array,
    scales: Array,
    zeros: Array | None = None,
    *,
    format: str,
    count: int | None = None,
    dtype: Any = None,
) -> Any:
    """Return the values of quantized numbers: ``(numbers - zeros) * scales``.

    Parameters
    ----------
    words : ndarray or device array of shape (n, elements)
        Numbers, as `pack` returns them.
    scales : array of float32 or float16, of shape (rows, groups)
        As for `matmul`.
    zeros : array of uint8 of the same shape, optional
        The numbers that mean 0, for the format "uint4"; by default 0.
    format : str
        One of those of `quantize`.
    count : int, optional
        Numbers of a row; by default all that words have room for.
    dtype : dtype, optional
        float32, float16 or bfloat16; float32 by default.

    Returns
    -------
    array of shape (n, count)
        Same kind as `words`.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        If the format is unknown, or an array has another dtype or shape.

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels import quantized
    >>> x = np.array([[1.0, -3.0, 2.0, 0.0]], np.float32)
    >>> quantized.dequantize(*quantized.quantize(x, "uint4"), format="uint4", count=4).tolist()
    [[1.0, -3.0, 2.0, 0.0]]
    """
    chosen = format_of(format)
    check_words(words, chosen, 2)
    room = words.shape[1] * chosen.per_element
    inner = room if count is None else integer_of("count", count, 0, room)
    wanted = float_dtype_of(dtype)
    height, group = check_scales("scales", scales, (words.shape[0], inner), words)
    check_zeros(zeros, scales, chosen)
    source = on_device(words)
    out = allocate(source, (words.shape[0], inner), wanted)
    if all(out.shape):
        each = [on_device(of_each_row(a, out.shape[0])) for a in (scales, zeros) if a is not None]
        static = {"numbers": chosen.numbers or kd.int4, "is_packed": chosen.numbers is not None}
        static |= {"has_zeros": zeros is not None, "height": height, "group": group}
        static["is_scaled"] = True
        grid = (-(-inner // THREADS), out.shape[0])
        launch(dequantize_numbers, grid, THREADS, source, each[0], each[-1], out, **static)
    return finish(out, like=words)
