"""Elements of an array that are drawn: their places first, then the elements there."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentValueError
from stdlib_kernels import reduce, scan
from stdlib_kernels.arrays import (
    Array,
    allocate,
    around_axis,
    check_array,
    check_same_kind,
    finish,
    on_device,
)
from stdlib_kernels.parameters import axis_of, integer_of
from stdlib_kernels.random.draws import Draw, integer_draw, weighted_draw
from stdlib_kernels.random.filling import counters_of, fill
from stdlib_kernels.random.state import State

__all__ = ["chosen"]


@kd.kernel(wraparound=False)
def elements_at(x, places, out):
    """Gather along the middle axis: ``x[a, n, b], places[m], out[a, m, b]``."""
    i, j, k = kd.grid(3)
    if i < out.shape[0] and j < out.shape[1] and k < out.shape[2]:
        out[i, j, k] = x[i, places[j], k]


def chosen(
    take: Callable[[int], State],
    device: Any,
    a: Any,
    shape: tuple[int, ...],
    p: Array | None,
    axis: int,
) -> Any:
    """Draw elements of an array, or numbers below an int, as `Generator.choice` says.

    Raises
    ------
    ArgumentError
        Where an argument is not what it takes.
    """
    is_array = isinstance(a, np.ndarray | kd.DeviceArray) and a.ndim > 0
    if is_array:
        check_array("a", a, halves=True)
        axis = axis_of(axis, a.ndim)
    n = a.shape[axis] if is_array else integer_of("a", a)
    if n < 1:
        raise ArgumentValueError(
            f"choice: there are {n} elements", value=n, limit="There is at least one to be drawn"
        )
    size = math.prod(shape)
    like = a if is_array else p
    kind = np.dtype(np.int64)
    source = None if like is None else on_device(like)
    places = (
        kd.empty((size,), kind, device=device)
        if source is None
        else allocate(source, (size,), kind)
    )
    draw: Draw
    numbers: tuple[Any, ...]
    draw, numbers = integer_draw(0, n)
    if p is not None:
        draw, numbers = weighted_draw(), (_cumulative(p, n, like),)
    state = take(counters_of(size, draw))
    if size:
        fill(places, draw, state, *numbers)
    if source is None or not is_array:
        found: Any = places.reshape(shape)
        if like is not None:
            found = finish(found, like=like, out=None)
        is_one = shape == () and isinstance(found, kd.DeviceArray)
        return found.copy_to_host()[()] if is_one else found
    before, after = a.shape[:axis], a.shape[axis + 1 :]
    result = allocate(source, (*before, *shape, *after), a.dtype)
    if result.size:
        form = (math.prod(before), size, math.prod(after))
        elements_at.forall(*form)(around_axis(source, axis), places, result.reshape(form))
    return finish(result, like=a, out=None)


def _cumulative(p: Array, n: int, like: Any) -> Array:
    """Return the cumulative weights where the kernel that draws can reach them."""
    check_array("p", p, dtypes=("float32", "float64"), ndim=1)
    check_same_kind("p", p, "a", like)
    if p.shape[0] != n:
        raise ArgumentValueError(
            f"p has {p.shape[0]} elements, and there are {n} to be drawn of",
            value=p.shape[0],
            limit="There is a weight for each",
        )
    weights = on_device(p)
    sums: Array = scan.cumsum(weights, dtype=np.float64)
    least, total = (
        float(np.asarray(each.copy_to_host() if isinstance(each, kd.DeviceArray) else each))
        for each in (reduce.min(weights), sums[-1:].reshape(()))
    )
    if not (least >= 0 and 0 < total < math.inf):
        raise ArgumentValueError(
            f"p has {least} as its least element, and {total} as its sum",
            value=(least, total),
            limit="No weight is negative or NaN, and their sum is a positive number",
        )
    return sums
