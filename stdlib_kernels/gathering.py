"""Elements that are gathered from their places, of arrays that kernels reach."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentValueError
from kerneldsl.repeating.recorded_calls import launch_over, run_on_host
from stdlib_kernels.arrays import allocate, around_axis, contiguous
from stdlib_kernels.checks import Array, check_array, check_same_kind
from stdlib_kernels.operations import unchanged
from stdlib_kernels.parameters import integers_in

__all__ = ["check_indices", "check_range", "over", "take_each", "take_places"]


@kd.kernel(wraparound=False)
def find_wrong(places, low, n, found):
    """Mark in ``found[1]`` that a place of ``places[m]`` is not from `low` to n - 1."""
    i = kd.grid(1)
    if i < places.size and (places[i] < low or places[i] >= n):
        kd.atomic.max(found, 0, 1)


def check_indices(name: str, places: Any, like: Array) -> None:
    """Refuse what are no indices, or of another kind than an array."""
    check_array(name, places, dtypes=integers_in(places, "iu", "uint64"))
    check_same_kind(name, places, "x", like)


def check_range(name: str, places: Array, n: int, low: int, remedy: str) -> None:
    """Refuse places that are not from `low` to n - 1, for which the host waits."""
    if places.size:
        flat = contiguous(places).reshape((-1,))
        found = allocate(flat, (1,), np.dtype(np.int32), zero=True)
        launch_over(find_wrong, (flat.size,), flat, low, n, found)
        run_on_host(functools.partial(_refuse_wrong, name, remedy), found, places, n, low)


def _refuse_wrong(name: str, remedy: str, found: Array, places: Array, n: int, low: int) -> None:
    """Refuse places if a kernel has found one that is out of range."""
    if found[0]:
        values = places.copy_to_host() if isinstance(places, kd.DeviceArray) else places
        wrong = values[(values < low) | (values >= n)]
        index = int(wrong[0]) if wrong.size else None  # changed since
        raise ArgumentValueError(
            f"{name} has the index {index}, which is out of range",
            value=index,
            limit=f"The axis has {n} elements" + (f": indices are {low} to {n - 1}" if n else ""),
            remedy=remedy if n else "Test x.size before",
        )


def over(kernel: Any, shape: tuple[int, ...], *args: Any, **constants: Any) -> None:
    """Launch a kernel over three axes along which threads follow each other, the last one first.

    If that has an extent of 1, the middle one is the last, and `is_last` is true.
    """
    is_last = shape[2] == 1
    extent = (shape[0], 1, shape[1]) if is_last else shape
    launch_over(kernel, extent, *args, is_last=is_last, **constants)


@kd.kernel(wraparound=False)
def take_elements(x, places, out, *, place):
    """Take elements: ``x[n], places[m], out[m]``."""
    j = kd.grid(1)
    out[j] = x[place(places[j], x.size)]


@kd.kernel(wraparound=False)
def take_along(x, places, out, *, place, by_slices, is_last):
    """Take slices or elements: ``x[a, n, b], places[m]`` or ``[a, m, b], out[a, m, b]``."""
    i, j, k = kd.grid(3)
    if is_last:
        j, k = k, j
    if by_slices:
        out[i, j, k] = x[i, place(places[j], x.shape[1]), k]
    else:
        out[i, j, k] = x[i, place(places[i, j, k], x.shape[1]), k]


def take_places(source: Array, places: Array, axis: int, place: Any = unchanged) -> Array:
    """Return the elements at some places along an axis; kernels reach both arrays."""
    shape = (*source.shape[:axis], places.size, *source.shape[axis + 1 :])
    found = allocate(source, shape, source.dtype)
    if found.size:
        taken, given = around_axis(source, axis), around_axis(found, axis)
        if given.shape[::2] == (1, 1):
            flat = taken[0, :, 0], places, given[0, :, 0]
            launch_over(take_elements, (places.size,), *flat, place=place)
        else:
            over(take_along, given.shape, taken, places, given, place=place, by_slices=True)
    return found


def take_each(source: Array, places: Array, axis: int, place: Any = unchanged) -> Array:
    """Return an element for each place; kernels reach both arrays."""
    found = allocate(source, tuple(places.shape), source.dtype)
    if found.size:
        taken, given, where = (around_axis(each, axis) for each in (source, found, places))
        over(take_along, given.shape, taken, where, given, place=place, by_slices=False)
    return found
