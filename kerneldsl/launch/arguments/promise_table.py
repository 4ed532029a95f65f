"""Table of the promises that launches of a kernel have checked, by number.

Finding all that holds (:func:`~kerneldsl.launch.arguments.checked_promises.promises_of`) takes
longer than a launch, so the answer is remembered for addresses, shapes, strides and extents. The
number that stands for it is quick to hash.
"""

from __future__ import annotations

from typing import Any

from kerneldsl.analysis.traits import KernelTraits
from kerneldsl.contract import NO_PROMISES, Promises
from kerneldsl.contract.promises import has_narrow_integers
from kerneldsl.launch.arguments.binding import Binding
from kerneldsl.launch.arguments.checked_promises import promises_of
from kerneldsl.utilities.locks import ForkSafeLock

__all__ = ["NOTHING", "PromiseTable"]

#: The number of `NO_PROMISES`.
NOTHING = 0
#: Arguments that are remembered; a program that goes through more asks again.
_MAX_KNOWN = 256


class PromiseTable:
    """The promises that were found for one kernel.

    Parameters
    ----------
    traits : KernelTraits
        What the kernel writes.
    """

    def __init__(self, traits: KernelTraits) -> None:
        self._traits = traits
        self._found: list[Promises] = [NO_PROMISES]
        self._numbers: dict[Promises, int] = {NO_PROMISES: NOTHING}
        self._known: dict[tuple[Any, ...], int] = {}
        self._places: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._lock = ForkSafeLock()

    def __getitem__(self, number: int) -> Promises:
        return self._found[number]

    def number_of(
        self, binding: Binding, extent: tuple[int, ...] | None, threads: tuple[int, ...] = ()
    ) -> int:
        """Return the number of all that holds of a launch's arguments.

        Parameters
        ----------
        binding : Binding
            The arguments, with the addresses that the kernel will see.
        extent : tuple of int or None
            Of ``forall``.
        threads : tuple of int
            Of an explicit launch along each axis.
        """
        places = self._places.get(binding.codes)
        if places is None:
            places = tuple(place for array in binding.arrays for place in array.numbers)
            self._places[binding.codes] = places
        values = binding.values
        is_narrow = has_narrow_integers(binding.integers)
        key = (binding.codes, extent, threads, is_narrow, *[values[place] for place in places])
        number = self._known.get(key)
        return self._find(binding, extent, threads, key) if number is None else number

    def _find(
        self,
        binding: Binding,
        extent: tuple[int, ...] | None,
        threads: tuple[int, ...],
        key: tuple[Any, ...],
    ) -> int:
        arrays, written = binding.passed_arrays(), self._traits.written
        found = promises_of(arrays, extent or (), threads, binding.integers, written=written)
        number = self.number(found)
        with self._lock:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[key] = number
        return number

    def number(self, promises: Promises) -> int:
        """Return the number that stands for some promises."""
        with self._lock:
            number = self._numbers.get(promises)
            if number is None:
                number = self._numbers[promises] = len(self._found)
                self._found.append(promises)
        return number
