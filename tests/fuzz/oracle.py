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
from tests.support.warps import EXCHANGES, WARP_SIZE, exchange, popc

__all__ = ["DivergentBarrierError", "run"]

_Place = tuple[int, int, int]
#: Where a thread waits, with what it brings: a vote, or what it gives to an exchange.
_Stop = tuple[Any, Any]


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
        width, height, _ = launch.block_dim
        self.linear = int((thread[2] * height + thread[1]) * width + thread[0])
        self.laneid = np.int64(self.linear % WARP_SIZE)
        self.warpsize = np.int64(WARP_SIZE)

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

    popc = staticmethod(popc)

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
                _Thread(launch, block_idx, thread, shared)
                for thread in launch.places(launch.block_dim)
            ]
            running = {thread.linear: kernel(thread, *given) for thread in threads}
            _run_block(running, launch)


def _run_block(threads: dict[int, Generator[Any, Any, None]], launch: _Launch) -> None:
    """Run to the next barrier, answer it, and so on; those that have ended take no part."""
    ready: dict[int, Any] = dict.fromkeys(threads)
    stops: dict[int, _Stop] = {}
    while ready:
        for number in launch.order(sorted(ready)):
            stops.pop(number, None)
            try:
                stops[number] = threads[number].send(ready[number])
            except StopIteration:
                continue
        ready = _exchanged(stops) or _met(stops)


def _exchanged(stops: dict[int, _Stop]) -> dict[int, Any]:
    """Answers of the exchanges at which all lanes are that the masks name and that live."""
    answers: dict[int, Any] = {}
    meetings: dict[Any, dict[int, Any]] = {}
    for number, (place, given) in stops.items():
        if place[0] in EXCHANGES:
            warp, lane = divmod(number, WARP_SIZE)
            meetings.setdefault((warp, place), {})[lane] = given
    for (warp, place), lanes in meetings.items():
        living = {number % WARP_SIZE for number in stops if number // WARP_SIZE == warp}
        named = {lane for lane in living for args in lanes.values() if int(args[0]) >> lane & 1}
        if named <= lanes.keys():
            found = exchange(place[0], lanes)
            answers |= {warp * WARP_SIZE + lane: answer for lane, answer in found.items()}
    return answers


def _met(stops: dict[int, _Stop]) -> dict[int, Any]:
    """The answer of the barrier at which all threads are that live."""
    places = {place for place, _ in stops.values()}
    if len(places) > 1:
        raise DivergentBarrierError(f"threads wait at {places}")
    answer = _answer(list(stops.values()))
    return dict.fromkeys(stops, answer)


def _answer(stops: list[_Stop]) -> Any:
    if not stops or stops[0][1] is None:
        return None
    kind = stops[0][0][0]
    votes = [bool(vote) for _, vote in stops]
    return np.int32({"count": sum(votes), "and": all(votes), "or": any(votes)}[kind])
