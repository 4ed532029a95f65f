"""Reductions of the elements that a condition of the caller's leaves."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from kerneldsl.utilities.flags import read_flag
from stdlib_kernels import elementwise
from stdlib_kernels.arrays import finish
from stdlib_kernels.checks import Array, Out, check_array, check_out, check_same_kind
from stdlib_kernels.elementwise.calls import broadcast_shape, map_call
from stdlib_kernels.operations import abs_squared, add
from stdlib_kernels.parameters import axes_of, computing_dtype, real_dtype, wrong_value
from stdlib_kernels.reduce.folding import Axis, Rule, fold_call

__all__ = ["is_masked", "masked", "masked_mean", "masked_spread"]

_COUNT = np.dtype(np.float64)


def is_masked(where: Any) -> bool:
    """Return whether a condition leaves elements out, perhaps."""
    return where is not True and where is not np.True_


def masked(x: Array, where: Any, fill: Any) -> Array:
    """Return an array with a number in the places that a condition leaves out."""
    if not is_masked(where):
        return x
    if not isinstance(where, bool | np.bool_):
        check_array("where", where, kinds="b")
        check_same_kind("where", where, "x", x)
        if broadcast_shape([x, where]) != tuple(x.shape):
            raise wrong_value(
                "where", where, f"It must broadcast to the shape of x, {tuple(x.shape)}"
            )
    found: Any = elementwise.where(where, x, x.dtype.type(fill))
    return np.asarray(found) if isinstance(found, np.generic) else found


def masked_mean(
    x: Array, where: Any, axis: Axis, dtype: np.dtype[Any], out: Out, keepdims: bool
) -> Any:
    """Return the mean of the elements that count, in a dtype; NaN if none does."""
    shape = _checked_shape(x, axis, dtype, out, keepdims)
    found = _total_of(x, where, axis, dtype)
    return finish(found.divided(_quotient, dtype).reshape(shape), like=x, out=out)


def masked_spread(
    x: Array,
    where: Any,
    axis: Axis,
    dtype: np.dtype[Any],
    out: Out,
    keepdims: bool,
    *,
    ddof: float,
    is_root: bool,
) -> Any:
    """Return the variance of the elements that count, computed in a dtype, or its root."""
    real = real_dtype(computing_dtype(dtype))
    result = real if dtype.kind == "c" else dtype
    shape = _checked_shape(x, axis, result, out, keepdims)
    found = _total_of(x, where, axis, dtype)
    middle = found.divided(_quotient, computing_dtype(dtype))
    (squares,) = map_call(_square, [found.x, middle, where], [real], [None], found.x)
    spread = _Total(found.x, _sum_of(squares, axis), found.number)
    finished = spread.divided(_root if is_root else _variance, result, ddof)
    return finish(finished.reshape(shape), like=x, out=out)


class _Total(NamedTuple):
    """Sums of an array along axes, which are kept, and how many elements are in each."""

    #: The array, as one of one axis at least.
    x: Array
    total: Array
    number: Array

    def divided(self, quotient: Any, dtype: np.dtype[Any], *others: Any) -> Array:
        """Return what a function makes of each sum and number of elements."""
        values = [self.total, self.number, *others]
        found: Array = map_call(quotient, values, [dtype], [None], self.total)[0]
        return found


def _total_of(x: Array, where: Any, axis: Axis, dtype: np.dtype[Any]) -> _Total:
    number = computing_dtype(dtype)
    wide = x if x.ndim else x.reshape((1,))
    total = _sum_of(masked(wide, where, 0), axis, number)  # checks the condition
    (flags,) = map_call(_one_or_none, [wide, where], [_COUNT], [None], wide)
    return _Total(wide, total, _sum_of(flags, axis))


def _sum_of(x: Array, axis: Axis, number: np.dtype[Any] | None = None) -> Array:
    number = x.dtype if number is None else number
    rule = Rule(add, number.type(0), number.type)
    found: Array = fold_call(rule, x, axis, number, None, keepdims=True)
    return found


def _checked_shape(
    x: Array, axis: Axis, dtype: np.dtype[Any], out: Out, keepdims: bool
) -> tuple[int, ...]:
    """Check `out`, and return the shape of the result."""
    axes, is_kept = axes_of(axis, x.ndim), read_flag("keepdims", keepdims)
    extents = enumerate(x.shape)
    shape = tuple(1 if k in axes else n for k, n in extents if is_kept or k not in axes)
    check_out(out, like=x, shape=shape, dtype=dtype)
    return shape


def _one_or_none(v: Any, flag: Any) -> Any:
    return 1.0 if flag else 0.0


def _quotient(total: Any, count: Any) -> Any:
    return total / (count if count != 0 else np.nan)


def _square(v: Any, middle: Any, flag: Any) -> Any:
    return abs_squared(v - middle) if flag else 0.0


def _variance(square: Any, count: Any, ddof: Any) -> Any:
    return square / max(count - ddof, 0.0)


def _root(square: Any, count: Any, ddof: Any) -> Any:
    return math.sqrt(square / max(count - ddof, 0.0))
