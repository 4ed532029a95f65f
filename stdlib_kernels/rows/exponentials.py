"""Softmax and its logarithm, with the largest element taken off first so that nothing overflows.

References
----------
Pierre Blanchard, Desmond J. Higham and Nicholas J. Higham, "Accurately Computing the Log-Sum-Exp
and Softmax Functions", IMA Journal of Numerical Analysis 41(4), 2021.
"""

from __future__ import annotations

import math
from typing import Any

import kerneldsl as kd
from stdlib_kernels.arrays import Array
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.rows.calls import Kernels, apply, checked_axis

__all__ = ["log_softmax", "softmax"]


@kd.kernel
def softmax_short(x, out, *, width, number, is_log):
    """Take a row as one tile: ``x[rows, n], out[rows, n]``."""
    row = kd.blockIdx.x
    v = kd.tile.load(x[row], 0, width, other=-math.inf, dtype=number)
    d = v - v.max()
    e = math.exp(d)
    if is_log:
        kd.tile.store(out[row], 0, d - math.log(e.sum()))
    else:
        kd.tile.store(out[row], 0, e * (number(1) / e.sum()))


@kd.kernel
def softmax_long(x, out, *, width, number, is_log):
    """Take a row tile by tile, three times: ``x[rows, n], out[rows, n]``."""
    row = kd.blockIdx.x
    top, total = number(-math.inf), number(0)
    for at in range(0, x.shape[1], width):
        v = kd.tile.load(x[row], at, width, other=-math.inf, dtype=number)
        top = max(top, v.max())
    for at in range(0, x.shape[1], width):
        v = kd.tile.load(x[row], at, width, other=-math.inf, dtype=number)
        total += math.exp(v - top).sum()
    for at in range(0, x.shape[1], width):
        d = kd.tile.load(x[row], at, width, dtype=number) - top
        if is_log:
            kd.tile.store(out[row], at, d - math.log(total))
        else:
            kd.tile.store(out[row], at, math.exp(d) * (number(1) / total))


@kd.kernel(wraparound=False)
def softmax_columns(x, out, *, number, is_log):
    """Take a column by a thread: ``x[a, n, b], out[a, n, b]``."""
    strips = (x.shape[2] + kd.blockDim.x - 1) // kd.blockDim.x
    a = kd.blockIdx.x // strips
    b = kd.blockIdx.x % strips * kd.blockDim.x + kd.threadIdx.x
    if b < x.shape[2]:
        top, total = number(-math.inf), number(0)
        for k in range(x.shape[1]):
            top = max(top, number(x[a, k, b]))
        for k in range(x.shape[1]):
            total += math.exp(number(x[a, k, b]) - top)
        for k in range(x.shape[1]):
            d = number(x[a, k, b]) - top
            out[a, k, b] = d - math.log(total) if is_log else math.exp(d) / total


_KERNELS = Kernels(softmax_short, softmax_long, softmax_columns)


@repeated_function
def softmax(x: Array, axis: int = -1, *, out: Array | None = None) -> Any:
    """Divide the exponentials of the elements by their sum along an axis.

    {parameters of rows}

    {rows}
        A row with a NaN, an inf, or nothing but -inf becomes NaN.

    {raises}

    {see: scipy.special.softmax}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.rows import softmax
    >>> softmax(np.array([[0.0, 0.0], [1.0, -np.inf]])).tolist()
    [[0.5, 0.5], [1.0, 0.0]]
    """
    return apply(_KERNELS, x, checked_axis(x, axis), out, is_log=False)


@repeated_function
def log_softmax(x: Array, axis: int = -1, *, out: Array | None = None) -> Any:
    """Compute the logarithm of `softmax` along an axis, which is finite where that underflows.

    {parameters of rows}

    {rows}

    {raises}

    {see: scipy.special.log_softmax}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.rows import log_softmax
    >>> log_softmax(np.array([0.0, -1000.0])).tolist()
    [0.0, -1000.0]
    """
    return apply(_KERNELS, x, checked_axis(x, axis), out, is_log=True)
