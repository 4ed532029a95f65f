"""Cross-entropy of rows of scores and the correct classes, and its gradient.

The logarithm of the sum of exponentials is formed as in :mod:`stdlib_kernels.rows.exponentials`,
and only one element of a softmax is needed, so none is stored.
"""

from __future__ import annotations

import math
from typing import Any

import kerneldsl as kd
from stdlib_kernels.arrays import around_axis, finish, on_device, source_and_result
from stdlib_kernels.checks import (
    Array,
    Out,
    check_alike,
    check_array,
    check_same_kind,
    check_shape,
    checked_axis,
)
from stdlib_kernels.functions import library_function, repeated_function
from stdlib_kernels.parameters import computing_dtype, floating_dtype, integer_of
from stdlib_kernels.rows.calls import GRADIENT_BLOCK, SPACE, Kernels, gradient, launch_rows
from stdlib_kernels.rows.exponentials import added, larger, summed_down

__all__ = ["cross_entropy", "cross_entropy_backward"]


def _loss(row: Any, label: Any, top: Any, total: Any, ignored: Any, number: Any) -> Any:
    """Return the loss of a row from its largest element and its sum of exponentials."""
    if label == ignored:
        return number(0)
    if label < 0 or label >= row.size:
        return number(math.nan)
    return number(math.log(total) + (top - number(row[label])))


@kd.kernel(space=SPACE, wraparound=False)
def loss_short(x, out, labels, ignored, *, width, number):
    """Process a row as one tile: ``x[rows, n], out[rows, 1], labels[rows, 1]``."""
    row = kd.blockIdx.x
    v = kd.tile.load(x[row], 0, width, other=-math.inf, dtype=number)
    top = v.max()
    total = math.exp(v - top).sum()
    if kd.threadIdx.x == 0:
        out[row, 0] = _loss(x[row], labels[row, 0], top, total, ignored, number)


@kd.kernel(space=SPACE, wraparound=False)
def loss_long(x, out, labels, ignored, *, width, number):
    """Process a row tile by tile: ``x[rows, n], out[rows, 1], labels[rows, 1]``."""
    row = kd.blockIdx.x
    tops, totals = kd.tile.full(width, number(-math.inf)), kd.tile.zeros(width, number)
    for at in range(0, x.shape[1], width):
        v = kd.tile.load(x[row], at, width, other=-math.inf, dtype=number)
        totals = totals.map(added, math.exp(-abs(v - tops)), v, tops, number(1))
        tops = tops.map(larger, v)
    top = tops.max()
    total = (totals * math.exp(tops - top)).sum()
    if kd.threadIdx.x == 0:
        out[row, 0] = _loss(x[row], labels[row, 0], top, total, ignored, number)


@kd.kernel(wraparound=False)
def loss_columns(x, out, labels, ignored, *, number):
    """Process a column in each thread: ``x[a, n, b], out[a, 1, b], labels[a, 1, b]``."""
    strips = (x.shape[2] + kd.blockDim.x - 1) // kd.blockDim.x
    a = kd.blockIdx.x // strips
    b = kd.blockIdx.x % strips * kd.blockDim.x + kd.threadIdx.x
    if b < x.shape[2]:
        top, total = summed_down(x, a, b, number)
        out[a, 0, b] = _loss(x[a, :, b], labels[a, 0, b], top, total, ignored, number)


_KERNELS = Kernels(loss_short, loss_long, loss_columns)


@kd.kernel(wraparound=False)
def of_loss(grad, labels, x, out, ignored, *, number):
    """Subtract 1 from a row's softmax at the label: ``x, out[a, n, b], grad[a, 1, b]``."""
    i, k = kd.blockIdx.x // x.shape[2], kd.blockIdx.x % x.shape[2]
    label = labels[i, 0, k]
    scale = number(grad[i, 0, k])
    top, total = number(-math.inf), number(0)
    for j in range(kd.threadIdx.x, x.shape[1], GRADIENT_BLOCK):
        top = number(larger(top, number(x[i, j, k])))
    # NaN counts as the largest of its row: comparisons ignore it, and the sum is NaN anyway.
    top = kd.block.max(top)
    for j in range(kd.threadIdx.x, x.shape[1], GRADIENT_BLOCK):
        total = number(total + math.exp(number(x[i, j, k]) - top))
    total = kd.block.sum(total)
    if label != ignored and (label < 0 or label >= x.shape[1]):
        scale = number(math.nan)
    for j in range(kd.threadIdx.x, x.shape[1], GRADIENT_BLOCK):
        p = math.exp(number(x[i, j, k]) - top) / total
        d = p - number(1) if j == label else p
        out[i, j, k] = number(0) if label == ignored else scale * d


@repeated_function
def cross_entropy(
    x: Array, labels: Array, axis: int = -1, *, ignore_index: int = -100, out: Out = None
) -> Any:
    """Compute the negative logarithm of the softmax of each row at its label.

    Parameters
    ----------
    x : array
        The scores of the classes: booleans, integers or floats. Any layout.
    labels : array
        The index of the correct class in each row: integers, with the shape of `x` without the
        axis. Same kind as `x`.
    axis : int
        The axis of the classes.
    ignore_index : int
        Rows with this label are ignored: their loss is 0.
    out : array, optional
        Array for the result, with the shape of the labels and its dtype. Same kind as `x`.

    Returns
    -------
    array
        The shape of the labels, and the same kind as `x`. float64 for booleans and integers, else
        the dtype of `x`. float16 and bfloat16 are computed as float32. The result is NaN if a label
        is not an index of the axis, or if the row contains NaN or inf.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        If `x` or `labels` is not an array of such a dtype, or the shapes do not fit.

    See Also
    --------
    torch.nn.functional.cross_entropy : with ``reduction="none"``.

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.rows import cross_entropy
    >>> cross_entropy(np.array([[0.0, 0.0], [0.0, -np.inf]]), np.array([1, 0])).round(3).tolist()
    [0.693, 0.0]
    """
    along, ignored = _checked(x, labels, axis, ignore_index)
    dtype = floating_dtype(x.dtype)
    source, result = source_and_result(x, out, tuple(labels.shape), dtype, labels)
    if labels.size:
        taken = around_axis(source, along)
        arrays = (_flat(result, x, along), _flat(on_device(labels), x, along))
        launch_rows(_KERNELS, taken, *arrays, ignored, number=computing_dtype(dtype).type)
    return finish(result, like=x, out=out)


@library_function
def cross_entropy_backward(
    grad: Array, x: Array, labels: Array, axis: int = -1, *, ignore_index: int = -100
) -> Any:
    """Return the gradient of `cross_entropy` with respect to the scores.

    Parameters
    ----------
    grad : array
        The gradient with respect to the result: float32, float64, float16 or bfloat16. Any layout.
    x : array
        The scores of the classes: booleans, integers or floats. Any layout.
    labels : array
        The index of the correct class in each row: integers, with the shape of `x` without the
        axis. Same kind as `x`.
    axis : int
        The axis of the classes.
    ignore_index : int
        Rows with this label are ignored: their loss is 0.

    Returns
    -------
    array
        ``grad * (softmax(x) - onehot)``, where onehot is 1 at each row's label; 0 for ignored rows.
        Same shape, dtype and kind as `x`.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        If the arrays do not fit, or the axis does not exist.

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.rows import cross_entropy_backward
    >>> cross_entropy_backward(np.array([1.0]), np.array([[0.0, 0.0]]), np.array([1])).tolist()
    [[0.5, -0.5]]
    """
    check_array("x", x, kinds="f", halves=True)
    along, ignored = _checked(x, labels, axis, ignore_index)
    check_array("grad", grad, dtypes=(x.dtype.name,))
    check_alike("grad", grad, "labels", labels)
    before = tuple(_flat(on_device(each), x, along) for each in (grad, labels))
    return gradient(of_loss, before, x, along, ignored)


def _checked(x: Any, labels: Any, axis: Any, ignore_index: Any) -> tuple[int, int]:
    """Check the scores, the labels and the ignored label."""
    along = checked_axis(x, axis)
    check_array("labels", labels, kinds="iu")
    check_same_kind("labels", labels, "x", x)
    shape = (*x.shape[:along], *x.shape[along + 1 :])
    check_shape("labels", labels, shape, f"There must be one for each row of x: {shape}")
    return along, integer_of("ignore_index", ignore_index, -(2**63), 2**63 - 1)


def _flat(array: Array, x: Array, axis: int) -> Array:
    """Return one element for each row of `x` as ``[before, 1, after]``."""
    return around_axis(array.reshape((*x.shape[:axis], 1, *x.shape[axis + 1 :])), axis)
