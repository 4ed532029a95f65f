"""Filters that take an element of each box, of up to three axes, by its rank."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch_over, refuse_to_repeat
from stdlib_kernels.arrays import allocate, constant_beside, finish, source_and_result, to_host
from stdlib_kernels.checks import Array, Ints, Out, check_array
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.parameters import integer_of, number_of, scalar_of, wrong_value
from stdlib_kernels.stencil.borders import (
    CONSTANT,
    MAX_SIZE,
    Border,
    border_of,
    offset_of,
    padded,
    per_axis,
)

__all__ = [
    "maximum_filter",
    "median_filter",
    "minimum_filter",
    "percentile_filter",
    "rank_filter",
]


@kd.kernel(wraparound=False)
def rank_box(x, out, *, box, count, rank, is_high, number):
    """Find the element of a rank in each box: ``x[a + …], out[a]``."""
    i, j, k = kd.grid(3)
    v = kd.local.array(count, number)
    for p in range(box[0]):
        for q in range(box[1]):
            for r in range(box[2]):
                v[(p * box[1] + q) * box[2] + r] = x[i + p, j + q, k + r]
    out[i, j, k] = _ranked(v, count, rank, is_high)


@kd.kernel(wraparound=False)
def rank_footprint(x, places, out, *, count, rank, is_high, number):
    """Find the element of a rank in each footprint: ``x[a + …], places[count, 3], out[a]``."""
    i, j, k = kd.grid(3)
    v = kd.local.array(count, number)
    for n in range(count):
        v[n] = x[i + places[n, 0], j + places[n, 1], k + places[n, 2]]
    out[i, j, k] = _ranked(v, count, rank, is_high)


def _ranked(v: Any, count: Any, rank: Any, is_high: Any) -> Any:
    """Move the smallest remaining element first, or the largest, up to a rank; return the last."""
    for a in range(rank + 1):
        for b in range(a + 1, count):
            low, high = min(v[a], v[b]), max(v[a], v[b])
            v[a] = high if is_high else low
            v[b] = low if is_high else high
    return v[rank]


def _documented(
    function: Any, found: str, example: str, parameter: str = "", given: str = ""
) -> Any:
    """Document a filter of ranks, and make it a function of the library."""
    name = function.__name__
    function.__doc__ = f"""Take the {found} of the box around each element, or of a part of it.

    Parameters
    ----------
    x : array
        Integers or floats. Any layout.{parameter}
    size : int or tuple of int
        Extent of the box along all axes, or along each.
    mode : str
        Values beyond the borders: ``"reflect"``, ``"mirror"``, ``"nearest"``, ``"wrap"`` or
        ``"constant"``. :func:`~stdlib_kernels.stencil.gaussian_filter` describes them.
    cval : float
        The value beyond the borders in mode ``"constant"``.
    origin : int or tuple of int
        Shift of the centre of the box, for all axes or for each.
    footprint : array, optional
        The elements of the box that count, by values that are not zero. It has as many axes as `x`,
        and replaces `size`. The host reads it.
    out : array, optional
        Array for the result, with the same shape, dtype and kind as `x`.

    Returns
    -------
    array
        Same shape, dtype and kind as `x`; `out` if it is given.

    Notes
    -----
    If a box contains NaN, the result is undefined. For a rank in the middle, the number of
    operations grows with the square of the number of elements of the box.

    See Also
    --------
    scipy.ndimage.{name}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.stencil import {name}
    >>> {name}(np.array([1, 9, 2, 3, 8]), {given}3).tolist()
    {example}
    """
    return repeated_function(function)


def _filter_of_rank(name: str, found: str, rank_of: Callable[[int], int], example: str) -> Any:
    """Return the filter with a rank that follows from the number of elements."""

    def ranked(
        x: Array,
        size: Ints = 3,
        mode: str = "reflect",
        cval: float = 0.0,
        origin: Ints = 0,
        *,
        footprint: Array | None = None,
        out: Out = None,
    ) -> Any:
        return _filtered(x, rank_of, size, mode, cval, origin, footprint, out)

    ranked.__name__ = ranked.__qualname__ = name
    return _documented(ranked, found, example)


minimum_filter = _filter_of_rank("minimum_filter", "minimum", lambda n: 0, "[1, 1, 2, 2, 3]")
maximum_filter = _filter_of_rank("maximum_filter", "maximum", lambda n: n - 1, "[9, 9, 9, 8, 8]")
#: For an even number of elements, the larger one of the two in the middle is the result.
median_filter = _filter_of_rank("median_filter", "median", lambda n: n // 2, "[1, 2, 3, 3, 8]")


@partial(
    _documented,
    found="element of a rank",
    example="[1, 2, 3, 3, 8]",
    parameter="""
    rank : int
        Number of the element in rising order, from 0 on; -1 is the largest one.""",
    given="-2, ",
)
def rank_filter(
    x: Array,
    rank: int,
    size: Ints = 3,
    mode: str = "reflect",
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    footprint: Array | None = None,
    out: Out = None,
) -> Any:
    at = integer_of("rank", rank)
    rank_of = lambda n: integer_of("rank", at, -n, n - 1) % n  # noqa: E731
    return _filtered(x, rank_of, size, mode, cval, origin, footprint, out)


@partial(
    _documented,
    found="percentile",
    example="[1, 2, 3, 3, 8]",
    parameter="""
    percentile : float
        From 0 to 100, the maximum; from -100 on, 100 less.""",
    given="50, ",
)
def percentile_filter(
    x: Array,
    percentile: float,
    size: Ints = 3,
    mode: str = "reflect",
    cval: float = 0.0,
    origin: Ints = 0,
    *,
    footprint: Array | None = None,
    out: Out = None,
) -> Any:
    share = number_of("percentile", percentile)
    if not -100 <= share <= 100:
        raise wrong_value("percentile", percentile, "It must be a number from -100 to 100")
    share += 100 if share < 0 else 0
    rank_of = lambda n: min(int(n * share / 100), n - 1)  # noqa: E731
    return _filtered(x, rank_of, size, mode, cval, origin, footprint, out)


def _filtered(x: Array, rank_of: Callable[[int], int], *options: Any) -> Any:
    """Filter by the rank that follows from the number of elements."""
    size, mode, cval, origin, footprint, out = options
    check_array("x", x, kinds="iuf")
    chosen = None if footprint is None else _read_footprint(footprint, x.ndim)
    sizes = per_axis(
        "size", size if chosen is None else chosen.shape, x.ndim, integer_of, 1, MAX_SIZE
    )
    if not 1 <= x.ndim <= 3:
        raise wrong_value("x.ndim", x.ndim, "There must be one to three axes", "Reshape x")
    border = border_of(mode, cval)
    moved = per_axis("origin", origin, x.ndim, integer_of)
    first = [offset_of(n, by) for n, by in zip(sizes, moved, strict=True)]
    count = math.prod(sizes) if chosen is None else int(chosen.sum())
    rank = rank_of(count)
    source, result = source_and_result(x, out, tuple(x.shape), x.dtype)
    missing, boxes = 3 - x.ndim, [sizes]
    if chosen is None and rank in (0, count - 1):  # an extreme, along one axis after the other
        one = (1,) * x.ndim
        lines = [(*one[:k], n, *one[k + 1 :]) for k, n in enumerate(sizes) if n > 1]
        boxes = lines or boxes
    for k, each in enumerate(boxes if x.size else []):
        shape, box = (1,) * missing + tuple(x.shape), (1,) * missing + each
        before = [0] * missing + [at if n > 1 else 0 for n, at in zip(each, first, strict=True)]
        fill = scalar_of("cval", border.fill, x.dtype) if border.mode == CONSTANT else 0
        wide = padded(source[(None,) * missing], x.dtype, Border(border.mode, fill), before, box)
        source = result if k == len(boxes) - 1 else allocate(wide, tuple(x.shape), x.dtype)
        if each != sizes:
            count, rank = math.prod(box), math.prod(box) - 1 if rank else 0
        is_high = 2 * rank >= count  # the end that is nearer
        how: dict[str, Any] = {"count": count, "rank": count - 1 - rank if is_high else rank}
        how |= {"is_high": is_high, "number": x.dtype.type}
        if chosen is None:
            launch_over(rank_box, shape, wide, source.reshape(shape), box=box, **how)
        else:
            places = np.argwhere(chosen.reshape(box))
            beside = constant_beside(wide, places)
            launch_over(rank_footprint, shape, wide, beside, source.reshape(shape), **how)
    return finish(result, like=x, out=out)


def _read_footprint(footprint: Array, ndim: int) -> np.ndarray[Any, Any]:
    """Return where a footprint is not zero."""
    check_array("footprint", footprint, ndim=ndim)
    refuse_to_repeat()  # the launches depend on its elements
    found: np.ndarray[Any, Any] = to_host(footprint) != 0
    if not found.any():
        limit = "At least one element of it is not zero"
        raise wrong_value("footprint", footprint, limit)
    return found
