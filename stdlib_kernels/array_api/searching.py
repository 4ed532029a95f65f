"""Searches, sorts, elements at indices, and distinct elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from stdlib_kernels import movement
from stdlib_kernels import sort as sorting
from stdlib_kernels.array_api.manipulation import reshape
from stdlib_kernels.arrays import contiguous_1d
from stdlib_kernels.checks import Array, check_array
from stdlib_kernels.compact import nonzero, unique
from stdlib_kernels.elementwise import where
from stdlib_kernels.functions import library_function
from stdlib_kernels.movement import take_along_axis
from stdlib_kernels.parameters import real_dtype, wrong_value

__all__ = [
    "argsort",
    "nonzero",
    "searchsorted",
    "sort",
    "take",
    "take_along_axis",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "where",
]


class UniqueAll(NamedTuple):
    """Distinct elements, with first indices, inverse indices and counts."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """Distinct elements, with their counts."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """Distinct elements, with inverse indices."""

    values: Any
    inverse_indices: Any


def _sorting(name: str, said: str, result: tuple[str, str], example: str) -> Any:
    """Return the function that sorts, or that finds the indices which do."""

    def sorted_along(
        x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True
    ) -> Any:
        if not x.ndim:
            raise wrong_value("x", x, "It must have an axis to sort along")
        return getattr(sorting, name)(x, axis, descending=descending)

    sorted_along.__name__ = sorted_along.__qualname__ = name
    sorted_along.__doc__ = f"""{said} along an axis.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    axis : int, optional
        The axis to sort along; with ``None`` the array is flattened in C order.
    descending : bool
        Whether the largest elements are first.
    stable : bool
        Whether equal elements keep their order; they always do.

    Returns
    -------
    {result[0]}
        {result[1]}

    See Also
    --------
    numpy.{name}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.array_api import {name}
    >>> {name}(np.array([3, 1, 4])).tolist()
    {example}
    """
    return library_function(sorted_along)


_SORTED = ("array", "Same kind and dtype as `x`, and its shape.")
sort = _sorting("sort", "Sort the elements", _SORTED, "[1, 3, 4]")
_INDICES = ("int64 array", "Same kind and shape as `x`.")
argsort = _sorting("argsort", "Find the indices that sort the elements", _INDICES, "[1, 0, 2]")


@library_function
def searchsorted(
    x1: Array, x2: Array, /, *, side: str = "left", sorter: Array | None = None
) -> Any:
    """Find the indices at which values belong into a sorted array.

    Parameters
    ----------
    x1 : array of shape (n,)
        The array, in ascending order with NaN last, unless there is a `sorter`.
    x2 : array
        The values. Same kind as `x1`.
    side : str
        ``"left"``: before elements that are equal to a value. ``"right"``: after them.
    sorter : integer array of shape (n,), optional
        The indices that sort `x1`.

    Returns
    -------
    int64 array
        Same shape and kind as `x2`.

    See Also
    --------
    numpy.searchsorted

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.array_api import searchsorted
    >>> searchsorted(np.array([1, 2, 3]), np.array([2, 4])).tolist()
    [1, 3]
    """
    ordered = x1 if sorter is None else movement.take(x1, sorter, 0)
    return sorting.searchsorted(ordered, x2, side)


@library_function
def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Any:
    """Return the slices at given indices along an axis.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    indices : array
        Integers from -n to n - 1 along an axis of n. The host waits for the device to check them.
        Same kind as `x`.
    axis : int, optional
        The axis; not needed for arrays of one axis.

    Returns
    -------
    array
        Same kind and dtype as `x`.

    See Also
    --------
    numpy.take

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.array_api import take
    >>> take(np.array([5, 6, 7]), np.array([2, 0])).tolist()
    [7, 5]
    """
    if axis is None and x.ndim != 1:
        raise wrong_value("axis", axis, "It may be omitted for arrays of one axis")
    return movement.take(x, indices, 0 if axis is None else axis)


def _unique(
    name: str,
    said: str,
    result: tuple[str, str],
    make: Any,
    example: tuple[str, str],
    **asked: bool,
) -> Any:
    """Return the function that finds the distinct elements, and what else is requested."""

    def distinct(x: Array, /) -> Any:
        return make(*_distinct(x, **asked))

    distinct.__name__ = distinct.__qualname__ = name
    distinct.__doc__ = f"""Find the distinct elements in ascending order{said}.

    Each NaN is distinct. The host waits for the device.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.

    Returns
    -------
    {result[0]}
        {result[1]}

    See Also
    --------
    numpy.{name}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.array_api import {name}
    >>> found = {name}(np.array([3, 1, 3]))
    >>> {example[0]}
    {example[1]}
    """
    return library_function(distinct)


unique_all: Callable[[Array], UniqueAll] = _unique(
    "unique_all",
    ", their first indices, and their counts",
    (
        "values, indices, inverse_indices, counts : array",
        "The distinct elements; the index of the first occurrence of each in the flattened array; "
        "for\n        each element of `x` its number among the distinct ones; the number of "
        "occurrences.",
    ),
    UniqueAll,
    (
        "found.values.tolist(), found.indices.tolist(), found.inverse_indices.tolist()",
        "([1, 3], [1, 0], [1, 0, 1])",
    ),
    return_index=True,
    return_inverse=True,
    return_counts=True,
)
unique_counts: Callable[[Array], UniqueCounts] = _unique(
    "unique_counts",
    ", and the number of occurrences of each",
    ("values, counts : array", "The distinct elements, and their counts."),
    UniqueCounts,
    ("found.values.tolist(), found.counts.tolist()", "([1, 3], [1, 2])"),
    return_counts=True,
)
unique_inverse: Callable[[Array], UniqueInverse] = _unique(
    "unique_inverse",
    ", and the number of each element among them",
    ("values, inverse_indices : array", "`inverse_indices` has the shape of `x`."),
    UniqueInverse,
    ("found.values.tolist(), found.inverse_indices.tolist()", "([1, 3], [1, 0, 1])"),
    return_inverse=True,
)
unique_values = _unique(
    "unique_values",
    "",
    ("array of shape (m,)", "Same kind and dtype as `x`."),
    lambda values: values,
    ("found.tolist()", "[1, 3]"),
)


def _distinct(x: Array, **asked: bool) -> list[Any]:
    """Return the distinct elements, and the other requested results of `unique`."""
    check_array("x", x, halves=True)
    flat: Any = contiguous_1d(x)
    is_complex = flat.dtype.kind == "c"
    if is_complex:  # pairs of a real and an imaginary part
        flat = flat.reshape((-1, 1)).view(real_dtype(flat.dtype))
    made = unique(flat, axis=0 if is_complex else None, equal_nan=False, **asked)
    found: list[Any] = [*made] if asked else [made]
    if is_complex:
        found[0] = found[0].view(x.dtype).reshape((-1,))
    if "return_inverse" in asked:
        at = 1 + ("return_index" in asked)
        found[at] = reshape(found[at], tuple(x.shape))
    return found
