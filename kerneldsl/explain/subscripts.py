"""Evaluate subscripts of many threads at once, to an array and its bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kerneldsl.explain.values import UNKNOWN, Memory, Part, Value, View
from kerneldsl.language.element_types import ELEMENT_TYPES, ElementType

__all__ = ["element_addresses", "elements", "field_of", "subscript", "view_as", "view_of"]


def view_of(memory: Memory) -> View:
    """Return the view that is a whole array."""
    return View(memory, 0, memory.shape, memory.strides, memory.itemsize)


def view_as(view: View, dtype_bytes: int) -> Value:
    """Return the same bytes as elements of another size, as ``kd.view`` does."""
    if not view.shape or view.strides[-1] != view.itemsize:
        return UNKNOWN
    last = view.shape[-1] * view.itemsize // dtype_bytes
    strides = (*view.strides[:-1], dtype_bytes)
    return View(
        view.memory,
        view.offset,
        (*view.shape[:-1], last),
        strides,
        dtype_bytes,
        None,
        view.is_unknown,
    )


def subscript(
    view: View, parts: Sequence[Value], random: np.random.Generator, lanes: int, *, wraps: bool
) -> View:
    """Return what is left of a view after indices and slices.

    An index that is data is drawn at random, evenly over the axis; the view is marked unknown.
    """
    parts = _without_ellipsis(parts, len(view.shape))
    offset, is_unknown = view.offset, view.is_unknown
    chosen: tuple[Any, ...] | None = view.chosen
    shape: list[Any] = []
    strides: list[int] = []
    for part, extent, stride in zip(parts, view.shape, view.strides, strict=False):
        if isinstance(part, slice):
            start, length = _sliced(part, extent)
            is_unknown = is_unknown or start is UNKNOWN
            step = 1 if part.step is None else part.step
            offset = offset + (0 if start is UNKNOWN else start) * stride
            shape.append(length)
            strides.append(stride * (int(step) if step is not UNKNOWN else 1))
            chosen = None
            continue
        index = part
        if not isinstance(index, int | np.integer | np.ndarray) or isinstance(index, bool):
            is_unknown = True
            high = extent if isinstance(extent, int | np.integer) else 1
            index = random.integers(0, max(1, int(high)), lanes)
        elif isinstance(index, np.ndarray):
            index = index.astype(np.int64, copy=False)
        else:
            index = int(index)
        if wraps and np.any(np.less(index, 0)):
            index = np.where(np.less(index, 0), index + extent, index)
        offset = offset + index * stride
        chosen = None if chosen is None else (*chosen, index)
    count = len(parts)
    return View(
        view.memory,
        offset,
        (*shape, *view.shape[count:]),
        (*strides, *view.strides[count:]),
        view.itemsize,
        chosen,
        is_unknown,
        view.part,
    )


def field_of(view: View, record: ElementType, name: str) -> View | None:
    """Return a field of a record, or of each record of an array."""
    found = next((each for each in record.fields if each.name == name), None)
    if found is None:
        return None
    itemsize = ELEMENT_TYPES[found.dtype].nbytes
    inner = tuple(itemsize * math.prod(found.shape[axis + 1 :]) for axis in range(len(found.shape)))
    outer = view.part or Part(view.memory.itemsize, 0, True)
    return View(
        view.memory,
        view.offset + found.offset,
        (*view.shape, *found.shape),
        (*view.strides, *inner),
        itemsize,
        None,
        view.is_unknown,
        Part(
            outer.record_bytes, outer.offset + found.offset, outer.is_aligned and record.is_aligned
        ),
    )


def element_addresses(view: View, lanes: int) -> NDArray[np.int64]:
    """Return the address of each lane's element."""
    return np.broadcast_to(np.asarray(view.memory.base + view.offset, np.int64), (lanes,))


def elements(view: View, lanes: int) -> Value:
    """Return the elements themselves, where the array's contents are known."""
    contents, chosen = view.memory.contents, view.chosen
    if contents is None or chosen is None or view.is_unknown or view.itemsize != contents.itemsize:
        return UNKNOWN
    if len(chosen) != contents.ndim or 0 in contents.shape:
        return UNKNOWN
    inside = tuple(np.clip(i, 0, n - 1) for i, n in zip(chosen, contents.shape, strict=True))
    return contents[inside]


def _without_ellipsis(parts: Sequence[Value], ndim: int) -> list[Value]:
    found: list[Value] = []
    for part in parts:
        if part is Ellipsis:
            found += [slice(None)] * (ndim - len(parts) + 1)
        else:
            found.append(part)
    return found


def _sliced(part: slice, extent: Any) -> tuple[Value, Value]:
    """Return where a slice begins, and how long it is."""
    bounds = (part.start, part.stop, part.step)
    if any(isinstance(each, np.ndarray) and each.ndim for each in bounds) or UNKNOWN in bounds:
        start = part.start if part.start is not None else 0
        return (start if not isinstance(start, slice) else UNKNOWN), extent
    numbers = [None if each is None else int(each) for each in bounds]
    start, stop, step = slice(*numbers).indices(int(extent))
    return start, len(range(start, stop, step))
