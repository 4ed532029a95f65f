"""Extremes of long rows on a host, and their places: one thread a part, which has many lanes.

A lane is an element of a local array; a core's vector registers hold several. A maximum or minimum
does not depend on the order of evaluation, so that the parts can depend on the host.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch
from stdlib_kernels.arrays import allocate, is_on_host
from stdlib_kernels.checks import Array
from stdlib_kernels.reduce.arrangement import Arrangement

__all__ = ["are_lanes_faster", "launch_extremes", "launch_places"]

#: Bytes of a thread's lanes.
LANES_BYTES = 512
#: Bytes that are compared at once while the place of a number is sought.
SOUGHT_BYTES = 128
#: Elements of a row at least, and of a part in which a place is looked for.
LONG_ROW, PART = 1 << 10, 1 << 12
#: Bytes of a row up to which one thread has done it before others would be at work.
SINGLE_BYTES = 1 << 20
#: Elements of the parts of a longer row.
LARGE_PART = 1 << 14


@cache
def _extreme_of(dtype: np.dtype[Any], op: Any) -> Any:
    """Return a function that finds the extreme of a part of a row; `held` are lanes."""
    number, lanes, quarter = (
        dtype.type,
        LANES_BYTES // dtype.itemsize,
        LANES_BYTES // 4 // dtype.itemsize,
    )

    def extreme(row: Any, first: Any, last: Any, held: Any) -> Any:
        total = number(row[first])
        if last - first < lanes:
            for i in range(first + 1, last):
                total = op(total, number(row[i]))
            return total
        for k in range(lanes):
            held[k] = number(row[first + k])
        for at in range(first + lanes, last - lanes, lanes):
            for k in range(lanes):
                held[k] = op(held[k], number(row[at + k]))
        for k in range(lanes):  # of which some may have been met before
            held[k] = op(held[k], number(row[last - lanes + k]))
        for k in range(quarter):
            half = op(held[k], held[k + 2 * quarter])
            held[k] = op(half, op(held[k + quarter], held[k + 3 * quarter]))
        total = held[0]
        for k in range(1, quarter):
            total = op(total, held[k])
        return total

    return extreme


def _is_equal(v: Any, w: Any) -> Any:
    return v == w


def _is_nan(v: Any, w: Any) -> Any:
    return v != v  # noqa: PLR0124 - NaN alone differs


@cache
def _place_of(dtype: np.dtype[Any]) -> Any:
    """Return a function that finds the first place of a number in a part of a row that has it."""
    number, lanes = dtype.type, SOUGHT_BYTES // dtype.itemsize

    def first_where(is_sought: Any) -> Any:
        def find(row: Any, first: Any, last: Any, top: Any) -> Any:
            i = first
            while i + lanes <= last:
                is_near = False
                for k in range(lanes):
                    is_near = is_near | is_sought(number(row[i + k]), top)
                if is_near:
                    break
                i += lanes
            while i < last - 1 and not is_sought(number(row[i]), top):
                i += 1
            return i

        return find

    equal, nan = first_where(_is_equal), first_where(_is_nan)

    def place(row: Any, first: Any, last: Any, top: Any) -> Any:
        return equal(row, first, last, top) if top == top else nan(row, first, last, top)  # noqa: PLR0124

    return place


@kd.kernel(wraparound=False)
def extremes_in_lanes(x, out, part, *, is_only, lanes, number, extreme):
    """Find the extreme of each part of each row: ``x[a, b, n], out[a, b, parts]``."""
    a, b = kd.blockIdx.z, kd.blockIdx.x
    if is_only:
        row = x
    else:
        row = x[a, b]
    first, held = kd.blockIdx.y * part, kd.local.array(lanes, number)
    out[a, b, kd.blockIdx.y] = extreme(row, first, min(first + part, len(row)), held)


@kd.kernel(wraparound=False)
def places_of_extremes(x, extremes, places, part, *, is_only, better, place):
    """Find where the extreme of each row is first: ``x[a, b, n], extremes[a, b, parts], …``."""
    a, b = kd.blockIdx.z, kd.blockIdx.x
    if is_only:
        row = x
    else:
        row = x[a, b]
    top, first = extremes[a, b, 0], 0
    for k in range(1, extremes.shape[2]):
        if better(extremes[a, b, k], top):
            top, first = extremes[a, b, k], k * part
    places[a, b, 0] = place(row, first, min(first + part, len(row)), top)


@kd.kernel(wraparound=False)
def places_in_lanes(x, places, *, is_only, part, lanes, number, extreme, better, place):
    """Find where the extreme of each row is first, in a thread: ``x[a, b, n], places[a, b, 1]``."""
    a, b = kd.blockIdx.z, kd.blockIdx.x
    if is_only:
        row = x
    else:
        row = x[a, b]
    held = kd.local.array(lanes, number)
    top, start = number(row[0]), 0
    for first in range(0, len(row), part):
        found = extreme(row, first, min(first + part, len(row)), held)
        if better(found, top):
            top, start = found, first
    places[a, b, 0] = place(row, start, min(start + part, len(row)), top)


def are_lanes_faster(cut: Arrangement, result: Array) -> bool:
    """Return whether an arrangement has one row or long ones, and a host that reduces them."""
    is_only = cut.kept == (1, 1)
    return (is_only or (cut.by_rows and cut.count >= LONG_ROW)) and is_on_host(result)


def launch_extremes(cut: Arrangement, result: Array, number: np.dtype[Any], op: Any) -> None:
    """Find the extreme of each row by an operation, and put it into ``result[a, b, 1]``."""
    while not _is_single(cut):
        cut = cut.of(_extremes_of_parts(cut, number, op))
    _launch(extremes_in_lanes, cut, (result,), cut.count, **_in_lanes(number, op))


def launch_places(
    cut: Arrangement, places: Array, number: np.dtype[Any], op: Any, better: Any
) -> None:
    """Find the first place of the extreme of each row, and put it into ``places[a, b, 1]``."""
    how = {"better": better, "place": _place_of(number)}
    if _is_single(cut):
        _launch(places_in_lanes, cut, (places,), part=PART, **how, **_in_lanes(number, op))
    else:
        values = _extremes_of_parts(cut, number, op)
        _launch(places_of_extremes, cut, (values, places), LARGE_PART, **how)


def _is_single(cut: Arrangement) -> bool:
    """Return whether one thread reduces a row."""
    return cut.count * cut.inputs[0].dtype.itemsize <= SINGLE_BYTES


def _extremes_of_parts(cut: Arrangement, number: np.dtype[Any], op: Any) -> Array:
    values = allocate(cut.inputs[0], (*cut.kept, -(-cut.count // LARGE_PART)), number)
    _launch(extremes_in_lanes, cut, (values,), LARGE_PART, **_in_lanes(number, op))
    return values


def _in_lanes(number: np.dtype[Any], op: Any) -> dict[str, Any]:
    lanes = LANES_BYTES // number.itemsize
    return {"lanes": lanes, "number": number.type, "extreme": _extreme_of(number, op)}


def _launch(
    kernel: Any, cut: Arrangement, others: tuple[Array, ...], *numbers: int, **how: Any
) -> None:
    """Launch a kernel with a thread for each element of the last array."""
    (a, b), x = cut.kept, cut.inputs[0]
    is_only = a == b == 1
    if is_only:  # which is of the form of most arguments: no view is made of them
        x = x[0, 0] if cut.by_rows else x[0, :, 0]
    grid = b, others[-1].shape[2], a
    launch(kernel, grid, 1, x, *others, *numbers, is_only=is_only, **how)
