"""Softmax and its logarithm; the largest element is subtracted first to avoid overflow.

References
----------
Pierre Blanchard, Desmond J. Higham and Nicholas J. Higham, "Accurately Computing the Log-Sum-Exp
and Softmax Functions", IMA Journal of Numerical Analysis 41(4), 2021.
Maxim Milakov and Natalia Gimelshein, "Online Normalizer Calculation for Softmax", arXiv:1805.02867,
2018: the largest element and the sum in one pass.
"""

from __future__ import annotations

import math
from typing import Any

import kerneldsl as kd
from stdlib_kernels.checks import Array, Out, check_array
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.parameters import axis_of
from stdlib_kernels.rows.calls import SPACE, Kernels, apply

__all__ = ["added", "larger", "log_softmax", "softmax", "summed_down"]


def added(total: Any, e: Any, v: Any, top: Any, one: Any) -> Any:
    """Add the exponential of `v` to a sum relative to `top`; the larger of both is subtracted.

    `e` is the exponential of the distance between the two.
    """
    if v == top:  # both may be -inf
        return total + one
    return total * e + one if v > top else total + e


def larger(top: Any, v: Any) -> Any:
    """Return the larger of two numbers, or the first if the second is NaN."""
    return v if v > top else top


def summed_down(x: Any, a: Any, b: Any, number: Any) -> tuple[Any, Any]:
    """Return the largest element of a column, and the sum of exponentials relative to it."""
    top, total = number(-math.inf), number(0)
    for k in range(x.shape[1]):
        v = number(x[a, k, b])
        total = number(added(total, math.exp(-abs(v - top)), v, top, number(1)))
        top = number(larger(top, v))
    return top, total * math.exp(top - top)  # NaN, where the largest is infinite


@kd.kernel(space=SPACE)
def softmax_short(x, out, *, width, number, is_log):
    """Process a row as one tile: ``x[rows, n], out[rows, n]``."""
    row = kd.blockIdx.x
    v = kd.tile.load(x[row], 0, width, other=-math.inf, dtype=number)
    d = v - v.max()
    e = math.exp(d)
    if is_log:
        kd.tile.store(out[row], 0, d - math.log(e.sum()))
    else:
        kd.tile.store(out[row], 0, e * (number(1) / e.sum()))


@kd.kernel(space=SPACE)
def softmax_long(x, out, *, width, number, is_log):
    """Process a row tile by tile, twice, the second time from a cache: ``x[rows, n], …``."""
    row = kd.blockIdx.x
    tops, totals = kd.tile.full(width, number(-math.inf)), kd.tile.zeros(width, number)
    for at in range(0, x.shape[1], width):
        v = kd.tile.load(x[row], at, width, other=-math.inf, dtype=number)
        totals = totals.map(added, math.exp(-abs(v - tops)), v, tops, number(1))
        tops = tops.map(larger, v)
    top = tops.max()
    total = (totals * math.exp(tops - top)).sum()
    for at in range(0, x.shape[1], width):
        d = kd.tile.load(x[row], at, width, dtype=number) - top
        if is_log:
            kd.tile.store(out[row], at, d - math.log(total))
        else:
            kd.tile.store(out[row], at, math.exp(d) * (number(1) / total))


@kd.kernel(wraparound=False)
def softmax_columns(x, out, *, number, is_log):
    """Process a column in each thread: ``x[a, n, b], out[a, n, b]``."""
    strips = (x.shape[2] + kd.blockDim.x - 1) // kd.blockDim.x
    a = kd.blockIdx.x // strips
    b = kd.blockIdx.x % strips * kd.blockDim.x + kd.threadIdx.x
    if b < x.shape[2]:
        top, total = summed_down(x, a, b, number)
        for k in range(x.shape[1]):
            d = number(x[a, k, b]) - top
            out[a, k, b] = d - math.log(total) if is_log else math.exp(d) / total


_KERNELS = Kernels(softmax_short, softmax_long, softmax_columns)


def _of_rows(name: str, said: str, limits: str, example: tuple[str, str], *, is_log: bool) -> Any:
    """Return the softmax, or its logarithm."""

    def exponentials(x: Array, axis: int = -1, *, out: Out = None) -> Any:
        check_array("x", x, kinds="biuf", halves=True)
        return apply(_KERNELS, x, axis_of(axis, x.ndim or 1), out, is_log=is_log)

    exponentials.__name__ = exponentials.__qualname__ = name
    exponentials.__doc__ = f"""{said}.

    Parameters
    ----------
    x : array
        bool, integer or float; any rank and layout.
    axis : int
        The axis of the elements of a row.
    out : array, optional
        Array for the result, with the same shape and kind as `x` and the result's dtype. It may be
        `x`.

    Returns
    -------
    array
        Same shape and kind as `x`. float64 for booleans and integers, else the dtype of `x`.
        float16 and bfloat16 are computed as float32. `out` if it is given.{limits}

    See Also
    --------
    scipy.special.{name}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.rows import {name}
    >>> {name}(np.array({example[0]})).tolist()
    {example[1]}
    """
    return repeated_function(exponentials)


softmax = _of_rows(
    "softmax",
    "Divide the exponentials of the elements by their sum along an axis",
    " A row that contains NaN\n        or inf, or only -inf, becomes NaN.",
    ("[[0.0, 0.0], [1.0, -np.inf]]", "[[0.5, 0.5], [1.0, 0.0]]"),
    is_log=False,
)
log_softmax = _of_rows(
    "log_softmax",
    "Compute the logarithm of `softmax` along an axis; it is finite even if `softmax` underflows",
    "",
    ("[0.0, -1000.0]", "[0.0, -1000.0]"),
    is_log=True,
)
