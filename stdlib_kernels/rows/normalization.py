"""Rows of mean 0 and variance 1, or of mean square 1, scaled and shifted.

References
----------
Jimmy Lei Ba, Jamie Ryan Kiros and Geoffrey E. Hinton, "Layer Normalization",
arXiv:1607.06450, 2016.
Biao Zhang and Rico Sennrich, "Root Mean Square Layer Normalization", NeurIPS 2019.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentValueError
from stdlib_kernels.arrays import (
    Array,
    allocate,
    check_array,
    check_same_kind,
    computing_dtype,
    on_device,
)
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.parameters import number_of
from stdlib_kernels.rows.calls import Kernels, apply, checked_axis, result_dtype

__all__ = ["layer_norm", "rms_norm"]


def _plain(v: Any, i: Any, scale: Any, weight: Any, bias: Any, at: Any) -> Any:
    return v * scale


def _scaled(v: Any, i: Any, scale: Any, weight: Any, bias: Any, at: Any) -> Any:
    return v * scale * weight[at + i]


def _shifted(v: Any, i: Any, scale: Any, weight: Any, bias: Any, at: Any) -> Any:
    return v * scale + bias[at + i]


def _affine(v: Any, i: Any, scale: Any, weight: Any, bias: Any, at: Any) -> Any:
    return v * scale * weight[at + i] + bias[at + i]


def _centred(v: Any, i: Any, mean: Any, n: Any) -> Any:
    """Take the mean off the elements of the row, and leave the zeros behind it."""
    return v - mean if i < n else v


@kd.kernel
def normalize_short(x, out, weight, bias, count, eps, *, width, number, is_centred, form):
    """Take a row as one tile: ``x[rows, n], out[rows, n], weight[n], bias[n]``."""
    row = kd.blockIdx.x
    v = kd.tile.load(x[row], 0, width, dtype=number)
    if is_centred:
        v = v.map(_centred, kd.tile.arange(width), v.sum() / count, x.shape[1])
    scale = number(1) / math.sqrt((v * v).sum() / count + eps)
    kd.tile.store(out[row], 0, v, form, scale, weight, bias, 0)


@kd.kernel
def normalize_long(x, out, weight, bias, count, eps, *, width, number, is_centred, form):
    """Take a row tile by tile, up to three times: ``x[rows, n], out[rows, n], …``."""
    row = kd.blockIdx.x
    mean, square = number(0), number(0)
    if is_centred:
        for at in range(0, x.shape[1], width):
            mean += kd.tile.load(x[row], at, width, dtype=number).sum() / count
    for at in range(0, x.shape[1], width):
        v = kd.tile.load(x[row], at, width, dtype=number)
        d = v.map(_centred, kd.tile.arange(width), mean, x.shape[1] - at)
        square += (d * d).sum()
    scale = number(1) / math.sqrt(square / count + eps)
    for at in range(0, x.shape[1], width):
        d = kd.tile.load(x[row], at, width, dtype=number) - mean
        kd.tile.store(out[row], at, d, form, scale, weight, bias, at)


@kd.kernel(wraparound=False)
def normalize_columns(x, out, weight, bias, count, eps, *, number, is_centred, form):
    """Take a column by a thread: ``x[a, n, b], out[a, n, b], weight[n], bias[n]``."""
    strips = (x.shape[2] + kd.blockDim.x - 1) // kd.blockDim.x
    a = kd.blockIdx.x // strips
    b = kd.blockIdx.x % strips * kd.blockDim.x + kd.threadIdx.x
    if b < x.shape[2]:
        mean, square = number(0), number(0)
        if is_centred:
            for k in range(x.shape[1]):
                mean += number(x[a, k, b])
            mean /= count
        for k in range(x.shape[1]):
            d = number(x[a, k, b]) - mean
            square += d * d
        scale = number(1) / math.sqrt(square / count + eps)
        for k in range(x.shape[1]):
            out[a, k, b] = form(number(x[a, k, b]) - mean, k, scale, weight, bias, 0)


_KERNELS = Kernels(normalize_short, normalize_long, normalize_columns)


@repeated_function
def layer_norm(
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    *,
    axis: int = -1,
    eps: float = 1e-5,
    out: Array | None = None,
) -> Any:
    """Give the elements along an axis mean 0 and variance 1, then scale and shift them.

    {parameters of rows}
    {weight}
    bias : array of shape (n,), optional
        What is added to them then; zeros by default.
    eps : float
        What is added to the variance.

    {rows}
        It is ``(x - mean) / sqrt(variance + eps) * weight + bias``.

    {raises}

    {see: torch.nn.functional.layer_norm}

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
    out: Array | None = None,
) -> Any:
    """Give the elements along an axis a mean square of 1, then scale them.

    {parameters of rows}
    {weight}
    eps : float, optional
        What is added to the mean square; by default the distance from 1 to the next number of the
        dtype that is computed in.

    {rows}
        It is ``x / sqrt(mean(x * x) + eps) * weight``.

    {raises}

    {see: torch.nn.functional.rms_norm}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.rows import rms_norm
    >>> rms_norm(np.array([5.0, 5.0]), eps=0).tolist()
    [1.0, 1.0]
    """
    return _normalize(x, weight, None, axis, eps, out, is_centred=False)


def _normalize(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    axis: int,
    eps: float | None,
    out: Array | None,
    *,
    is_centred: bool,
) -> Any:
    along = checked_axis(x, axis)
    number = computing_dtype(result_dtype(x))
    count = x.shape[along]
    found = [_factor("weight", weight, x, count), _factor("bias", bias, x, count)]
    none = allocate(on_device(x[:0] if x.ndim else x), (1,), number)
    form = {
        (False, False): _plain,
        (True, False): _scaled,
        (False, True): _shifted,
        (True, True): _affine,
    }[found[0] is not None, found[1] is not None]
    factors = [none if each is None else each for each in found]
    added = np.finfo(number).eps if eps is None else number_of("eps", eps)
    numbers = (number.type(count), number.type(added))
    return apply(_KERNELS, x, along, out, *factors, *numbers, is_centred=is_centred, form=form)


def _factor(name: str, array: Array | None, x: Array, count: int) -> Array | None:
    """Check weights or shifts, and bring them to where kernels can reach them."""
    if array is None:
        return None
    check_array(name, array, kinds="biuf", halves=True, ndim=1)
    check_same_kind(name, array, "x", x)
    if array.shape[0] != count:
        raise ArgumentValueError(
            f"{name} has {array.shape[0]} elements, and the axis {count}",
            value=tuple(array.shape),
            limit="There is one for each element along the axis",
            remedy="Name the axis that it belongs to, or take as many elements of it",
        )
    return on_device(array)
