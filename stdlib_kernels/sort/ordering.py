"""Sorts of arrays, the indices that sort them, and the largest elements.

For many rows, the largest elements are selected. For few rows, tiles are sorted, and the first
elements of each tile are sorted again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kerneldsl.utilities.flags import read_flag
from stdlib_kernels.arrays import allocate, contiguous, finish, is_on_host, on_device
from stdlib_kernels.checks import Array, Out, check_alike, check_array, check_out, checked_axis
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.parameters import axis_or_flat, axis_or_none, integer_of
from stdlib_kernels.sort.onesweep import Order, as_words, order_of
from stdlib_kernels.sort.rows import MAX_WIDTH, as_rows, select_first, sort_rows, sort_short_rows

__all__ = ["argsort", "sort", "sort_pairs", "top_k"]

#: The largest `k` that is found tile by tile; for larger ones rows are sorted.
MAX_FIRST = MAX_WIDTH // 8
#: Number of rows that occupy a GPU with one block for each row, and number of elements up to which
#: one block is fast enough. A host sorts tiles in less time.
MANY_ROWS, LONG_ROW = 64, 1 << 16


def _sorting(name: str, said: str, result: tuple[str, str, str], examples: tuple[str, str]) -> Any:
    """Return the function that sorts, or that finds the indices which do."""
    is_places = name == "argsort"

    def sorted_along(
        x: Array,
        axis: int | None = -1,
        kind: str | None = None,
        *,
        stable: bool | None = None,
        descending: bool = False,
        out: Out = None,
    ) -> Any:
        check_array("x", x, halves=True)
        place = (axis_or_flat if is_places else axis_or_none)(axis, x.ndim)
        shape = (x.size,) if place is None else tuple(x.shape)
        check_out(out, like=x, shape=shape, dtype=np.dtype(np.int64) if is_places else x.dtype)
        rows, restored = as_rows(on_device(x), place)
        is_descending, gives = (
            read_flag("descending", descending),
            "places" if is_places else "keys",
        )
        ordered, places = sort_rows(rows, descending=is_descending, gives=gives)
        return finish(restored(places if is_places else ordered), like=x, out=out)

    sorted_along.__name__ = sorted_along.__qualname__ = name
    sorted_along.__doc__ = f"""{said} an array along an axis.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    axis : int, optional
        The axis to sort along; with ``None`` the array is flattened in C order.
    kind, stable : optional
        Taken for NumPy's sake, and ignored: every sort is stable.
    descending : bool
        Whether the largest elements are first.
    out : {result[0]}, optional
        Array for the result, with the result's shape and dtype and the same kind as `x`.

    Returns
    -------
    {result[0]}
        Same kind{result[1]} and shape as `x`, or shape ``(x.size,)`` without an axis. `out` if it
        is given. {result[2]}

    See Also
    --------
    numpy.{name}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.sort import {name}
    >>> {name}(np.array([3, 1, 4, 1, 5])).tolist()
    {examples[0]}
    >>> {name}(np.array([[3, 1], [4, 1]]), axis=0, descending=True).tolist()
    {examples[1]}
    """
    return repeated_function(sorted_along)


_ORDER = """NaN is last, in descending order first. Equal elements keep their order; 0 and -0
        are equal. Complex numbers are ordered by their real parts, then by their imaginary parts,
        and those with NaN as in NumPy."""
_SORTED = ("array", ", dtype", _ORDER)
sort = _sorting("sort", "Sort", _SORTED, ("[1, 1, 3, 4, 5]", "[[4, 1], [3, 1]]"))
_INDICES = ("int64 array", "", "The order is that of `sort`.")
_FIRST = ("[1, 3, 0, 2, 4]", "[[1, 0], [0, 1]]")
argsort = _sorting("argsort", "Find the indices that sort", _INDICES, _FIRST)


@repeated_function
def sort_pairs(
    keys: Array, values: Array, axis: int | None = -1, *, descending: bool = False
) -> Any:
    """Sort keys along an axis, and reorder values in the same way.

    Parameters
    ----------
    keys : array
        bool, integer, float or complex; any rank and layout.
    values : array
        Same kind and shape as `keys`. bool, integer, float or complex.
    axis : int, optional
        The axis to sort along; with ``None`` the array is flattened in C order.
    descending : bool
        Whether the largest elements are first.

    Returns
    -------
    keys, values : array
        The sorted keys, as by `sort`, and their values. Values of equal keys keep their order.

    See Also
    --------
    numpy.argsort

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.sort import sort_pairs
    >>> keys, values = sort_pairs(np.array([3, 1, 2]), np.array([0.5, 0.25, 0.125]))
    >>> keys.tolist(), values.tolist()
    ([1, 2, 3], [0.25, 0.125, 0.5])
    """
    check_array("keys", keys, halves=True)
    place = axis_or_none(axis, keys.ndim)
    check_array("values", values, halves=True)
    check_alike("values", values, "keys", keys)
    rows, restored = as_rows(on_device(keys), place)
    beside, _ = as_rows(on_device(values), place)
    found = sort_rows(rows, beside, descending=read_flag("descending", descending), gives="values")
    return tuple(finish(restored(each), like=keys) for each in found)


@repeated_function
def top_k(x: Array, k: int, axis: int = -1, *, largest: bool = True) -> Any:
    """Find the largest elements along an axis, and their indices.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    k : int
        The number of elements.
    axis : int
        The axis along which the function works.
    largest : bool
        Whether to find the largest or the smallest elements.

    Returns
    -------
    values : array
        The elements in descending order, or ascending order for the smallest. Same kind and dtype
        as `x`, and its shape with `k` along the axis. NaN is larger than all numbers.
    places : int64 array
        Their indices along the axis. Among equal elements the first ones are taken.

    See Also
    --------
    numpy.argpartition

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.sort import top_k
    >>> values, places = top_k(np.array([3, 1, 4, 1, 5]), 2)
    >>> values.tolist(), places.tolist()
    ([5, 4], [4, 2])
    """
    place = checked_axis(x, axis, kinds="biufc")
    count = integer_of("k", k, 0, x.shape[place])
    rows, restored = as_rows(on_device(x), place)
    is_descending, is_complex = read_flag("largest", largest), x.dtype.kind == "c"
    height, width = rows.shape
    found: Any
    if not count or not height:
        found = (allocate(rows, (height, count), d) for d in (x.dtype, np.dtype(np.int64)))
    elif is_complex or (width > MAX_WIDTH and count > MAX_FIRST):
        whole = sort_rows(rows, descending=is_descending, gives="places")
        found = (contiguous(each[:, :count]) for each in whole)
    else:
        found = _first_of_real_rows(rows, count, is_descending)
    values, places = (restored(each) for each in found)
    return tuple(finish(each, like=x) for each in (values.view(x.dtype), places))


def _first_of_real_rows(rows: Array, count: int, is_descending: bool) -> Any:
    """Return the first elements of each row of real numbers, and their indices."""
    order, (height, width) = order_of(rows.dtype, descending=is_descending), rows.shape
    if MAX_WIDTH < width <= LONG_ROW and height >= MANY_ROWS and not is_on_host(rows):
        first, where = select_first(as_words(rows), count, order)
        return sort_rows(first.view(rows.dtype), where, descending=is_descending, gives="values")
    return _first_of_rows(as_words(rows), count, order)


def _first_of_rows(keys: Array, count: int, order: Order) -> Any:
    """Return the first words of each row and their indices, selected from its parts."""
    values: Array | None = None
    gives = "places"
    while keys.shape[1] > MAX_WIDTH:
        rows, n = keys.shape
        parts = -(-n // MAX_WIDTH)
        found = sort_short_rows(keys, values, order, gives, count, parts)
        keys, values = (each.reshape((rows, -1)) for each in found if each is not None)
        gives = "values"
    return sort_short_rows(keys, values, order, gives, count)
