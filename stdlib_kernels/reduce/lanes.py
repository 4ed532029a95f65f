"""Extremes of long rows on a host, and their places: one thread a part, which has many lanes.

A lane is an element of a local array; a core's vector registers hold several. A maximum or minimum
does not depend on the order of evaluation, so that the parts can depend on the host.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.calls import launch
from stdlib_kernels.arrays import allocate, is_on_host
from stdlib_kernels.checks import Array
from stdlib_kernels.reduce.arrangement import Arrangement

__all__ = ["are_lanes_faster", "launch_extremes", "launch_places"]

#: Bytes of a thread's lanes.
LANES_BYTES = 512
#: Elements of a row at least, and of a part in which a place is looked for.
LONG_ROW, PART = 1 << 10, 1 << 13
#: Bytes of a row up to which one thread has done it before others would be at work.
SINGLE_BYTES = 1 << 20
#: Elements of the parts of a longer row.
LARGE_PART = 1 << 15


@cache
def _extreme_of(dtype: np.dtype[Any], op: Any) -> Any:
    """Return a function that finds the extreme of a part of a row; `held` are lanes."""
    number, lanes, quarter = (
        dtype.type,
        LANES_BYTES // dtype.itemsize,
        LANES_BYTES // 4 // dtype.itemsize,
    )

    def extreme(x: Any, a: Any, b: Any, first: Any, last: Any, held: Any) -> Any:
        rest = first + (last - first) // lanes * lanes
        for k in range(lanes):
            held[k] = number(x[a, b, first])
        for at in range(first, rest, lanes):
            for k in range(lanes):
                held[k] = op(held[k], number(x[a, b, at + k]))
        for k in range(quarter):
            half = op(held[k], held[k + 2 * quarter])
            held[k] = op(half, op(held[k + quarter], held[k + 3 * quarter]))
        total = held[0]
        for k in range(1, quarter):
            total = op(total, held[k])
        for i in range(rest, last):
            total = op(total, number(x[a, b, i]))
        return total

    return extreme


def _are_same(v: Any, w: Any) -> Any:
    return (v == w) | ((v != v) & (w != w))  # noqa: PLR0124 - NaN alone differs


@cache
def _place_of(dtype: np.dtype[Any]) -> Any:
    """Return a function that finds the first place of a number in a part of a row that has it."""
    number, lanes = dtype.type, LANES_BYTES // dtype.itemsize

    def place(x: Any, a: Any, b: Any, first: Any, last: Any, top: Any) -> Any:
        i, is_near = first, False
        while not is_near and i + lanes <= last:
            for k in range(lanes):
                is_near = is_near | _are_same(number(x[a, b, i + k]), top)
            i += 0 if is_near else lanes
        while i < last - 1 and not _are_same(number(x[a, b, i]), top):
            i += 1
        return i

    return place


@kd.kernel(wraparound=False)
def extremes_in_lanes(x, out, part, *, lanes, number, extreme):
    """Find the extreme of each part of each row: ``x[a, b, n], out[a, b, parts]``."""
    a, b = kd.blockIdx.x // x.shape[1], kd.blockIdx.x % x.shape[1]
    first = kd.blockIdx.y * part
    held = kd.local.array(lanes, number)
    out[a, b, kd.blockIdx.y] = extreme(x, a, b, first, min(first + part, x.shape[2]), held)


@kd.kernel(wraparound=False)
def places_of_extremes(x, extremes, places, part, *, better, place):
    """Find where the extreme of each row is first: ``x[a, b, n], extremes[a, b, parts], …``."""
    a, b = kd.blockIdx.x // x.shape[1], kd.blockIdx.x % x.shape[1]
    top, first = extremes[a, b, 0], 0
    for k in range(1, extremes.shape[2]):
        if better(extremes[a, b, k], top):
            top, first = extremes[a, b, k], k * part
    places[a, b, 0] = place(x, a, b, first, min(first + part, x.shape[2]), top)


@kd.kernel(wraparound=False)
def places_in_lanes(x, places, part, *, lanes, number, extreme, better, place):
    """Find where the extreme of each row is first, in a thread: ``x[a, b, n], places[a, b, 1]``."""
    a, b = kd.blockIdx.x // x.shape[1], kd.blockIdx.x % x.shape[1]
    held = kd.local.array(lanes, number)
    top, start = number(x[a, b, 0]), 0
    for first in range(0, x.shape[2], part):
        found = extreme(x, a, b, first, min(first + part, x.shape[2]), held)
        if better(found, top):
            top, start = found, first
    places[a, b, 0] = place(x, a, b, start, min(start + part, x.shape[2]), top)


def are_lanes_faster(cut: Arrangement, result: Array) -> bool:
    """Return whether an arrangement has long rows, and a host that reduces them."""
    return cut.by_rows and cut.count >= LONG_ROW and is_on_host(result)


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
        _launch(places_in_lanes, cut, (places,), PART, **how, **_in_lanes(number, op))
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
    kernel: Any, cut: Arrangement, others: tuple[Array, ...], part: int, **how: Any
) -> None:
    """Launch a kernel with a thread for each element of the last array."""
    a, b = cut.kept
    launch(kernel, (a * b, others[-1].shape[2]), 1, cut.inputs[0], *others, part, **how)
