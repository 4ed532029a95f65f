"""Elements of an array that are drawn: their places first, then the elements there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentValueError
from stdlib_kernels import reduce, scan
from stdlib_kernels.arrays import allocate, computed, finish, on_device, to_host
from stdlib_kernels.checks import Array, check_array, check_same_kind, check_shape
from stdlib_kernels.gathering import take_places
from stdlib_kernels.parameters import axis_of, integer_of
from stdlib_kernels.random.draws import WEIGHTED, Counter, drawn, integer_draw
from stdlib_kernels.sort import argsort

__all__ = ["chosen"]


def chosen(
    counter: Counter, a: Any, shape: Any, p: Array | None, axis: int, *, replace: bool
) -> Any:
    """Draw elements of an array, or numbers below an int, as `Generator.choice` says.

    Without a shape all of them are drawn.
    """
    is_array = isinstance(a, np.ndarray | kd.DeviceArray) and a.ndim > 0
    if is_array:
        check_array("a", a, halves=True)
        axis = axis_of(axis, a.ndim)
    n = a.shape[axis] if is_array else integer_of("a", a)
    shape = (n,) if shape is None else shape
    size = math.prod(shape)
    if n < (min(size, 1) if replace else size):
        raise ArgumentValueError(
            f"choice: there are {n} elements, and {size} are drawn",
            value=n,
            limit="There must be at least one, and without replacement as many as are drawn",
            remedy="Draw fewer, or with replace=True",
        )
    like = a if is_array else p
    source = None if like is None else on_device(like)
    count, dtype = (size, np.dtype(np.int64)) if replace else (n, np.dtype(np.uint64))
    numbers: tuple[Any, ...]
    draw, numbers = integer_draw(0, max(n, 1) if replace else 1 << 64)
    if p is not None:
        draw, numbers = WEIGHTED, (_cumulative(p, n, like),)
    beside = None if source is None else allocate(source, (count,), dtype)
    places = drawn(counter, draw, (count,), dtype, beside, *numbers)
    if not replace:
        # Of two equal keys, the first drawn comes first. The probability of a pair among n keys is
        # below n * n / 2**65.
        places = argsort(places)[:size]
    if source is None or not is_array:
        found: Any = places.reshape(shape)
        if like is not None:
            found = finish(found, like=like)
        return to_host(found)[()] if shape == () else found
    result = take_places(source, places, axis)
    return finish(result.reshape((*a.shape[:axis], *shape, *a.shape[axis + 1 :])), like=a)


def _cumulative(p: Array, n: int, like: Any) -> Array:
    """Return the cumulative weights where the kernel that draws can reach them."""
    check_array("p", p, dtypes=("float32", "float64"), ndim=1)
    check_same_kind("p", p, "a", like)
    check_shape("p", p, (n,), f"There must be a weight for each of the {n} to be drawn of")
    weights = on_device(p)
    sums: Array = scan.cumsum(weights, dtype=np.float64)
    least, total = float(computed(reduce.min(weights), 0)), float(computed(sums[-1:], 1))
    if not (least >= 0 and 0 < total < math.inf):
        raise ArgumentValueError(
            f"the smallest element of p is {least}, and the sum is {total}",
            value=(least, total),
            limit="Weights must be at least 0, and their sum positive and finite",
            remedy="Set the weights of elements that must not be drawn to 0",
        )
    return sums
