"""Histograms: counts of elements, or of pairs of them, between edges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kerneldsl.errors import ArgumentValueError
from kerneldsl.errors.values import as_int
from kerneldsl.utilities.flags import read_flag
from stdlib_kernels.arrays import (
    allocate,
    computed,
    constant_beside,
    contiguous_1d,
    finish,
    on_device,
    to_host,
    to_like,
)
from stdlib_kernels.checks import Array, check_alike, check_array
from stdlib_kernels.copying import copy_array
from stdlib_kernels.functions import library_function
from stdlib_kernels.histogram.counting import between, count_bins, edges_array, evenly
from stdlib_kernels.histogram.integers import checked_weights
from stdlib_kernels.parameters import (
    computing_dtype,
    floating_dtype,
    integer_of,
    number_of,
    wrong_type,
    wrong_value,
)
from stdlib_kernels.reduce import extremes

__all__ = ["histogram", "histogram2d"]

#: A number of bins, or their edges.
Bins: TypeAlias = int | Sequence[float] | Array
#: Number of bins up to which a quotient in float32 is wrong by at most one bin.
MAX_NARROW_BINS = 1 << 16


class _Edges(NamedTuple):
    """Edges on the host, and whether they have equal distances."""

    values: np.ndarray[Any, Any]
    are_even: bool

    @property
    def bins(self) -> int:
        return len(self.values) - 1


@library_function
def histogram(
    x: Array,
    bins: Bins = 10,
    range: tuple[float, float] | None = None,
    *,
    weights: Array | None = None,
    density: bool = False,
) -> Any:
    """Count the elements between edges, or add up their weights.

    Parameters
    ----------
    x : array
        bool, integer or float; any rank and layout.
    bins : int, or array of shape (m + 1,)
        The number of bins of equal width, or the edges in ascending order. The last bin includes
        its upper edge.
    range : tuple of float, optional
        The outer edges of bins of equal width; by default the smallest and the largest element.
    weights : array, optional
        Same shape and kind as `x`; bool, integer or float.
    density : bool
        Whether to divide the result by its sum and by the widths of the bins.

    Returns
    -------
    hist : array of shape (m,)
        int64; with weights (of any dtype) or `density`, float64. Same kind as `x`. NaN is in no
        bin.
    edges : array of shape (m + 1,)
        The edges, as NumPy computes them; for bfloat16 as for float32. Same kind as `x`.

    Raises
    ------
    kerneldsl.errors.ArgumentValueError
        If edges do not ascend, or the range is not finite.

    See Also
    --------
    numpy.histogram

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.histogram import histogram
    >>> hist, edges = histogram(np.array([1.0, 2.0, 2.5, 4.0]), 3)
    >>> hist.tolist(), edges.tolist()
    ([1, 2, 1], [1.0, 2.0, 3.0, 4.0])
    """
    check_array("x", x, kinds="biuf", halves=True)
    is_density = read_flag("density", density)
    weighted = checked_weights(weights, x)
    source = contiguous_1d(on_device(x))
    edges = _edges_of(bins, range, source, _edge_dtype(x.dtype))
    counts = _counted([edges], [source], weighted)
    if is_density:
        counts = to_like(x, _density(counts, np.diff(edges.values)))
    return finish(counts, like=x), _given(edges, x)


@library_function
def histogram2d(
    x: Array,
    y: Array,
    bins: Any = 10,
    range: Any = None,
    *,
    weights: Array | None = None,
    density: bool = False,
) -> Any:
    """Count pairs of elements between edges along two axes, or add up their weights.

    Parameters
    ----------
    x : array of shape (n,)
        bool, integer or float; any layout.
    y : array of shape (n,)
        Same kind as `x`.
    bins : int, array, or two of these
        The number of bins, or their edges, for both axes or for each.
    range : pair of tuples of float, optional
        The outer edges of bins of equal width, for each axis.
    weights : array of shape (n,), optional
        Same kind as `x`; bool, integer or float.
    density : bool
        Whether to divide the result by its sum and by the areas of the bins.

    Returns
    -------
    hist : float64 array of shape (m, k)
        Same kind as `x`. A pair with NaN is in no bin.
    x_edges, y_edges : arrays of shape (m + 1,) and (k + 1,)
        The edges, as NumPy computes them; for bfloat16 as for float32. Same kind as `x`.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        If `y` has another length or kind than `x`, or an argument does not fit.
    kerneldsl.errors.ArgumentValueError
        If edges do not ascend, or a range is not finite.

    See Also
    --------
    numpy.histogram2d

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.histogram import histogram2d
    >>> x, y = np.array([0.0, 1.0, 1.0]), np.array([0.0, 0.0, 2.0])
    >>> histogram2d(x, y, 2)[0].tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    for name, each in (("x", x), ("y", y)):
        check_array(name, each, kinds="biuf", halves=True, ndim=1)
    check_alike("y", y, "x", x)
    is_density = read_flag("density", density)
    weighted = checked_weights(weights, x)
    sources = [contiguous_1d(on_device(each)) for each in (x, y)]
    ranges = _pair(range) if range is not None else (None, None)
    own = floating_dtype(np.result_type(*(_edge_dtype(each.dtype) for each in sources)))
    edges = [
        _edges_of(b, r, s, own if r is None and s.size else np.dtype(np.float64))
        for b, r, s in zip(_pair(bins), ranges, sources, strict=True)
    ]
    counts = _counted(edges, sources, weighted)
    host = np.asarray(to_host(counts), np.float64).reshape([each.bins for each in edges])
    if is_density:
        widths = [np.diff(each.values).astype(np.float64) for each in edges]
        areas = widths[0][:, None] * widths[1]
        host = _density(host, areas)
    return to_like(x, host), *(_given(each, x) for each in edges)


def _given(edges: _Edges, x: Array) -> Array:
    """Return edges as a new array of the kind of `x`."""
    if isinstance(x, np.ndarray):
        return edges.values
    found = allocate(x, edges.values.shape, edges.values.dtype)
    copy_array(constant_beside(x, edges.values), found)
    return found


def _density(counts: Array, sizes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Divide counts by the sizes of their bins and by their sum."""
    host = np.asarray(to_host(counts), np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(host / sizes / host.sum())


def _edge_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which edges are computed: NumPy computes none in bfloat16."""
    return dtype if dtype == np.float16 else computing_dtype(dtype)


def _pair(value: Any) -> tuple[Any, Any]:
    """Return the values for each of two axes."""
    if isinstance(value, list | tuple) and len(value) == 2:
        return value[0], value[1]
    return value, value


def _counted(edges: list[_Edges], sources: list[Array], weights: Array | None) -> Array:
    """Count elements or pairs; `number` is the dtype in which they are compared with edges."""
    dtypes = [*(s.dtype for s in sources), *(e.values.dtype for e in edges)]
    narrow = all(computing_dtype(each) == np.float32 for each in dtypes)
    narrow = narrow and all(each.bins <= MAX_NARROW_BINS for each in edges)
    number = np.dtype(np.float32 if narrow else np.float64)
    given = [edges_array(each.values.astype(number)) for each in edges]
    # An uncertainty of a whole bin is useless, and so is the number of a bin beyond int32.
    are_even = all(
        each.are_even and each.bins < 1 << 30 and e[-1] < 1
        for each, e in zip(edges, given, strict=True)
    )
    bin_of, bins = evenly if are_even else between, math.prod(each.bins for each in edges)
    x_edges, *y_edges = (constant_beside(sources[0], each) for each in given)
    pairs = {"y": sources[1], "y_edges": y_edges[0]} if y_edges else {}
    return count_bins(sources[0], x_edges, bins, bin_of, number, weights=weights, **pairs)


def _edges_of(bins: Any, outer: Any, x: Array, dtype: np.dtype[Any]) -> _Edges:
    """Return the edges that NumPy computes from `bins` and `range`."""
    if as_int(bins) is None:
        return _Edges(_given_edges(bins), False)
    count = integer_of("bins", bins, 1, 2**31 - 1)
    kind = np.dtype(np.uint8) if dtype.kind == "b" else dtype
    low, high = _outer_edges(outer, x)
    # NumPy computes between elements in their own dtype, and between numbers in float64.
    is_between_elements = kind.kind not in "biu" and outer is None and x.size
    ends: Any = (kind.type(low), kind.type(high)) if is_between_elements else (low, high)
    try:
        return _Edges(np.histogram_bin_edges(np.zeros(1, kind), count, ends), True)
    except ValueError as error:
        raise ArgumentValueError(
            f"{count} bins from {low} to {high} are too narrow for {kind}",
            value=bins,
            limit="Edges must be different numbers of this dtype",
            remedy="Take fewer bins, or a wider range",
        ) from error


def _outer_edges(outer: Any, x: Array) -> tuple[float, float]:
    """Return the smallest and the largest edge of bins of equal width."""
    if outer is not None:
        if not isinstance(outer, tuple | list):
            raise wrong_type("range", outer, "It must be a pair of numbers")
        if len(outer) != 2:
            raise wrong_value("range", outer, "It must be a pair of numbers")
        low, high = (number_of("range", each) for each in outer)
    elif not x.size:
        low, high = 0.0, 1.0
    else:
        low, high = (
            float(computed(*each)) for each in ((extremes.min(x), 0), (extremes.max(x), 1))
        )
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ArgumentValueError(
            f"the range is {low} to {high}",
            value=(low, high),
            limit="Bins of one width lie between finite numbers",
            remedy="Give range=(…, …), which leaves the others out",
        )
    if low > high:
        raise wrong_value("range", (low, high), "The first is not the larger one", "Exchange them")
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _given_edges(edges: Any) -> np.ndarray[Any, Any]:
    limit = "It must be a number of bins, or at least two edges in ascending order"
    try:
        host = to_host(edges)
        is_usable = host.ndim == 1 and host.dtype.kind in "biuf"
    except Exception as error:  # what NumPy, or a foreign object, raises
        raise wrong_type("bins", edges, limit) from error
    if not is_usable:
        raise wrong_type("bins", edges, limit)
    if host.size < 2 or not np.all(host[:-1] <= host[1:]):
        raise wrong_value(
            "bins", edges, limit, "Sort the edges, or pass an int, the number of bins"
        )
    if host.dtype.kind in "iu" and max(abs(int(host[0])), abs(int(host[-1]))) > 1 << 53:
        raise wrong_value("bins", edges, "Edges are float64, exact up to 2**53: subtract the first")
    return host
