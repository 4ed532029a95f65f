"""Places of elements in sorted arrays, and two sorted arrays as one.

References
----------
Nadathur Satish, Mark Harris and Michael Garland, "Designing Efficient Sorting Algorithms for
Manycore GPUs", IPDPS 2009: merging by the rank of each element in the other array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.calls import launch_over
from stdlib_kernels.arrays import allocate, contiguous, finish, on_device
from stdlib_kernels.checks import Array, Out, check_array, check_out, check_same_kind
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.parameters import choice_of, common_dtype, computing_dtype

__all__ = ["merge", "searchsorted"]


def _is_before(a: Any, b: Any) -> Any:
    return a < b or (b != b and a == a)  # noqa: PLR0124 - NaN come last


def _rank(x: Any, v: Any, number: Any, is_behind_equal: Any) -> Any:
    """Return how many elements of a sorted array are before a value, or equal to it."""
    low, high = 0, x.size
    while low < high:
        middle = (low + high) // 2
        w = number(x[middle])
        if _is_before(w, v) or (is_behind_equal and not _is_before(v, w)):
            low = middle + 1
        else:
            high = middle
    return low


@kd.kernel(wraparound=False)
def find_ranks(x, v, out, *, number, is_behind_equal):
    """Find where values belong: ``x[n], v[m], out[m]``."""
    i = kd.grid(1)
    out[i] = _rank(x, number(v[i]), number, is_behind_equal)


@kd.kernel(wraparound=False)
def merge_two(x, y, out, *, number):
    """Merge sorted arrays, equal elements of the first one first: ``x[n], y[m], out[n + m]``."""
    i = kd.grid(1)
    if i < x.size:
        v = number(x[i])
        out[i + _rank(y, v, number, False)] = v
    elif i < out.size:
        v = number(y[i - x.size])
        out[i - x.size + _rank(x, v, number, True)] = v


@repeated_function
def searchsorted(x: Array, v: Array, side: str = "left", *, out: Out = None) -> Any:
    """Find where values belong in a sorted array.

    {parameters: vector of: bool, integer or float, in rising order, NaN last.}
    v : array
        The values, of `x`'s kind, and of any shape and layout.
    side : str
        ``"left"``, before elements that are equal to a value, or ``"right"``, behind them.
    out : int64 array, optional
        Where the result goes, of `v`'s shape and kind.
    {returns: int64 array}
        For each value the number of elements before it; of `v`'s shape and kind. `out`, where it is
        given.
    {raises and see: numpy.searchsorted}
    >>> searchsorted(np.array([1, 3, 3, 7]), np.array([3, 8])).tolist()
    [1, 4]
    >>> searchsorted(np.array([1, 3, 3, 7]), np.array([3, 8]), "right").tolist()
    [3, 4]
    """
    check_array("x", x, kinds="biuf", halves=True, ndim=1)
    check_array("v", v, kinds="biuf", halves=True)
    check_same_kind("v", v, "x", x)
    number = computing_dtype(common_dtype(x, v)).type
    choice_of("side", side, ("left", "right"))
    check_out(out, like=v, shape=tuple(v.shape), dtype=np.dtype(np.int64))
    values = contiguous(on_device(v)).reshape((-1,))
    found = allocate(values, values.shape, np.dtype(np.int64))
    if values.size:
        how = {"number": number, "is_behind_equal": side == "right"}
        launch_over(find_ranks, (values.size,), on_device(x), values, found, **how)
    return finish(found.reshape(tuple(v.shape)), like=v, out=out)


@repeated_function
def merge(x: Array, y: Array, *, out: Out = None) -> Any:
    """Merge two sorted arrays.

    {parameters: vector of: bool, integer or float, in rising order, NaN last.}
    y : array of shape (m,)
        The same, of `x`'s kind.
    {out}
    {returns: array of shape (n + m,)}
        In rising order, equal elements of `x` before those of `y`; of `x`'s kind, and of NumPy's
        dtype for both. `out`, where it is given.
    {raises}
    >>> merge(np.array([1, 4]), np.array([0, 4, 5])).tolist()
    [0, 1, 4, 4, 5]
    """
    for name, each in (("x", x), ("y", y)):
        check_array(name, each, kinds="biuf", halves=True, ndim=1)
    check_same_kind("y", y, "x", x)
    dtype, shape = common_dtype(x, y), (x.size + y.size,)
    check_out(out, like=x, shape=shape, dtype=dtype)
    source, other = on_device(x), on_device(y)
    found = allocate(source, shape, dtype)
    if found.size:
        number = computing_dtype(dtype).type
        launch_over(merge_two, (found.size,), source, other, found, number=number)
    return finish(found, like=x, out=out)
