"""A slow reference of a launch: one thread runs at a time, until it reaches a barrier or ends.

So a launch is deterministic. Two kinds of code are run on it: the kernel's own Python function
(:mod:`.python_kernels`), and generated programs with Numba's types (:mod:`tests.fuzz.oracle`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from kerneldsl.language.packed_numbers import PACKED_NUMBERS
from tests.support.arrays import poisoned
from tests.support.chains import CHAIN_WORDS, Chains
from tests.support.groups import GROUP_WORDS, of_group
from tests.support.ptx_words import NV
from tests.support.scalars import SCALARS
from tests.support.tile_words import TILE_WORDS, of_tile
from tests.support.vectors import VECTORS, VectorArray, VectorMaker, view
from tests.support.warps import EXCHANGES, WARP_SIZE, exchange

__all__ = [
    "BARRIERS",
    "GRID_BARRIER",
    "MEETINGS",
    "STOPS",
    "Body",
    "DivergentBarrierError",
    "Launch",
    "Stop",
    "Thread",
]

#: What all threads of a block wait at that live.
BARRIERS = frozenset(
    (
        *("syncthreads", "syncthreads_count", "syncthreads_and", "syncthreads_or"),
        *(f"block.{word}" for word in GROUP_WORDS),
        *(f"chain.{word}" for word in CHAIN_WORDS),
        *(f"tile.{word}" for word in TILE_WORDS),
    )
)
#: What all threads of a launch wait at, those that have ended included.
GRID_BARRIER = "grid_group.sync"
#: What the lanes of a warp meet at that reach it together.
MEETINGS = frozenset(f"warp.{word}" for word in GROUP_WORDS)
#: What the lanes of a warp wait at that a mask names and that live.
_OF_WARPS = EXCHANGES | {"syncwarp"}
#: The mask where none is given.
_ALL_LANES = 0xFFFFFFFF
#: All that a thread waits at.
STOPS = BARRIERS | _OF_WARPS | MEETINGS | {GRID_BARRIER}

_Place = tuple[int, int, int]
#: Where a thread waits, and with which arguments. The name of the call is first; of what lanes meet
#: at, where in the program it is, which can be compared, is last.
Stop = tuple[tuple[Any, ...], tuple[Any, ...]]


class DivergentBarrierError(Exception):
    """Threads of a block or a grid wait at different barriers."""


class Body(Protocol):
    """The code of one thread; a generator that yields its stops is one."""

    def send(self, answer: Any, /) -> Stop:
        """Run to the next stop; ``StopIteration`` is raised at the end."""


class _Index(NamedTuple):
    x: Any
    y: Any
    z: Any


def _index(given: int | tuple[int, ...]) -> _Index:
    parts = (given,) if isinstance(given, int) else given
    return _Index(*map(np.int64, (*parts, 1, 1)[:3]))


def _places(dim: _Index) -> Iterator[_Place]:
    for z, y, x in itertools.product(*(range(int(n)) for n in reversed(dim))):
        yield x, y, z


def _load(array: Any, index: Any, cache: str = "") -> Any:
    return array[index]


def _store(array: Any, index: Any, value: Any, cache: str = "") -> None:
    array[index] = value


#: What computes from one thread's values, or looks at an array.
_WORDS = {**SCALARS, **VECTORS, **PACKED_NUMBERS, "view": view, "load": _load, "store": _store}


class _Atomic:
    """``kd.atomic``: one thread runs at a time."""

    @staticmethod
    def _update(array: Any, index: Any, new: Callable[[Any], Any]) -> Any:
        old = array[index]
        array[index] = np.asarray(new(old)).astype(array.dtype)
        return old

    @staticmethod
    def load(array: Any, index: Any, order: str = "", scope: str = "") -> Any:
        return array[index]

    @staticmethod
    def store(array: Any, index: Any, value: Any, order: str = "", scope: str = "") -> None:
        array[index] = np.asarray(value).astype(array.dtype)

    def add(self, array: Any, index: Any, value: Any) -> Any:
        if isinstance(array, VectorArray):
            old = array[index]
            array[index] = old + value
            return old
        return self._update(array, index, lambda old: old + array.dtype.type(value))

    def sub(self, array: Any, index: Any, value: Any) -> Any:
        return self._update(array, index, lambda old: old - array.dtype.type(value))

    def max(self, array: Any, index: Any, value: Any) -> Any:
        return self._update(array, index, lambda old: np.fmax(old, array.dtype.type(value)))

    def min(self, array: Any, index: Any, value: Any) -> Any:
        return self._update(array, index, lambda old: np.fmin(old, array.dtype.type(value)))

    def and_(self, array: Any, index: Any, value: Any) -> Any:
        return self._update(array, index, lambda old: old & array.dtype.type(value))

    def or_(self, array: Any, index: Any, value: Any) -> Any:
        return self._update(array, index, lambda old: old | array.dtype.type(value))

    def xor(self, array: Any, index: Any, value: Any) -> Any:
        return self._update(array, index, lambda old: old ^ array.dtype.type(value))

    def exch(self, array: Any, index: Any, value: Any) -> Any:
        return self._update(array, index, lambda old: value)

    def cas(self, array: Any, index: Any, expected: Any, value: Any) -> Any:
        bits = array.dtype.type(expected).tobytes()
        return self._update(array, index, lambda old: value if old.tobytes() == bits else old)

    def inc(self, array: Any, index: Any, value: Any) -> Any:
        return self._update(array, index, lambda old: 0 if old >= value else int(old) + 1)

    def dec(self, array: Any, index: Any, value: Any) -> Any:
        return self._update(
            array, index, lambda old: value if old == 0 or old > value else int(old) - 1
        )


class Thread:
    """What a thread sees as ``kd``, but for what it waits at."""

    atomic = _Atomic()
    nv = NV
    warpsize = np.int64(WARP_SIZE)

    def __init__(self, launch: Launch, block: _Place, thread: _Place, shared: dict[Any, Any]):
        self._launch = launch
        self._shared = shared
        #: Where the loops stand that the thread is in, and in which turn it is, outermost first.
        self.turns: list[tuple[Any, int]] = []
        self.blockIdx = _index(block)
        self.threadIdx = _index(thread)
        self.blockDim = launch.block_dim
        self.gridDim = launch.grid_dim
        width, height, _ = launch.block_dim
        self.linear = int((thread[2] * height + thread[1]) * width + thread[0])
        self.laneid = np.int64(self.linear % WARP_SIZE)

    def lanemask_lt(self) -> Any:
        return np.uint32((1 << int(self.laneid)) - 1)

    def grid(self, ndim: int) -> Any:
        parts = [
            b * d + t for b, d, t in zip(self.blockIdx, self.blockDim, self.threadIdx, strict=True)
        ]
        return parts[0] if ndim == 1 else tuple(parts[: int(ndim)])

    def gridsize(self, ndim: int) -> Any:
        parts = [g * b for g, b in zip(self.gridDim, self.blockDim, strict=True)]
        return parts[0] if ndim == 1 else tuple(parts[: int(ndim)])

    def shared_array(self, site: Any, shape: Any, dtype: Any) -> np.ndarray:
        """Array of the block; every dynamic one, whose shape is 0, is a view of one memory."""
        is_dynamic = shape in (0, (0,))
        key = "dynamic" if is_dynamic else site
        if key not in self._shared:
            made = (self._launch.shared_bytes, np.uint8) if is_dynamic else (shape, dtype)
            self._shared[key] = self._launch.undefined(*made)
        found: np.ndarray = self._shared[key]
        if is_dynamic:
            return found[: found.size - found.size % np.dtype(dtype).itemsize].view(dtype)
        return found

    def local_array(self, shape: Any, dtype: Any) -> np.ndarray:
        return self._launch.undefined(shape, dtype)

    def threadfence(self) -> None:
        """Order memory: nothing to do where one thread runs at a time."""

    threadfence_block = threadfence_system = threadfence

    def __getattr__(self, name: str) -> Any:
        """Return what computes from one thread's values alone."""
        try:
            return _WORDS[name]
        except KeyError:
            raise AttributeError(name) from None


class Launch:
    """Shape of a launch, and in which order its threads run.

    Parameters
    ----------
    grid, block : int or tuple of int
        Blocks of the grid and threads of a block, x first. A launch by ``forall`` has blocks of
        one thread, and a grid of its extent: indices are then in the extent's order.
    shared_bytes : int
        Dynamic shared memory of a block.
    is_reversed : bool
        Whether blocks, and the threads of a block between barriers, run in reversed order, and
        undefined memory holds other values. A kernel whose results then differ has a race, or
        reads what it has not written.
    """

    def __init__(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...] = 1,
        shared_bytes: int = 0,
        *,
        is_reversed: bool = False,
    ) -> None:
        self.grid_dim, self.block_dim = _index(grid), _index(block)
        self.shared_bytes = shared_bytes
        self._is_reversed = is_reversed
        x, y, z = map(int, self.grid_dim)
        self._chains = Chains(x * y * z)

    def run(self, start: Callable[[Thread], Body]) -> None:
        """Run the code that `start` gives for each thread.

        Raises
        ------
        DivergentBarrierError
            Threads of a block or a grid wait at different barriers.
        """
        with np.errstate(all="ignore"):
            blocks = [self._run_block(place, start) for place in _places(self.grid_dim)]
            while blocks:
                blocks = self._order(blocks)
                waiting = [block for block in blocks if next(block, None) is not None]
                if waiting and len(waiting) < len(blocks):
                    ended = len(blocks) - len(waiting)
                    raise DivergentBarrierError(f"{ended} blocks never reach the grid's barrier")
                blocks = self._order(waiting)

    def undefined(self, shape: Any, dtype: Any) -> Any:
        """Return an array with the contents of none; others where the order is reversed."""
        if isinstance(dtype, VectorMaker):
            return dtype.undefined(shape)
        array = poisoned(shape, dtype)
        if self._is_reversed:
            array[...] = 1
        return array

    def _order(self, things: Iterable[Any]) -> list[Any]:
        found = list(things)
        return found[::-1] if self._is_reversed else found

    def _run_block(self, place: _Place, start: Callable[[Thread], Body]) -> Iterator[bool]:
        """Run to the next barrier, answer it, and so on; those that have ended take no part.

        It yields at barriers of the grid.
        """
        shared: dict[Any, Any] = {}
        made = [Thread(self, place, each, shared) for each in _places(self.block_dim)]
        threads = {thread.linear: start(thread) for thread in made}
        ready: dict[int, Any] = dict.fromkeys(threads)
        stops: dict[int, Stop] = {}
        while ready:
            for number in self._order(sorted(ready)):
                stops.pop(number, None)
                try:
                    stops[number] = threads[number].send(ready[number])
                except StopIteration:
                    continue
            if [stop[0][0] for stop in stops.values()] == [GRID_BARRIER] * len(threads):
                yield True
                ready = dict.fromkeys(threads)
                continue
            ready = (
                _met_in_warps(stops)
                or _met_together(stops)
                or _met(stops, len(threads), self._chains)
            )


def _met_in_warps(stops: dict[int, Stop]) -> dict[int, Any]:
    """Answers of what lanes wait at, where all are that the masks name and that live."""
    answers: dict[int, Any] = {}
    meetings: dict[Any, dict[int, Any]] = {}
    for number, (place, given) in stops.items():
        if place[0] in _OF_WARPS:
            warp, lane = divmod(number, WARP_SIZE)
            meetings.setdefault((warp, place), {})[lane] = given or (_ALL_LANES,)
    for (warp, place), lanes in meetings.items():
        living = {number % WARP_SIZE for number in stops if number // WARP_SIZE == warp}
        named = {lane for lane in living for args in lanes.values() if int(args[0]) >> lane & 1}
        if named <= lanes.keys() or place[0] == "activemask":
            found = exchange(place[0], lanes) if place[0] in EXCHANGES else dict.fromkeys(lanes)
            answers |= {warp * WARP_SIZE + lane: answer for lane, answer in found.items()}
    return answers


def _met_together(stops: dict[int, Stop]) -> dict[int, Any]:
    """Answers of what lanes meet at: in each warp the place that the program comes to first."""
    answers: dict[int, Any] = {}
    warps: dict[int, dict[Any, dict[int, Any]]] = {}
    for number, (place, given) in stops.items():
        if place[0] in MEETINGS:
            places = warps.setdefault(number // WARP_SIZE, {})
            places.setdefault(place, {})[number % WARP_SIZE] = given
    for warp, places in warps.items():
        place = min(places, key=lambda each: each[-1])
        found = of_group(place[0].partition(".")[2], places[place])
        answers |= {warp * WARP_SIZE + lane: answer for lane, answer in found.items()}
    return answers


def _met(stops: dict[int, Stop], threads: int, chains: Chains) -> dict[int, Any]:
    """The answer of the barrier at which all threads are that live, of the block's `threads`."""
    places = {place for place, _ in stops.values()}
    if len(places) > 1 or any(place[0] in (*_OF_WARPS, GRID_BARRIER) for place in places):
        raise DivergentBarrierError(f"threads wait at {places}")
    if places:
        group, _, word = next(iter(places))[0].partition(".")
        if group == "chain":
            return dict.fromkeys(stops, chains.answer(word, stops[min(stops)][1]))
        if group == "block":
            return of_group(word, {number: given for number, (_, given) in stops.items()})
        if group == "tile":
            if len(stops) < threads:
                raise DivergentBarrierError(f"{threads - len(stops)} threads never reach {places}")
            return of_tile(word, {number: given for number, (_, given) in stops.items()})
    votes = [bool(given[0]) for _, given in stops.values() if given]
    answers = {"count": sum(votes), "and": all(votes), "or": any(votes)}
    return {
        number: np.int32(answers[place[0].removeprefix("syncthreads_")]) if given else None
        for number, (place, given) in stops.items()
    }
