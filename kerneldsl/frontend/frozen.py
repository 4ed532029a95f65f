"""Arrays in captured constants: a copy for the compiler, and whether the user's are as it is.

Code is compiled from a copy, so that every specialization of a kernel has the same. A launch reads
the flags of a read-only array, and those of the arrays below a view, because any owner of a NumPy
array can make it writable again. The contents of other arrays are compared with the copy at each
launch.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CellType
from typing import Any

import numpy as np

__all__ = ["FrozenArrays", "WatchedArrays", "freeze", "private_copy"]


class FrozenArrays:
    """Arrays that must stay read-only; found writable once, they are so permanently.

    What was writable for a while may have changed, so making it read-only again does not help.

    - `value`: the captured constant.
    - `arrays`: arrays in it, and the arrays that they are views of.
    - `cell`: holds `value` until an array is found writable, for readers that do not call.
    """

    __slots__ = ("_is_given_up", "arrays", "cell")

    def __init__(self, value: Any, arrays: tuple[np.ndarray[Any, Any], ...]) -> None:
        self.arrays = arrays
        self.cell = CellType(value)
        self._is_given_up = False

    def are_unchanged(self) -> bool:
        """Return whether none of the arrays has been found writable, now or before."""
        for array in self.arrays:
            if array.flags.writeable:
                self._give_up()
        return not self._is_given_up

    def _give_up(self) -> None:
        self._is_given_up = True
        self.cell.cell_contents = None


class WatchedArrays:
    """Arrays that anybody may write, with their contents as they were.

    - `value`: the captured constant.
    - `copy`: the constant with copies of its arrays.
    """

    __slots__ = ("_arrays", "copy")

    def __init__(self, value: Any) -> None:
        self.copy = private_copy(value)
        # The states are those of the copies, because the arrays may be written meanwhile.
        copies = (_state_of(array) for array in _leaves(self.copy))
        self._arrays = tuple(zip(_leaves(value), copies, strict=True))

    def are_unchanged(self) -> bool:
        """Return whether the arrays are what they were, to the bit."""
        return all(_state_of(array) == was for array, was in self._arrays)


def _state_of(array: np.ndarray[Any, Any]) -> tuple[object, ...]:
    return array.dtype, array.shape, array.tobytes()


def _leaves(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    """Return the arrays in a constant, without those they are views of."""
    if isinstance(value, tuple):
        for element in value:
            yield from _leaves(element)
    elif isinstance(value, np.ndarray):
        yield value


def freeze(value: Any) -> FrozenArrays | None:
    """Watch the arrays in a constant, and make those read-only that it is a view of.

    No other object holds the latter (:func:`~kerneldsl.frontend.captured.constant_problem`), but
    they could be written through the view.

    - returns: ``None`` for a constant without arrays.
    """
    arrays = tuple(_arrays_in(value))
    for array in arrays:
        array.flags.writeable = False
    return FrozenArrays(value, arrays) if arrays else None


def _arrays_in(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    if isinstance(value, tuple):
        for element in value:
            yield from _arrays_in(element)
    while isinstance(value, np.ndarray):
        yield value
        value = value.base


def private_copy(value: Any) -> Any:
    """Return the constant with read-only copies of its arrays; itself if it has none."""
    if isinstance(value, tuple):
        elements = [private_copy(element) for element in value]
        if all(a is b for a, b in zip(elements, value, strict=True)):
            return value
        # A named tuple takes its elements one by one.
        return type(value)(*elements) if hasattr(value, "_fields") else tuple(elements)
    if not isinstance(value, np.ndarray):
        return value
    copied = np.array(value, order="K", subok=True)
    copied.flags.writeable = False
    return copied
