"""The arrays that a kernel writes: put back after each run, and compared with what is right."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kerneldsl.errors import ArgumentTypeError
from kerneldsl.memory.copies import copy
from kerneldsl.memory.creation import as_array, empty_like

__all__ = ["Arguments"]


class Arguments:
    """Arguments of a launch that is made many times.

    Parameters
    ----------
    args : sequence
        As the launch takes them.
    written : collection of int
        Positions of the arrays that the kernel writes.
    rtol : float or None
        How far floats may lie from what is right, relative to the largest of an array; by default
        the square root of the machine's precision of the element type. Integers have to be equal.
    """

    def __init__(
        self, args: Sequence[Any], written: frozenset[int], rtol: float | None = None
    ) -> None:
        self._rtol = rtol
        self._arrays = [_Written(args[position], position) for position in sorted(written)]
        self._expected: list[np.ndarray[Any, Any]] | None = None

    def restore(self) -> None:
        """Put back what the arrays held."""
        for array in self._arrays:
            array.restore()

    def check(self, launch: Callable[[], object]) -> str:
        """Run the launch once; say what is wrong with its results, or nothing.

        The first launch says what is right, unless :meth:`expect` did.
        """
        self.restore()
        launch()
        results = [array.read() for array in self._arrays]
        if self._expected is None:
            self._expected = results
            return ""
        for array, found, wanted in zip(self._arrays, results, self._expected, strict=True):
            problem = _difference(found, wanted, self._rtol)
            if problem:
                return f"argument {array.position + 1}: {problem}"
        return ""

    def expect(self, results: Sequence[Any]) -> None:
        """Take these for right: an array for each that the kernel writes, in their order.

        Raises
        ------
        ArgumentTypeError
            If they are not as many.
        """
        if len(results) != len(self._arrays):
            raise ArgumentTypeError(
                f"the reference gave {len(results)} arrays",
                value=len(results),
                limit=f"The kernel writes {len(self._arrays)} of its arguments",
                remedy="Return one for each of them, in the order of the parameters",
            )
        self._expected = [
            np.broadcast_to(np.asarray(result), array.shape)
            for array, result in zip(self._arrays, results, strict=True)
        ]


class _Written:
    """An array that the kernel writes."""

    def __init__(self, array: Any, position: int) -> None:
        self.position = position
        self._array = array if isinstance(array, np.ndarray) else as_array(array)
        is_host = isinstance(self._array, np.ndarray)
        self._before = np.empty_like(array) if is_host else empty_like(self._array)
        copy(self._before, self._array)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._array.shape)

    def restore(self) -> None:
        copy(self._array, self._before)

    def read(self) -> np.ndarray[Any, Any]:
        if isinstance(self._array, np.ndarray):
            return self._array.copy()
        return np.asarray(self._array.copy_to_host())


def _difference(
    found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any], rtol: float | None
) -> str:
    """Say how results differ, or nothing if they do not."""
    if found.dtype.kind in "fc" or found.dtype.kind == "V":
        precision = np.finfo(found.dtype).eps if found.dtype.kind in "fc" else 2.0**-7
        limit = math.sqrt(precision) if rtol is None else rtol
        left, right = (each.astype(np.complex128) for each in (found, wanted))
        both = np.isfinite(left) & np.isfinite(right)
        same = both | (np.isnan(left) & np.isnan(right)) | (left == right)
        scale = float(np.max(np.abs(right[both]), initial=0.0))
        apart = np.abs(np.where(both, left - right, 0.0))
        wrong = ~same | (apart > limit * scale)
    else:
        wrong = found != wanted
    count = int(np.count_nonzero(wrong))
    if not count:
        return ""
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{count} of {found.size} elements are wrong, the first at {place}: {found[place]!r}"
