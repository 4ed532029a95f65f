"""Rows of mean 0 and variance 1, or of mean square 1, scaled and shifted.

References
----------
Jimmy Lei Ba, Jamie Ryan Kiros and Geoffrey E. Hinton, "Layer Normalization",
arXiv:1607.06450, 2016.
B. P. Welford, "Note on a Method for Calculating Corrected Sums of Squares and Products",
Technometrics 4 (1962): mean and variance of a column in one pass.
Biao Zhang and Rico Sennrich, "Root Mean Square Layer Normalization", NeurIPS 2019.
"""

from __future__ import annotations

import math
from typing import Any

import kerneldsl as kd
from stdlib_kernels.checks import Array, Out, checked_axis
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.parameters import computing_dtype, floating_dtype
from stdlib_kernels.rows.calls import SPACE, Kernels, added_of, apply, factor_of, tile_of

__all__ = ["layer_norm", "rms_norm"]

#: The function of an element, with and without weights and shifts.
_FORMS = {
    (False, False): lambda v, i, scale, weight, bias, at: v * scale,
    (True, False): lambda v, i, scale, weight, bias, at: v * scale * weight[at + i],
    (False, True): lambda v, i, scale, weight, bias, at: v * scale + bias[at + i],
    (True, True): lambda v, i, scale, weight, bias, at: v * scale * weight[at + i] + bias[at + i],
}


def _centred(v: Any, i: Any, mean: Any, n: Any) -> Any:
    return v - mean


def _centred_within(v: Any, i: Any, mean: Any, n: Any) -> Any:
    """Subtract the mean from the elements of the row, but not from the zeros after it."""
    return v - mean if i < n else v


@kd.kernel(space=SPACE, wraparound=False)
def normalize_short(x, out, weight, bias, count, eps, *, width, number, is_centred, centre, form):
    """Process a row as one tile: ``x[rows, n], out[rows, n], weight[n], bias[n]``."""
    row = kd.blockIdx.x
    v = kd.tile.load(x[row], 0, width, dtype=number)
    if is_centred:
        v = v.map(centre, kd.tile.arange(width), v.sum() / count, x.shape[1])
    scale = number(1) / math.sqrt((v * v).sum() / count + eps)
    kd.tile.store(out[row], 0, v, form, scale, weight, bias, 0)


@kd.kernel(space=SPACE, wraparound=False)
def normalize_long(x, out, weight, bias, count, eps, *, width, number, is_centred, centre, form):
    """Process a row tile by tile, twice, the second time from a cache: ``x[rows, n], …``.

    Distances are from the mean of the first tile. So the correction of the sum of their squares is
    at most ``n / width`` times the variance.
    """
    row, near = kd.blockIdx.x, number(0)
    total, square = kd.tile.zeros(width, number), kd.tile.zeros(width, number)
    if is_centred:
        near = kd.tile.load(x[row], 0, width, dtype=number).sum() / number(width)
    for at in range(0, x.shape[1], width):
        d = kd.tile.load(x[row], at, width, dtype=number)
        if is_centred:
            d = d.map(centre, kd.tile.arange(width), near, x.shape[1] - at)
            total = total + d
        square = square + d * d
    rest = total.sum() / count
    scale = number(1) / math.sqrt(max(square.sum() / count - rest * rest, number(0)) + eps)
    for at in range(0, x.shape[1], width):
        d = kd.tile.load(x[row], at, width, dtype=number) - near - rest
        kd.tile.store(out[row], at, d, form, scale, weight, bias, at)


@kd.kernel(wraparound=False)
def normalize_columns(x, out, weight, bias, count, eps, *, number, is_centred, centre, form):
    """Process a column in each thread: ``x[a, n, b], out[a, n, b], weight[n], bias[n]``."""
    strips = (x.shape[2] + kd.blockDim.x - 1) // kd.blockDim.x
    a = kd.blockIdx.x // strips
    b = kd.blockIdx.x % strips * kd.blockDim.x + kd.threadIdx.x
    if b < x.shape[2]:
        first, mean, square = number(0), number(0), number(0)
        if is_centred:
            first = number(x[a, 0, b])
        for k in range(x.shape[1]):
            v = number(x[a, k, b]) - first
            d = v - mean
            if is_centred:
                mean += d / number(k + 1)
            square += d * (v - mean)
        scale = number(1) / math.sqrt(square / count + eps)
        for k in range(x.shape[1]):
            v = centre(number(x[a, k, b]) - first, k, mean, x.shape[1])
            out[a, k, b] = form(v, k, scale, weight, bias, 0)


_KERNELS = Kernels(normalize_short, normalize_long, normalize_columns)


@repeated_function
def layer_norm(
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    *,
    axis: int = -1,
    eps: float = 1e-5,
    out: Out = None,
) -> Any:
    """Normalize the elements along an axis to mean 0 and variance 1, then scale and shift them.

    Parameters
    ----------
    x : array
        bool, integer or float; any rank and layout.
    axis : int
        The axis of the elements of a row.
    out : array, optional
        Array for the result, with the same shape and kind as `x` and the result's dtype. It may be
        `x`.
    weight : array of shape (n,), optional
        Factors of the n elements along the axis; by default ones. Same kind as `x`.
    bias : array of shape (n,), optional
        Numbers added to the scaled elements; by default zeros.
    eps : float
        A number added to the variance.

    Returns
    -------
    array
        Same shape and kind as `x`. float64 for booleans and integers, else the dtype of `x`.
        float16 and bfloat16 are computed as float32. `out` if it is given. The result is ``(x -
        mean) / sqrt(variance + eps) * weight + bias``.

    See Also
    --------
    torch.nn.functional.layer_norm

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.rows import layer_norm
    >>> layer_norm(np.array([[1.0, 3.0], [4.0, 0.0]]), eps=0).tolist()
    [[-1.0, 1.0], [1.0, -1.0]]
    """
    return _normalize(x, weight, bias, axis, eps, out, is_centred=True)


@repeated_function
def rms_norm(
    x: Array,
    weight: Array | None = None,
    *,
    axis: int = -1,
    eps: float | None = None,
    out: Out = None,
) -> Any:
    """Normalize the elements along an axis to a mean square of 1, then scale them.

    Parameters
    ----------
    x : array
        bool, integer or float; any rank and layout.
    axis : int
        The axis of the elements of a row.
    out : array, optional
        Array for the result, with the same shape and kind as `x` and the result's dtype. It may be
        `x`.
    weight : array of shape (n,), optional
        Factors of the n elements along the axis; by default ones. Same kind as `x`.
    eps : float, optional
        A number added to the mean square; by default the distance from 1 to the next number in the
        dtype of the computation.

    Returns
    -------
    array
        Same shape and kind as `x`. float64 for booleans and integers, else the dtype of `x`.
        float16 and bfloat16 are computed as float32. `out` if it is given. The result is ``x /
        sqrt(mean(x * x) + eps) * weight``.

    See Also
    --------
    torch.nn.functional.rms_norm

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.rows import rms_norm
    >>> rms_norm(np.array([5.0, 5.0]), eps=0).tolist()
    [1.0, 1.0]
    """
    return _normalize(x, weight, None, axis, eps, out, is_centred=False)


def _normalize(
    x: Array, weight: Any, bias: Any, axis: int, eps: float | None, out: Out, *, is_centred: bool
) -> Any:
    along = checked_axis(x, axis)
    number = computing_dtype(floating_dtype(x.dtype))
    factors = factor_of("weight", weight, x, along), factor_of("bias", bias, x, along)
    numbers = (number.type(x.shape[along]), added_of(eps, number))
    how = {
        "is_centred": is_centred,
        "centre": _centred if tile_of(x.shape[along]) == x.shape[along] else _centred_within,
        "form": _FORMS[weight is not None, bias is not None],
    }
    return apply(_KERNELS, x, along, out, *factors, *numbers, **how)
