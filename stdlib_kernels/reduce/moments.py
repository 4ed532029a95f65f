"""Variance and standard deviation, in one pass over memory.

A kernel computes the mean of each part and the sum of squared distances from it. These pairs are
then combined. A thread takes elements, one or several at a time, as distances from the mean of its
previous ones. Numbers far from 0 lose no digits: all are taken relative to the first one of their
row or column. Only the error of a mean is subtracted from a sum of squares.

References
----------
T. F. Chan, G. H. Golub and R. J. LeVeque, "Algorithms for Computing the Sample Variance: Analysis
and Recommendations", The American Statistician 37 (1983): the corrected two-pass algorithm.

T. F. Chan, G. H. Golub and R. J. LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing
Sample Variances", Stanford University, STAN-CS-79-773, 1979: how pairs are combined, and elements
added to one.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch
from stdlib_kernels.checks import Array, Out, check_array
from stdlib_kernels.copying import itself
from stdlib_kernels.elementwise.calls import Number
from stdlib_kernels.functions import repeated_function, warn
from stdlib_kernels.operations import abs_squared, add
from stdlib_kernels.parameters import (
    computing_dtype,
    dtype_of,
    floating_dtype,
    number_of,
    real_dtype,
)
from stdlib_kernels.reduce.arrangement import Kernels
from stdlib_kernels.reduce.folding import Axis, begin
from stdlib_kernels.reduce.masking import is_masked, masked_spread

__all__ = ["std", "var"]

#: Elements that a thread adds to its mean at a time.
BATCH = 16
#: Elements of a row's part at most: a GPU's last blocks are over sooner.
LARGEST_PART = 1 << 15
#: Threads that combine parts of a row or column, and most parts; for more, WIDEST_BLOCK threads do.
COMBINING_BLOCK, MANY_PARTS = 64, 4096
#: Threads of the widest block. Each has BATCH elements of a row in registers, so 1024 do not fit.
WIDEST_BLOCK = 512


def _corrected(square: Any, rest: Any, count: Any) -> Any:
    """Return a sum of squared distances without what the rounding of the mean has added.

    `rest` is the sum of the distances, which is 0 for the exact mean.
    """
    return max(square - abs_squared(rest) / count, square * 0)


def _with_one(distance: Any, count: Any, mean: Any, square: Any, size: Any) -> Any:
    """Return count, mean and squares with one more number, at a distance from the mean."""
    count += size(1)
    mean += distance / count
    return count, mean, square + _corrected(abs_squared(distance), distance, count)


@kd.kernel(wraparound=False, launch_bounds=WIDEST_BLOCK)
def moments_of_rows(x, means, squares, chunk, divisor, *, to_number, zero, size, finish, is_whole):
    """Describe each part of each row: ``x[a, b, n]``, and ``[a, b, parts]`` of both others.

    Means are counted from the row's first element; of a whole row none is left.
    """
    t, a, b = kd.threadIdx.x, kd.blockIdx.x // means.shape[1], kd.blockIdx.x % means.shape[1]
    first = kd.blockIdx.y * chunk
    last = min(first + chunk, x.shape[2])
    step = BATCH * kd.blockDim.x
    whole = first + (last - first) // step * step
    origin = to_number(x[a, b, 0])
    mean = to_number(x[a, b, min(first + t, last - 1)]) - origin
    if whole > first:
        # An element that is far from the others would cost a thread that begins with it its digits.
        for k in range(1, BATCH):
            mean += to_number(x[a, b, first + t + k * kd.blockDim.x]) - origin
        mean = mean / size(BATCH)
    count, square = size(0), zero.real
    for at in range(first, whole, step):
        # After n elements, the mean moves by rest / (n + BATCH), and so do all of them.
        rest, added = zero, zero.real
        for k in range(BATCH):
            distance = to_number(x[a, b, at + k * kd.blockDim.x + t]) - origin - mean
            rest += distance
            added += abs_squared(distance)
        count += size(BATCH)
        mean += rest / count
        square += _corrected(added, rest, count)
    end = whole + (last - whole) // kd.blockDim.x * kd.blockDim.x
    for at in range(whole, end, kd.blockDim.x):
        distance = to_number(x[a, b, at + t]) - origin - mean
        count, mean, square = _with_one(distance, count, mean, square, size)
    if end + t < last:
        distance = to_number(x[a, b, end + t]) - origin - mean
        count, mean, square = _with_one(distance, count, mean, square, size)
    total = size(last - first)
    middle = to_number(kd.block.reduce(mean * count, add) / total)
    distance = mean - middle
    rest = kd.block.reduce(distance * count, add)
    square = kd.block.sum(square + abs_squared(distance) * count)
    if t == 0:
        if not is_whole:
            means[a, b, kd.blockIdx.y] = middle + rest / total
        squares[a, b, kd.blockIdx.y] = finish(_corrected(square, rest, total) / divisor)


@kd.kernel(wraparound=False)
def moments_of_columns(
    x, means, squares, chunk, divisor, *, to_number, zero, size, finish, is_whole
):
    """Describe each part of each column: ``x[a, n, b]``, and ``[a, parts, b]`` of both others.

    Means are counted from the column's first element; of a whole column none is left.
    """
    strips = (x.shape[2] + kd.blockDim.x - 1) // kd.blockDim.x
    a, part = kd.blockIdx.x // strips, kd.blockIdx.y
    b = kd.blockIdx.x % strips * kd.blockDim.x + kd.threadIdx.x
    if b < x.shape[2]:
        origin = to_number(x[a, 0, b])
        mean = to_number(x[a, part * chunk, b]) - origin
        count, square = size(0), zero.real
        for k in range(part * chunk, min(part * chunk + chunk, x.shape[1])):
            distance = to_number(x[a, k, b]) - origin - mean
            count, mean, square = _with_one(distance, count, mean, square, size)
        if not is_whole:
            means[a, part, b] = mean
        squares[a, part, b] = finish(square / divisor)


@kd.kernel(wraparound=False)
def combine_moments(means, squares, out, chunk, count, divisor, *, zero, size, finish):
    """Combine the parts of each row: ``means[a, b, parts], squares[a, b, parts], out[a, b]``."""
    a, b = kd.blockIdx.x // out.shape[1], kd.blockIdx.x % out.shape[1]
    total, rest, square = zero, zero, zero.real
    for k in range(kd.threadIdx.x, means.shape[2], kd.blockDim.x):
        total += means[a, b, k] * size(min(chunk, count - k * chunk))
    mean = kd.block.reduce(total, add) / size(count)
    for k in range(kd.threadIdx.x, means.shape[2], kd.blockDim.x):
        distance, each = means[a, b, k] - mean, size(min(chunk, count - k * chunk))
        rest += distance * each
        square += squares[a, b, k] + abs_squared(distance) * each
    rest, square = kd.block.reduce(rest, add), kd.block.sum(square)
    if kd.threadIdx.x == 0:
        out[a, b] = finish(_corrected(square, rest, size(count)) / divisor)


def _root(v: Any) -> Any:
    return math.sqrt(v)


def _spread(name: str, said: str, what: str, finish: Any, example: str) -> Any:
    """Return the function that computes a variance, and what `finish` makes of it."""

    def spread(
        x: Array,
        axis: Axis = None,
        dtype: Any = None,
        out: Out = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        correction: float | None = None,
        where: Array | Number = True,
    ) -> Any:
        check_array("x", x, halves=True)
        dtype = dtype_of(dtype, floating_dtype(x.dtype))
        computing = computing_dtype(dtype)
        real = real_dtype(computing)
        ddof = number_of("ddof", ddof if correction is None else correction)
        if is_masked(where):
            is_root = finish is _root
            return masked_spread(x, where, axis, dtype, out, keepdims, ddof=ddof, is_root=is_root)
        call = begin(x, axis, real if dtype.kind == "c" else dtype, out, keepdims)
        divisor = real.type(max(call.count - ddof, 0))
        if divisor <= 0:
            warn("Degrees of freedom <= 0 for slice")
        if not call.result.size:
            return call.deliver()
        if not call.count:
            call.result.fill(np.nan)
            return call.deliver()
        arrangement = replace(call.arrangement, largest_part=LARGEST_PART)
        is_whole, static = arrangement.parts == 1, {"zero": computing.type(0), "size": real.type}
        squares = call.result if is_whole else arrangement.allocate(real)
        means = squares if is_whole else arrangement.allocate(computing)
        outputs = (means, squares, arrangement.chunk, divisor if is_whole else real.type(1))
        of_parts = {"to_number": computing.type, "finish": finish if is_whole else itself}
        kernels = Kernels(moments_of_rows, moments_of_columns, WIDEST_BLOCK)
        arrangement.launch(kernels, *outputs, is_whole=is_whole, **of_parts, **static)
        if not is_whole:
            if not arrangement.by_rows:
                means, squares = means.transpose((0, 2, 1)), squares.transpose((0, 2, 1))
            arrays = (means, squares, call.result.reshape(arrangement.kept))
            numbers = (arrangement.chunk, call.count, divisor)
            block = WIDEST_BLOCK if arrangement.parts > MANY_PARTS else COMBINING_BLOCK
            grid = math.prod(arrangement.kept)
            launch(combine_moments, grid, block, *arrays, *numbers, finish=finish, **static)
        return call.deliver()

    spread.__name__ = spread.__qualname__ = name
    spread.__doc__ = f"""Compute the {said}, of all or along axes.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    axis : int or tuple of int, optional
        The axes to reduce; by default all.
    out : array, optional
        Array for the result, with the result's shape and dtype and the same kind as `x`.
    keepdims : bool
        Whether the result keeps the reduced axes, with an extent of 1.
    dtype : dtype, optional
        Dtype of the computation. By default float64 for booleans and integers, and the dtype of the
        array for others. The result has this dtype, or that of its real part.
    ddof : float
        The divisor is the number of elements minus `ddof`.
    correction : float, optional
        The array API's name for `ddof`.
    where : bool array, optional
        Selects elements; by default all. Same kind as `x`, and broadcast against `x`.

    Returns
    -------
    NumPy scalar or array, or device array
        Same kind as `x`; `out` if it is given.
        It is {what} of ``abs(x - mean(x)) ** 2``.
        float16 and bfloat16 are computed as float32.

    Warns
    -----
    RuntimeWarning
        Where the divisor is not above 0; the result is NaN or infinite then.

    See Also
    --------
    numpy.{name}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.reduce import {name}
    >>> {name}(np.array([[1, 3], [2, 8]]), axis=1).tolist()
    {example}
    """
    return repeated_function(spread)


var = _spread("var", "variance of the elements of an array", "the mean", itself, "[1.0, 9.0]")
_OF_VARIANCE = "standard deviation, the square root of the variance"
std = _spread("std", _OF_VARIANCE, "the root of the mean", _root, "[1.0, 3.0]")
