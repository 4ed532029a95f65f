"""Variance and standard deviation, in one pass over memory.

Of each part a kernel makes the mean and the sum of squared distances from it, for which it reads
the part twice, the second time from a cache. These pairs are then combined. Numbers far from 0 lose
no digits: all are counted from the first of their row or column, and what is subtracted from a sum
of squares is what rounding the mean has added to it, and no more.

References
----------
T. F. Chan, G. H. Golub and R. J. LeVeque, "Algorithms for Computing the Sample Variance: Analysis
and Recommendations", The American Statistician 37 (1983): the corrected two-pass algorithm.

T. F. Chan, G. H. Golub and R. J. LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing
Sample Variances", Stanford University, STAN-CS-79-773, 1979: how pairs are combined.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import kerneldsl as kd
from stdlib_kernels.arrays import Array, check_array, computing_dtype
from stdlib_kernels.functions import repeated_function, warn
from stdlib_kernels.parameters import dtype_of, number_of
from stdlib_kernels.reduce.arrangement import Kernels
from stdlib_kernels.reduce.calls import Axis, begin
from stdlib_kernels.reduce.folding import add
from stdlib_kernels.repeating import launch, launch_over

__all__ = ["std", "var"]

#: Threads that combine the parts of one row or column.
COMBINING_BLOCK = 64


def _squared(d: Any) -> Any:
    """Return the square of a real or complex number's size."""
    return d.real * d.real + d.imag * d.imag


def _corrected(square: Any, rest: Any, count: Any) -> Any:
    """Return a sum of squared distances without what the rounding of the mean has added.

    `rest` is the sum of the distances, which is 0 for the exact mean.
    """
    return max(square - _squared(rest) / count, square * 0)


@kd.kernel(wraparound=False)
def moments_of_rows(x, means, squares, chunk, *, number, zero, size):
    """Describe each part of each row: ``x[a, b, n]``, and ``[a, b, parts]`` of both others.

    Means are counted from the row's first element.
    """
    t, a, b = kd.threadIdx.x, kd.blockIdx.x // means.shape[1], kd.blockIdx.x % means.shape[1]
    first = kd.blockIdx.y * chunk
    last = min(first + chunk, x.shape[2])
    whole = first + (last - first) // kd.blockDim.x * kd.blockDim.x
    origin = number(x[a, b, 0])
    total, rest, square = zero, zero, zero.real
    for at in range(first, whole, kd.blockDim.x):
        total += number(x[a, b, at + t]) - origin
    if whole + t < last:
        total += number(x[a, b, whole + t]) - origin
    mean = number(kd.block.reduce(total, add) / size(last - first))
    for at in range(first, whole, kd.blockDim.x):
        distance = number(x[a, b, at + t]) - origin - mean
        rest += distance
        square += _squared(distance)
    if whole + t < last:
        distance = number(x[a, b, whole + t]) - origin - mean
        rest += distance
        square += _squared(distance)
    rest, square = kd.block.reduce(rest, add), kd.block.sum(square)
    if t == 0:
        means[a, b, kd.blockIdx.y] = mean + rest / size(last - first)
        squares[a, b, kd.blockIdx.y] = _corrected(square, rest, size(last - first))


@kd.kernel(wraparound=False)
def moments_of_columns(x, means, squares, chunk, *, number, zero, size):
    """Describe each part of each column: ``x[a, n, b]``, and ``[a, parts, b]`` of both others.

    Means are counted from the column's first element.
    """
    strips = (x.shape[2] + kd.blockDim.x - 1) // kd.blockDim.x
    a, part = kd.blockIdx.x // strips, kd.blockIdx.y
    b = kd.blockIdx.x % strips * kd.blockDim.x + kd.threadIdx.x
    first = part * chunk
    last = min(first + chunk, x.shape[1])
    if b < x.shape[2]:
        origin = number(x[a, 0, b])
        total, rest, square = zero, zero, zero.real
        for k in range(first, last):
            total += number(x[a, k, b]) - origin
        mean = number(total / size(last - first))
        for k in range(first, last):
            distance = number(x[a, k, b]) - origin - mean
            rest += distance
            square += _squared(distance)
        means[a, part, b] = mean + rest / size(last - first)
        squares[a, part, b] = _corrected(square, rest, size(last - first))


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
        square += squares[a, b, k] + _squared(distance) * each
    rest, square = kd.block.reduce(rest, add), kd.block.sum(square)
    if kd.threadIdx.x == 0:
        out[a, b] = finish(_corrected(square, rest, size(count)) / divisor)


@kd.kernel(wraparound=False)
def divide(squares, divisor, out, *, finish):
    """Make variances of the parts that are whole: ``squares[a, b], out[a, b]``."""
    i, j = kd.grid(2)
    out[i, j] = finish(squares[i, j] / divisor)


def _itself(v: Any) -> Any:
    return v


def _root(v: Any) -> Any:
    return math.sqrt(v)


@repeated_function
def var(
    x: Array,
    axis: Axis = None,
    *,
    dtype: Any = None,
    out: Array | None = None,
    ddof: float = 0,
    keepdims: bool = False,
    correction: float | None = None,
) -> Any:
    """Compute the variance of the elements of an array, of all or along axes.

    {parameters of a spread}

    {reduced}
        It is the mean of ``abs(x - mean(x)) ** 2``; float16 and bfloat16 are computed as float32.

    {raises}

    Warns
    -----
    RuntimeWarning
        Where the divisor is not above 0; the result is NaN or infinite then.

    {see: numpy.var}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.reduce import var
    >>> var(np.array([[1, 3], [2, 8]]), axis=1).tolist()
    [1.0, 9.0]
    """
    ddof = ddof if correction is None else correction
    return _spread(x, axis, dtype, out, ddof, keepdims, _itself)


@repeated_function
def std(
    x: Array,
    axis: Axis = None,
    *,
    dtype: Any = None,
    out: Array | None = None,
    ddof: float = 0,
    keepdims: bool = False,
    correction: float | None = None,
) -> Any:
    """Compute the standard deviation, the square root of the variance, of all or along axes.

    {parameters of a spread}

    {reduced}

    {raises}

    {see: numpy.std}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.reduce import std
    >>> float(std(np.array([1.0, 3.0])))
    1.0
    """
    ddof = ddof if correction is None else correction
    return _spread(x, axis, dtype, out, ddof, keepdims, _root)


def _spread(
    x: Array, axis: Axis, dtype: Any, out: Array | None, ddof: float, keepdims: bool, finish: Any
) -> Any:
    check_array("x", x, halves=True)
    given = dtype_of(dtype, np.float64 if x.dtype.kind in "biu" else x.dtype)
    number = computing_dtype(given)
    real = np.empty(0, number).real.dtype
    call = begin(x, axis, real if given.kind == "c" else given, out=out, keepdims=keepdims)
    divisor = real.type(max(call.count - number_of("ddof", ddof), 0))
    if divisor <= 0:
        warn("Degrees of freedom <= 0 for slice")
    if call.is_void:
        return call.deliver()
    if not call.count:
        call.result.fill(np.nan)
        return call.deliver()
    cut, zero = call.arrangement, number.type(0)
    means, squares = cut.allocate(number), cut.allocate(real)
    kernels = Kernels(moments_of_rows, moments_of_columns)
    cut.launch(kernels, means, squares, cut.chunk, number=number.type, zero=zero, size=real.type)
    whole = call.result.reshape(cut.kept)
    if cut.parts == 1:
        squares = squares.reshape(cut.kept)
        launch_over(divide, cut.kept, squares, divisor, whole, finish=finish)
        return call.deliver()
    if not cut.by_rows:
        means, squares = means.transpose((0, 2, 1)), squares.transpose((0, 2, 1))
    rows, numbers = math.prod(cut.kept), (cut.chunk, call.count, divisor)
    arrays, how = (means, squares, whole), {"zero": zero, "size": real.type, "finish": finish}
    launch(combine_moments, rows, COMBINING_BLOCK, *arrays, *numbers, **how)
    return call.deliver()
