"""Gradients of the functions of rows.

Each returns the gradient with respect to the input, from the gradient with respect to the result.

References: those of :mod:`stdlib_kernels.rows.normalization`.
"""

from __future__ import annotations

import math
from typing import Any

import kerneldsl as kd
from stdlib_kernels import elementwise, reduce
from stdlib_kernels.arrays import around_axis, on_device
from stdlib_kernels.checks import Array, check_alike, check_array
from stdlib_kernels.functions import library_function
from stdlib_kernels.operations import multiply
from stdlib_kernels.parameters import axis_of, computing_dtype
from stdlib_kernels.rows.calls import GRADIENT_BLOCK, added_of, factor_of, gradient
from stdlib_kernels.rows.normalization import layer_norm, rms_norm

__all__ = ["layer_norm_backward", "log_softmax_backward", "rms_norm_backward", "softmax_backward"]


@kd.kernel(wraparound=False)
def of_softmax(grad, y, out, *, number, is_log):
    """Subtract the common part of a row's elements: ``grad, y, out[a, n, b]``."""
    i, k = kd.blockIdx.x // y.shape[2], kd.blockIdx.x % y.shape[2]
    total = number(0)
    for j in range(kd.threadIdx.x, y.shape[1], GRADIENT_BLOCK):
        g, v = number(grad[i, j, k]), number(y[i, j, k])
        total = number(total + (g if is_log else g * v))
    common = kd.block.sum(total)
    for j in range(kd.threadIdx.x, y.shape[1], GRADIENT_BLOCK):
        g, v = number(grad[i, j, k]), number(y[i, j, k])
        out[i, j, k] = g - math.exp(v) * common if is_log else v * (g - common)


@kd.kernel(wraparound=False)
def of_norm(grad, weight, x, out, eps, *, number, is_centred, is_weighted):
    """Compute the sums of a row one after the other: ``grad, x, out[a, n, b], weight[n]``."""
    i, k = kd.blockIdx.x // x.shape[2], kd.blockIdx.x % x.shape[2]
    n = number(x.shape[1])
    mean, square, first, second = number(0), number(0), number(0), number(0)
    if is_centred:
        total = number(0)
        for j in range(kd.threadIdx.x, x.shape[1], GRADIENT_BLOCK):
            total = number(total + number(x[i, j, k]))
        mean = kd.block.sum(total) / n
    for j in range(kd.threadIdx.x, x.shape[1], GRADIENT_BLOCK):
        d, g = number(x[i, j, k]) - mean, number(grad[i, j, k])
        if is_weighted:
            g = g * number(weight[j])
        square, first, second = square + d * d, first + g, second + g * d
    scale = number(1) / math.sqrt(kd.block.sum(square) / n + eps)
    by_mean = number(0)
    if is_centred:
        by_mean = kd.block.sum(first) / n
    by_scale = kd.block.sum(second) / n * scale * scale
    for j in range(kd.threadIdx.x, x.shape[1], GRADIENT_BLOCK):
        d, g = number(x[i, j, k]) - mean, number(grad[i, j, k])
        if is_weighted:
            g = g * number(weight[j])
        out[i, j, k] = scale * (g - by_mean - d * by_scale)


def _of_softmax(name: str, formula: str, note: str, example: tuple[str, str]) -> Any:
    """Return the gradient of `softmax` or of `log_softmax`."""
    forward = name.removesuffix("_backward")

    def backward(grad: Array, y: Array, axis: int = -1) -> Any:
        along, is_log = _checked(grad, y, axis), forward == "log_softmax"
        return gradient(of_softmax, (around_axis(on_device(grad), along),), y, along, is_log=is_log)

    backward.__name__ = backward.__qualname__ = name
    backward.__doc__ = f"""Return the gradient of `{forward}` with respect to its input.

    Parameters
    ----------
    grad : array
        The gradient with respect to the result: float32, float64, float16 or bfloat16. Any layout.
    y : array
        Same shape, dtype and kind as `grad`: x is the input, and y the result.
    axis : int
        The axis of the call.

    Returns
    -------
    array
        ``{formula}``. Same shape, dtype and kind as `y`.{note}

    Raises
    ------
    kerneldsl.errors.ArgumentError
        If the arrays do not fit, or the axis does not exist.

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.rows import {forward}, {name}
    >>> {name}({example[0]}).tolist()
    {example[1]}
    """
    return library_function(backward)


softmax_backward = _of_softmax(
    "softmax_backward",
    "y * (grad - sum(grad * y))",
    " float16 and bfloat16 are\n        computed as float32.",
    ("np.array([1.0, 0.0]), softmax(np.array([0.0, 0.0]))", "[0.25, -0.25]"),
)
log_softmax_backward = _of_softmax(
    "log_softmax_backward",
    "grad - exp(y) * sum(grad)",
    "",
    ("np.array([1.0, -1.0]), np.log([0.5, 0.5])", "[1.0, -1.0]"),
)


@library_function
def layer_norm_backward(
    grad: Array, x: Array, weight: Array | None = None, *, axis: int = -1, eps: float = 1e-5
) -> Any:
    """Return the gradients of `layer_norm` with respect to input, weights and bias.

    Parameters
    ----------
    grad : array
        The gradient with respect to the result: float32, float64, float16 or bfloat16. Any layout.
    x : array
        Same shape, dtype and kind as `grad`: x is the input, and y the result.
    axis : int
        The axis of the call.
    weight : array of shape (n,), optional
        The weights of the call; ones by default.
    eps : float, optional
        The `eps` of the call, with the same default.

    Returns
    -------
    tuple of arrays
        The gradient with respect to `x`, with its shape, and those with respect to weights and
        bias, with shape (n,). Same dtype and kind as `x`.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        If the arrays do not fit, or the axis does not exist.

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.rows import layer_norm_backward
    >>> found = layer_norm_backward(np.ones((4, 2)), np.array([[1.0, 3.0]] * 4), eps=0.0)
    >>> [each.tolist() for each in found[1:]]
    [[-4.0, 4.0], [4.0, 4.0]]
    """
    return *_of_norm(layer_norm, grad, x, weight, axis, eps), _over_rows(grad, axis)


@library_function
def rms_norm_backward(
    grad: Array, x: Array, weight: Array | None = None, *, axis: int = -1, eps: float | None = None
) -> Any:
    """Return the gradients of `rms_norm` with respect to input and weights.

    Parameters
    ----------
    grad : array
        The gradient with respect to the result: float32, float64, float16 or bfloat16. Any layout.
    x : array
        Same shape, dtype and kind as `grad`: x is the input, and y the result.
    axis : int
        The axis of the call.
    weight : array of shape (n,), optional
        The weights of the call; ones by default.
    eps : float, optional
        The `eps` of the call, with the same default.

    Returns
    -------
    tuple of arrays
        As for `layer_norm_backward`, without a bias.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        If the arrays do not fit, or the axis does not exist.

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.rows import rms_norm_backward
    >>> rms_norm_backward(np.ones(2), np.array([3.0, 3.0]), eps=0.0)[1].tolist()
    [1.0, 1.0]
    """
    return _of_norm(rms_norm, grad, x, weight, axis, eps)


def _over_rows(array: Array, axis: int) -> Any:
    """Add up along all axes but one."""
    others = tuple(a for a in range(array.ndim) if a != axis_of(axis, array.ndim))
    return reduce.sum(array, others, dtype=array.dtype) if others else array


def _of_norm(norm: Any, grad: Array, x: Array, weight: Any, axis: Any, eps: Any) -> Any:
    """Return the gradients with respect to the input and the weights."""
    along = _checked(grad, x, axis)
    before = around_axis(on_device(grad), along), factor_of("weight", weight, x, along)
    added = added_of(eps, computing_dtype(x.dtype))
    constants = {"is_centred": norm is layer_norm, "is_weighted": weight is not None}
    made = gradient(of_norm, before, x, along, added, **constants)
    plain = norm(x, axis=axis, eps=eps)
    return made, _over_rows(elementwise.map(multiply, grad, plain), axis)


def _checked(grad: Array, x: Array, axis: Any) -> int:
    """Check both arrays and the axis, and return the axis counted from 0."""
    check_array("the second array", x, kinds="f", halves=True)
    check_array("grad", grad, dtypes=(x.dtype.name,))
    check_alike("grad", grad, "the second array", x)
    return axis_of(axis, x.ndim)
