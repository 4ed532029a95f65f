"""Products with quantized numbers: arguments, results, and the choice of a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from stdlib_kernels.arrays import constant_beside, finish, is_on_host, on_device, source_and_result
from stdlib_kernels.checks import Array, Out, check_array, check_same_kind
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.movement.along import repeated
from stdlib_kernels.parameters import wrong_value
from stdlib_kernels.quantized.by_warps import fits_warps, multiply_by_warps
from stdlib_kernels.quantized.few_rows import fits_planes, multiply_planes
from stdlib_kernels.quantized.formats import FORMATS, Format, check_words, format_of
from stdlib_kernels.quantized.many_rows import multiply_many
from stdlib_kernels.quantized.tiles import multiply_tiles
from stdlib_kernels.quantized.vectors import fits_vectors, multiply_vectors
from stdlib_kernels.quantized.weights import (
    FLOATS,
    Weights,
    check_scales,
    check_zeros,
    fitting_group,
    float_dtype_of,
    of_each_row,
)

__all__ = ["matmul"]


@repeated_function
def matmul(
    x: Array,
    words: Array,
    scales: Array,
    zeros: Array | None = None,
    *,
    format: str,
    x_scales: Array | None = None,
    dtype: Any = None,
    out: Out = None,
) -> Any:
    """Multiply rows by the rows of a quantized matrix: ``x @ w.T``.

    The matrix is ``w = (numbers - zeros) * scales``, where a scale is for a row, or for a part of
    it, as `quantize` returns them.

    Parameters
    ----------
    x : ndarray or device array of shape (m, k)
        For formats of integers float32, float16 or bfloat16: numbers become floats of this dtype.
        Or int8, and for formats of 8-bit floats those alone. Then products are added exactly, or as
        float32, and the sums are multiplied by scales. A sum that int32 may not hold is one of
        exact parts.
    words : array of shape (n, elements)
        Numbers of a format, as `pack` returns them.
    scales : array of float32 or float16, of shape (rows, groups)
        `rows` is n, 1 for all, or one for each 128. `groups` is 1 for all k, the number of equal
        parts of k, each a multiple of 16, or one for each 128.
    zeros : array of uint8 of the same shape, optional
        The numbers that mean 0, from 0 to 15, for the format "uint4"; by default 0.
    format : str
        One of those of `quantize`.
    x_scales : array of float32, of shape (rows, groups), optional
        Scales of `x`, for numbers of 8 bits; by default 1. `groups` is 1 or that of `scales`.
    dtype : dtype, optional
        float32, float16 or bfloat16; by default that of `x` if it is one of these, else float32.
    out : array of shape (m, n), optional
        Array for the product, with its dtype.

    Returns
    -------
    array of shape (m, n)
        Same kind as `x`; `out` if it is given.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        If the format is unknown, or an array has another dtype or shape.

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels import quantized
    >>> w = np.array([[0.5, -0.5, 0.0, 0.5], [0.25, 0.0, 0.25, -0.25]], np.float32)
    >>> words, scales, _ = quantized.quantize(w, "ternary")
    >>> x = np.array([[1, 2, 3, 4]], np.float32)
    >>> quantized.matmul(x, words, scales, format="ternary").round(3).tolist()
    [[1.125, 0.0]]
    """
    chosen = format_of(format)
    _check_factors(x, words, chosen)
    (rows, inner), columns = x.shape, words.shape[0]
    height, group = check_scales("scales", scales, (columns, inner), x)
    groups = scales.shape[1]
    check_zeros(zeros, scales, chosen)
    if x_scales is None:
        x_scales = constant_beside(x, np.ones((rows, 1), np.float32))
    else:
        check_scales("x_scales", x_scales, (rows, inner), x)
        _check_x_scales(x, x_scales, groups)
    wanted = float_dtype_of(dtype, x.dtype if x.dtype.name in FLOATS else None)
    words, scales, x_scales = on_device(words), on_device(scales), on_device(x_scales)
    zeros = None if zeros is None else on_device(zeros)
    inputs = [each for each in (words, scales, x_scales, zeros) if each is not None]
    source, result = source_and_result(x, out, (rows, columns), wanted, *inputs)
    own = fitting_group(group, inner, chosen) if x.dtype == np.int8 else group
    if own != group:
        parts, group = -(-min(group, inner) // own), own
        scales = repeated(scales, 1, parts)
        zeros = None if zeros is None else repeated(zeros, 1, parts)
        x_scales = repeated(x_scales, 1, parts) if x_scales.shape[1] > 1 else x_scales
    if rows and columns:
        weights = Weights(
            chosen,
            words,
            of_each_row(scales, columns),
            None if zeros is None else of_each_row(zeros, columns),
            of_each_row(x_scales, rows),
            height,
            group,
        )
        multiply = multiply_tiles if is_on_host(result) else multiply_many
        is_for_vectors = fits_vectors(source, weights)
        if is_for_vectors and (is_on_host(result) or source.dtype.itemsize != 2):
            multiply = multiply_vectors
        elif not is_on_host(result) and fits_warps(source, weights):
            multiply = multiply_by_warps
        elif not is_on_host(result) and fits_planes(source, weights):
            multiply = multiply_planes
        elif is_for_vectors:
            multiply = multiply_vectors
        multiply(source, weights, result)
    return finish(result, like=x, out=out)


def _check_factors(x: Array, words: Array, chosen: Format) -> None:
    """Refuse factors of dtypes that are not multiplied, or of shapes that do not fit."""
    name = chosen.name
    if chosen.is_float:
        taken: tuple[str, ...] = tuple(each for each in FORMATS if FORMATS[each].is_float)
        floats = "x" if str(getattr(x, "dtype", "")) in FLOATS else "x.astype(np.float32)"
        remedy = (
            f"Pass words and scales of quantized.quantize({floats}, {name!r}) as x and x_scales"
        )
    else:
        taken, remedy = (*FLOATS, "int8"), ""
    check_array("x", x, dtypes=taken, ndim=2, dtype_remedy=remedy)
    check_words(words, chosen, 2)
    check_same_kind("words", words, "x", x)
    wanted = chosen.elements(x.shape[1])
    if words.shape[1] != wanted:
        limit = f"A row of {x.shape[1]} numbers of {name!r}, as many as x has columns, is packed "
        limit += f"in {wanted} elements"
        remedy = f"Pack rows of that length: quantized.pack(numbers, {name!r})"
        raise wrong_value("the shape of words", tuple(words.shape), limit, remedy)


def _check_x_scales(x: Array, x_scales: Array, groups: int) -> None:
    """Refuse scales of floats, or of other groups than those of the weights."""
    if x.dtype.itemsize > 1:
        limit = "x_scales was given, and scales are for numbers of 8 bits"
        raise wrong_value("the dtype of x", str(x.dtype), limit, "Omit it, or quantize x")
    count, found = x_scales.shape
    if count not in (1, x.shape[0]) or found not in (1, groups):
        limit = f"It must have 1 row or {x.shape[0]}, and 1 group or the {groups} of scales"
        remedy = "Quantize x in the same groups"
        raise wrong_value("the shape of x_scales", (count, found), limit, remedy)
