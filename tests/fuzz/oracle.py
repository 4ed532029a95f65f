"""A slow run of a generated program: threads are Python generators, a barrier is a ``yield``.

The program's text is parsed again and rewritten (:mod:`.rewriting`) so that every operation asks
:mod:`.typing` for its result; nothing of kerneldsl takes part.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tests.fuzz import typing
from tests.fuzz.rewriting import compile_program
from tests.support.arrays import poisoned

__all__ = ["DivergentBarrierError", "run"]

_Place = tuple[int, int, int]


class DivergentBarrierError(Exception):
    """Threads of a block wait at different barriers."""


class _Index(NamedTuple):
    x: Any
    y: Any
    z: Any


class _Atomic:
    """``kd.atomic``: one thread runs at a time."""

    @staticmethod
    def _update(function: Callable[[Any, Any], Any], array: Any, index: Any, value: Any) -> Any:
        old = array[index]
        array[index] = function(old, typing.cast(value, array.dtype.name))
        return old

    def add(self, array: Any, index: Any, value: Any) -> Any:
        return self._update(np.add, array, index, value)

    def sub(self, array: Any, index: Any, value: Any) -> Any:
        return self._update(np.subtract, array, index, value)

    def max(self, array: Any, index: Any, value: Any) -> Any:
        return self._update(np.fmax, array, index, value)

    def min(self, array: Any, index: Any, value: Any) -> Any:
        return self._update(np.fmin, array, index, value)

    def and_(self, array: Any, index: Any, value: Any) -> Any:
        return self._update(np.bitwise_and, array, index, value)

    def or_(self, array: Any, index: Any, value: Any) -> Any:
        return self._update(np.bitwise_or, array, index, value)

    def xor(self, array: Any, index: Any, value: Any) -> Any:
        return self._update(np.bitwise_xor, array, index, value)

    def exch(self, array: Any, index: Any, value: Any) -> Any:
        return self._update(lambda old, new: new, array, index, value)


class _Thread:
    """What a thread sees as ``kd``."""

    atomic = _Atomic()

    def __init__(self, launch: _Launch, block: _Place, thread: _Place, shared: dict[Any, Any]):
        self._launch = launch
        self._shared = shared
        self.blockIdx = _Index(*map(np.int64, block))
        self.threadIdx = _Index(*map(np.int64, thread))
        self.blockDim = launch.block_dim
        self.gridDim = launch.grid_dim

    def grid(self, ndim: int) -> Any:
        parts = [
            b * d + t for b, d, t in zip(self.blockIdx, self.blockDim, self.threadIdx, strict=True)
        ]
        return parts[0] if ndim == 1 else tuple(parts[: int(ndim)])

    def gridsize(self, ndim: int) -> Any:
        parts = [g * b for g, b in zip(self.gridDim, self.blockDim, strict=True)]
        return parts[0] if ndim == 1 else tuple(parts[: int(ndim)])

    def shared_array(self, site: Any, shape: Any, dtype: str) -> np.ndarray:
        if site not in self._shared:
            self._shared[site] = self._launch.undefined(shape, dtype)
        return self._shared[site]  # type: ignore[no-any-return]

    def local_array(self, shape: Any, dtype: str) -> np.ndarray:
        return self._launch.undefined(shape, dtype)

    @staticmethod
    def uniform(value: Any) -> Any:
        return value


class _Launch:
    """Shape of a launch, and in which order its threads run."""

    def __init__(self, grid: tuple[int, ...], block: tuple[int, ...], is_reversed: bool) -> None:
        self.grid_dim = _Index(*map(np.int64, (*grid, 1, 1)[:3]))
        self.block_dim = _Index(*map(np.int64, (*block, 1, 1)[:3]))
        self._is_reversed = is_reversed

    def undefined(self, shape: Any, dtype: str) -> np.ndarray:
        """An array with the contents of none; others where the order is reversed."""
        array = poisoned(shape, dtype)
        if self._is_reversed:
            array[...] = 1
        return array

    def order(self, things: Iterable[Any]) -> list[Any]:
        found = list(things)
        return found[::-1] if self._is_reversed else found

    def places(self, dim: _Index) -> Iterator[_Place]:
        for z, y, x in itertools.product(*(range(int(n)) for n in reversed(dim))):
            yield x, y, z


def run(
    text: str,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    args: tuple[Any, ...],
    *,
    is_reversed: bool = False,
) -> None:
    """Run the program's ``kernel`` on arrays, in place.

    Parameters
    ----------
    text : str
        The program.
    grid, block : tuple of int
        Blocks of the grid and threads of a block, x first. A launch by ``forall`` has blocks of
        one thread, and a grid of its extent: indices are then in the extent's order.
    args : tuple
        Arrays, and scalars: NumPy's, and Python's int, float and bool.
    is_forall : bool
        Whether ``grid`` gives indices in the extent's order.
    is_reversed : bool
        Whether blocks, and the threads of a block between barriers, run in reversed order, and
        undefined memory holds other values. A program whose results then differ has a race, or
        reads what it has not written.

    Raises
    ------
    DivergentBarrierError
        Threads of a block wait at different barriers.
    """
    kernel = compile_program(text)["kernel"]
    launch = _Launch(grid, block, is_reversed)
    given = [a if isinstance(a, np.ndarray) else typing.constant(a) for a in args]
    with np.errstate(all="ignore"):
        for block_idx in launch.order(launch.places(launch.grid_dim)):
            shared: dict[Any, Any] = {}
            threads = [
                kernel(_Thread(launch, block_idx, thread, shared), *given)
                for thread in launch.places(launch.block_dim)
            ]
            _run_block(threads, launch)


def _run_block(threads: list[Generator[Any, Any, None]], launch: _Launch) -> None:
    """Run to the next barrier, answer its vote, and so on; those that have ended take no part."""
    alive, answer = launch.order(threads), None
    while alive:
        waiting, stops = [], []
        for thread in alive:
            try:
                stops.append(thread.send(answer))
                waiting.append(thread)
            except StopIteration:
                continue
        places = {place for place, _ in stops}
        if len(places) > 1:
            raise DivergentBarrierError(f"threads wait at {places}")
        alive, answer = waiting, _answer(stops)


def _answer(stops: list[Any]) -> Any:
    if not stops or stops[0][1] is None:
        return None
    kind = stops[0][0][0]
    votes = [bool(vote) for _, vote in stops]
    return np.int32({"count": sum(votes), "and": all(votes), "or": any(votes)}[kind])
