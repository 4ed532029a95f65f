"""Repetition of elements, by one number for all or one number for each."""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentValueError
from kerneldsl.repeating.recorded_calls import end_by, launch_over, refuse_to_repeat
from stdlib_kernels.arrays import (
    allocate,
    along_or_flat,
    computed,
    constant_beside,
    finish,
    on_device,
    to_host,
)
from stdlib_kernels.checks import Array, check_array, check_same_kind, check_shape
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.gathering import take_places
from stdlib_kernels.movement.along import repeated
from stdlib_kernels.operations import smaller
from stdlib_kernels.parameters import integer_of, integers_of, names_of
from stdlib_kernels.reduce.arrangement import arrange
from stdlib_kernels.reduce.folding import Rule, fold
from stdlib_kernels.scan.cumulative import cumsum

__all__ = ["repeat"]


@repeated_function
def repeat(x: Array, repeats: Any, axis: int | None = None) -> Any:
    """Repeat each element, or slice along an axis.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    repeats : int, tuple of int, or int or bool array of shape (n,)
        The number of repetitions, for all n or for each. An array has the same kind as `x`, and is
        not uint64. The host waits for the sum of an array.
    axis : int, optional
        The axis along which the function works; by default the array is flattened in C order.

    Returns
    -------
    array
        Same kind and dtype as `x`.

    See Also
    --------
    numpy.repeat

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.movement import repeat
    >>> repeat(np.array([1, 2]), 2).tolist()
    [1, 1, 2, 2]
    >>> repeat(np.array([[1, 2, 3]]), (0, 2, 1), axis=1).tolist()
    [[2, 2, 3]]
    """
    check_array("x", x, halves=True)
    source, at = along_or_flat(x, axis)
    n = source.shape[at]
    counts = _counts_of(repeats, source, x)
    if isinstance(counts, int):
        return finish(repeated(source, at, counts), like=x)
    limit = f"There must be one, or one for each of the {n} along the axis"
    check_shape("repeats", counts, (n,), limit)
    least = allocate(counts, (1, 1, 1), np.dtype(np.int64))
    fold(Rule(smaller, np.int64(0), np.int64), arrange(counts, (0,))[0], least)
    return end_by(_repeated, cumsum(counts, 0, dtype=np.int64), least, source, at, x)


def _counts_of(repeats: Any, source: Array, x: Array) -> int | Array:
    """Return one number for all, or an array of numbers on the device of `source`."""
    if isinstance(repeats, tuple | list):
        counts = np.array(integers_of("repeats", repeats, 0), np.int64)
        return int(counts[0]) if counts.size == 1 else constant_beside(source, counts)
    if not isinstance(repeats, np.ndarray | kd.DeviceArray) or repeats.ndim == 0:
        return integer_of("repeats", repeats, 0)
    integers = tuple(name for name in names_of("biu", halves=False) if name != "uint64")
    check_array("repeats", repeats, dtypes=integers, ndim=1)
    check_same_kind("repeats", repeats, "x", x)
    if repeats.size == 1:
        refuse_to_repeat()
        return integer_of("repeats", int(to_host(repeats)[0]), 0)
    return on_device(repeats)


@kd.kernel(wraparound=False)
def find_repeated(ends, places):
    """Find the source index of each element of the result: ``ends[n], places[m]``."""
    i = kd.grid(1)
    low, high = 0, ends.size
    while low < high:
        middle = (low + high) // 2
        if ends[middle] <= i:
            low = middle + 1
        else:
            high = middle
    places[i] = low


def _repeated(ends: Array, least: Array, source: Array, axis: int, like: Array) -> Any:
    """Return repeated elements or slices, from the cumulative sums of their numbers."""
    if int(computed(least, 0)) < 0:
        raise ArgumentValueError(
            "repeats has a negative number",
            value=ends,
            limit="Elements are repeated 0 times or more",
            remedy="Take the larger of each and 0",
        )
    total = int(computed(ends[-1:], 0)) if ends.size else 0
    places = allocate(ends, (total,), ends.dtype)
    if places.size:
        launch_over(find_repeated, (places.size,), ends, places)
    return finish(take_places(source, places, axis), like=like)
