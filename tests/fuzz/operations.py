"""What a rewritten program calls in the place of Python's operations, by name."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from tests.fuzz import typing
from tests.support.simt import Thread
from tests.support.vectors import Vector

__all__ = ["HELPERS"]


def _each(function: Callable[..., Any], *args: Any) -> Any:
    """Call what computes from numbers, of tiles for each element."""
    tiles = np.broadcast_arrays(*(a for a in args if isinstance(a, np.ndarray)))
    if not tiles:
        return function(*args)
    found = []
    for index in np.ndindex(tiles[0].shape):
        elements = iter([each[index] for each in tiles])
        found.append(function(*(next(elements) if isinstance(a, np.ndarray) else a for a in args)))
    return np.array(found).reshape(tiles[0].shape)


def _iterate(thread: Thread, place: Any, values: Iterable[Any]) -> Iterator[Any]:
    """Go through a loop of the program, whose turns the thread counts; a break ends it, too."""
    for turn, value in enumerate(values):
        thread.turns.append((place, turn))
        try:
            yield typing.constant(value)
        finally:
            thread.turns.pop()


def _forever(thread: Thread, place: Any) -> Iterator[Any]:
    return _iterate(thread, place, itertools.count())


def _in_turn(thread: Thread, place: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a place in the program with the turns of the loops around it, for an order."""
    *name, position = place
    return (*name, (*thread.turns, (position, 0)))


def _joined(value: Any, first: str, second: str) -> Any:
    if first == second:
        return value
    return typing.cast(value, typing.common_type(first, second))


def _stored(array: Any, value: Any) -> Any:
    return value if isinstance(value, Vector) else typing.cast(value, array.dtype.name)


def _sum(row: np.ndarray) -> Any:
    """The sum of a row from its first element to its last one; integers have 64 bits."""
    dtype = row.dtype.name
    if dtype in typing.INTEGERS:
        dtype = "uint64" if dtype.startswith("u") else "int64"
    total = typing.cast(np.int64(0), dtype)
    for element in row:
        total = total + typing.cast(element, dtype)
    return total


HELPERS: dict[str, Any] = {
    "of_constant_": typing.constant,
    "of_cast_": typing.cast,
    "of_conversion_": typing.conversion,
    "of_binary_": typing.binary,
    "of_unary_": typing.unary,
    "of_compare_": typing.compare,
    "of_extremum_": typing.extremum,
    "of_sqrt_": typing.square_root,
    "of_iterate_": _iterate,
    "of_forever_": _forever,
    "of_in_turn_": _in_turn,
    "of_each_": _each,
    "of_partial_": functools.partial,
    "of_slice_": slice,
    "of_sum_": _sum,
    "of_joined_": _joined,
    "of_stored_": _stored,
    "of_dtype_": typing.dtype_of,
    "of_result_": typing.result_type,
    "of_common_": typing.common_type,
    "of_element_": lambda array: array.dtype.name,
}
