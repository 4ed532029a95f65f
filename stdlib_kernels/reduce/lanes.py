"""Extremes of long rows on a host, and their places: one thread a part, which has many lanes.

A lane is an element of a local array, of which a core's vector registers hold several. An extreme
does not depend on the order in which elements meet, so that parts can be a host's own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.calls import launch
from stdlib_kernels.arrays import allocate, is_on_host
from stdlib_kernels.checks import Array
from stdlib_kernels.reduce.arrangement import Arrangement

__all__ = ["are_lanes_faster", "launch_extremes", "launch_places"]

#: Bytes of a thread's lanes, elements of a part, and of a row at least.
LANES_BYTES, PART, LONG_ROW = 512, 1 << 14, 1 << 10


@kd.kernel(wraparound=False)
def extremes_in_lanes(x, out, *, part, lanes, number, op):
    """Find the extreme of each part of each row: ``x[a, b, n], out[a, b, parts]``."""
    a, b = kd.blockIdx.x // x.shape[1], kd.blockIdx.x % x.shape[1]
    first = kd.blockIdx.y * part
    last = min(first + part, x.shape[2])
    rest = first + (last - first) // lanes * lanes
    held = kd.local.array(lanes, number)
    for k in range(lanes):
        held[k] = number(x[a, b, first])
    for at in range(first, rest, lanes):
        for k in range(lanes):
            held[k] = op(held[k], number(x[a, b, at + k]))
    half = lanes // 2
    while half > 0:
        for k in range(half):
            held[k] = op(held[k], held[k + half])
        half //= 2
    total = held[0]
    for i in range(rest, last):
        total = op(total, number(x[a, b, i]))
    out[a, b, kd.blockIdx.y] = total


def _are_same(v: Any, w: Any) -> Any:
    return v == w or (v != v and w != w)  # noqa: PLR0124 - NaN alone differs


@kd.kernel(wraparound=False)
def places_of_extremes(x, extremes, places, *, part, lanes, number, better):
    """Find where the extreme of each row is first: ``x[a, b, n], extremes[a, b, parts], …``."""
    a, b = kd.blockIdx.x // x.shape[1], kd.blockIdx.x % x.shape[1]
    top, chosen = extremes[a, b, 0], 0
    for k in range(1, extremes.shape[2]):
        if better(extremes[a, b, k], top):
            top, chosen = extremes[a, b, k], k
    i = chosen * part
    last = min(i + part, x.shape[2])
    is_near = False
    while not is_near and i + lanes <= last:
        count = kd.int32(0)
        for k in range(lanes):
            count += kd.int32(_are_same(number(x[a, b, i + k]), top))
        is_near = count > 0
        i += 0 if is_near else lanes
    while i < last - 1 and not _are_same(number(x[a, b, i]), top):
        i += 1
    places[a, b, 0] = i


def are_lanes_faster(cut: Arrangement, result: Array) -> bool:
    """Return whether an arrangement has long rows, and a host that reduces them."""
    return cut.by_rows and cut.count >= LONG_ROW and is_on_host(result)


def launch_extremes(cut: Arrangement, result: Array, number: np.dtype[Any], op: Any) -> None:
    """Find the extreme of each row by an operation, and put it into ``result[a, b, 1]``."""
    while cut.count > PART:
        values = _parts_of(cut, number)
        _launch(extremes_in_lanes, cut, values, number, op=op)
        cut = cut.of(values)
    _launch(extremes_in_lanes, cut, result, number, op=op)


def launch_places(
    cut: Arrangement, places: Array, number: np.dtype[Any], op: Any, better: Any
) -> None:
    """Find the first place of the extreme of each row, and put it into ``places[a, b, 1]``."""
    values = _parts_of(cut, number)
    _launch(extremes_in_lanes, cut, values, number, op=op)
    _launch(places_of_extremes, cut, places, number, values, better=better)


def _parts_of(cut: Arrangement, number: np.dtype[Any]) -> Array:
    return allocate(cut.inputs[0], (*cut.kept, -(-cut.count // PART)), number)


def _launch(
    kernel: Any, cut: Arrangement, out: Array, number: np.dtype[Any], *beside: Array, **how: Any
) -> None:
    (a, b), lanes = cut.kept, LANES_BYTES // number.itemsize
    how |= {"part": PART, "lanes": lanes, "number": number.type}
    launch(kernel, (a * b, out.shape[2]), 1, cut.inputs[0], *beside, out, **how)
