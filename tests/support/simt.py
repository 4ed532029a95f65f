"""A slow reference: the kernel's own Python function, run for each thread of a block.

One thread runs at a time and keeps running until it reaches a barrier or ends, so a launch is
deterministic. Where a kernel names no barrier its threads run one after the other; else each has a
Python thread of its own. A round in which the living threads of a block do not stop at the same
barrier is reported. Arithmetic is NumPy's: a kernel that is to be compared bit for bit says its
types (``np.float32(2)``), as NumPy and Numba promote Python numbers differently.
"""

from __future__ import annotations

import itertools
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import kerneldsl as kd
from kerneldsl.language.intrinsics import INTRINSICS
from tests.support.arrays import poisoned
from tests.support.warps import EXCHANGES, WARP_SIZE, exchange, popc

__all__ = ["Index", "python_function", "simulate", "simulate_forall"]


class Index(NamedTuple):
    """A coordinate or size along x, y and z."""

    x: int
    y: int
    z: int

    @property
    def volume(self) -> int:
        """Product of the three."""
        return self.x * self.y * self.z


def _index(given: int | tuple[int, ...]) -> Index:
    parts = (given,) if isinstance(given, int) else tuple(given)
    padded = (*parts, 1, 1, 1)
    return Index(*padded[:3])


def _each(dim: Index) -> Iterator[Index]:
    for z, y, x in itertools.product(range(dim.z), range(dim.y), range(dim.x)):
        yield Index(x, y, z)


def python_function(decorated: Any) -> Callable[..., Any]:
    """Return the Python function behind a kernel or device function."""
    return decorated.__wrapped__  # type: ignore[no-any-return]


#: What a kernel with a barrier names, in its own code or in that of a device function.
_BARRIERS = frozenset(name for name, known in INTRINSICS.items() if known.is_barrier)


class _Thread:
    """One thread of a block; with a barrier, a Python thread that waits for its turn runs it."""

    def __init__(self, thread_idx: Index, linear: int) -> None:
        self.thread_idx = thread_idx
        self.linear = linear
        self.turn = threading.Semaphore(0)
        self.pause = threading.Semaphore(0)
        self.stopped_at: tuple[str, int] | None = None
        self.vote: Any = None
        self.answer: Any = 0
        self.is_done = False
        self.error: BaseException | None = None

    def start(self, body: Callable[[], Any]) -> None:
        def work() -> None:
            self.turn.acquire()
            try:
                body()
            except BaseException as error:  # noqa: BLE001 - handed to the launching thread
                self.error = error
            self.is_done = True
            self.pause.release()

        threading.Thread(target=work, daemon=True).start()

    def step(self) -> None:
        self.turn.release()
        self.pause.acquire()
        if self.error is not None:
            raise self.error

    def wait(self, place: tuple[str, int], vote: Any) -> Any:
        self.stopped_at, self.vote = place, vote
        self.pause.release()
        self.turn.acquire()
        return self.answer


class _Atomic:
    """``kd.atomic`` on NumPy arrays; only one thread runs at a time."""

    @staticmethod
    def _update(array: np.ndarray, index: Any, new: Callable[[Any], Any]) -> Any:
        old = array[index]
        with np.errstate(all="ignore"):
            array[index] = np.asarray(new(old)).astype(array.dtype)
        return old

    def add(self, array: np.ndarray, index: Any, value: Any) -> Any:
        return self._update(array, index, lambda old: old + array.dtype.type(value))

    def sub(self, array: np.ndarray, index: Any, value: Any) -> Any:
        return self._update(array, index, lambda old: old - array.dtype.type(value))

    def max(self, array: np.ndarray, index: Any, value: Any) -> Any:
        return self._update(array, index, lambda old: np.fmax(old, array.dtype.type(value)))

    def min(self, array: np.ndarray, index: Any, value: Any) -> Any:
        return self._update(array, index, lambda old: np.fmin(old, array.dtype.type(value)))

    def exch(self, array: np.ndarray, index: Any, value: Any) -> Any:
        return self._update(array, index, lambda old: value)

    def cas(self, array: np.ndarray, index: Any, expected: Any, value: Any) -> Any:
        bits = array.dtype.type(expected).tobytes()
        return self._update(array, index, lambda old: value if old.tobytes() == bits else old)

    def and_(self, array: np.ndarray, index: Any, value: Any) -> Any:
        return self._update(array, index, lambda old: old & array.dtype.type(value))

    def or_(self, array: np.ndarray, index: Any, value: Any) -> Any:
        return self._update(array, index, lambda old: old | array.dtype.type(value))

    def xor(self, array: np.ndarray, index: Any, value: Any) -> Any:
        return self._update(array, index, lambda old: old ^ array.dtype.type(value))

    def inc(self, array: np.ndarray, index: Any, value: Any) -> Any:
        return self._update(array, index, lambda old: 0 if old >= value else int(old) + 1)

    def dec(self, array: np.ndarray, index: Any, value: Any) -> Any:
        return self._update(
            array, index, lambda old: value if old == 0 or old > value else int(old) - 1
        )


class _Language:
    """Stands in for the ``kd`` of a kernel: one block of one launch."""

    warpsize = WARP_SIZE
    atomic = _Atomic()

    def __init__(
        self, grid_dim: Index, block_dim: Index, shared_bytes: int, extent: tuple[int, ...] | None
    ) -> None:
        self.gridDim, self.blockDim = grid_dim, block_dim
        self.blockIdx = Index(0, 0, 0)
        self._extent = extent
        self._shared_bytes = shared_bytes
        self._current: _Thread | None = None
        #: Whether a thread may have to wait for others, which a Python thread of its own does.
        self.has_barriers = False
        self._shared: dict[Any, np.ndarray] = {}
        self._dynamic: np.ndarray | None = None
        self.shared = types.SimpleNamespace(array=self._shared_array)
        self.local = types.SimpleNamespace(array=lambda shape, dtype: poisoned(shape, dtype))

    # -- coordinates ---------------------------------------------------------------------------
    @property
    def threadIdx(self) -> Index:
        assert self._current is not None
        return self._current.thread_idx

    @property
    def laneid(self) -> int:
        assert self._current is not None
        return self._current.linear % WARP_SIZE

    def _take(self, values: tuple[int, ...], ndim: int) -> Any:
        return values[0] if ndim == 1 else tuple(values[:ndim])

    def grid(self, ndim: int) -> Any:
        return self._take(
            tuple(
                b * d + t
                for b, d, t in zip(self.blockIdx, self.blockDim, self.threadIdx, strict=True)
            ),
            ndim,
        )

    def gridsize(self, ndim: int) -> Any:
        if self._extent is not None:
            return self._take(self._extent, ndim)
        return self._take(
            tuple(g * b for g, b in zip(self.gridDim, self.blockDim, strict=True)), ndim
        )

    # -- memory --------------------------------------------------------------------------------
    def _shared_array(self, shape: Any, dtype: Any) -> np.ndarray:
        if shape in (0, (0,)):
            if self._dynamic is None:
                self._dynamic = poisoned(self._shared_bytes, np.uint8)
            whole = self._shared_bytes - self._shared_bytes % np.dtype(dtype).itemsize
            return self._dynamic[:whole].view(dtype)
        frame = sys._getframe(1)
        site = (frame.f_code, frame.f_lineno)
        if site not in self._shared:
            self._shared[site] = poisoned(shape, dtype)
        return self._shared[site]

    # -- synchronization -----------------------------------------------------------------------
    def _barrier(self, kind: str, vote: Any = None) -> Any:
        assert self._current is not None
        assert self.has_barriers, f"{kind} is reached under a name that no code of the kernel has"
        return self._current.wait((kind, sys._getframe(2).f_lineno), vote)

    def syncthreads(self) -> None:
        self._barrier("syncthreads")

    def syncthreads_count(self, predicate: Any) -> Any:
        return self._barrier("count", predicate)

    def syncthreads_and(self, predicate: Any) -> Any:
        return self._barrier("and", predicate)

    def syncthreads_or(self, predicate: Any) -> Any:
        return self._barrier("or", predicate)

    def syncwarp(self, mask: int = 0xFFFFFFFF) -> None:
        self._barrier("syncwarp")

    def __getattr__(self, name: str) -> Any:
        if name not in EXCHANGES:
            raise AttributeError(name)
        return lambda *args: self._barrier(name, args)

    def threadfence(self) -> None:
        """Order memory: nothing to do where one thread runs at a time."""

    threadfence_block = threadfence_system = threadfence

    popc = staticmethod(popc)

    @staticmethod
    def uniform(value: Any) -> Any:
        return value

    # -- running -------------------------------------------------------------------------------
    def run_block(self, block_idx: Index, body: Callable[[], Any]) -> None:
        self.blockIdx = block_idx
        self._shared, self._dynamic = {}, None
        threads = [_Thread(t, n) for n, t in enumerate(_each(self.blockDim))]
        if not self.has_barriers:
            for thread in threads:
                self._current = thread
                body()
            return
        for thread in threads:
            thread.start(body)
        alive = threads
        running = threads
        while alive:
            for thread in running:
                self._current = thread
                thread.step()
            alive = [t for t in alive if not t.is_done]
            running = self._release(alive)

    def _release(self, alive: list[_Thread]) -> list[_Thread]:
        """Return the threads that may go on: of whole warps, else the block's."""
        waiting = [t for t in alive if t.stopped_at and t.stopped_at[0] == "syncwarp"]
        waiting += self._exchanged(alive)
        if waiting:
            return waiting
        places = {t.stopped_at for t in alive}
        assert len(places) <= 1, f"divergent barriers: {places}"
        votes = [bool(t.vote) for t in alive]
        for thread in alive:
            kind = thread.stopped_at[0] if thread.stopped_at else ""
            if kind == "count":
                thread.answer = sum(votes)
            elif kind in ("and", "or"):
                thread.answer = int(all(votes) if kind == "and" else any(votes))
        return alive

    @staticmethod
    def _exchanged(alive: list[_Thread]) -> list[_Thread]:
        """Answer those exchanges whose lanes are all there that a mask names and that live."""
        ready: list[_Thread] = []
        meetings: dict[Any, list[_Thread]] = {}
        for thread in alive:
            if thread.stopped_at and thread.stopped_at[0] in EXCHANGES:
                key = (thread.linear // WARP_SIZE, thread.stopped_at)
                meetings.setdefault(key, []).append(thread)
        for (warp, (name, _)), threads in meetings.items():
            given = {t.linear % WARP_SIZE: t.vote for t in threads}
            living = {t.linear % WARP_SIZE for t in alive if t.linear // WARP_SIZE == warp}
            named = {lane for lane in living for args in given.values() if args[0] >> lane & 1}
            if named <= given.keys():
                answers = exchange(name, given)
                for thread in threads:
                    thread.answer = answers[thread.linear % WARP_SIZE]
                ready += threads
        return ready


def _rebind(function: Callable[..., Any], language: _Language, done: dict[int, Any]) -> Any:
    """Return the function with our `language` for its ``kd``, its device functions likewise."""

    def replace(value: Any) -> Any:
        if value is kd:
            return language
        if isinstance(value, type(_device_function)):
            inner = python_function(value)
            if id(inner) not in done:
                done[id(inner)] = _rebind(inner, language, done)
            return done[id(inner)]
        return value

    code = function.__code__
    names = set(code.co_names)
    language.has_barriers |= not names.isdisjoint(_BARRIERS)
    scope = {k: replace(v) if k in names else v for k, v in function.__globals__.items()}
    cells = tuple(types.CellType(replace(c.cell_contents)) for c in function.__closure__ or ())
    return types.FunctionType(code, scope, function.__name__, function.__defaults__, cells)


@kd.func
def _device_function(x):  # type: ignore[no-untyped-def]
    return x


def simulate(
    kernel: Any,
    grid: int | tuple[int, ...],
    block: int | tuple[int, ...],
    args: tuple[Any, ...],
    shared_bytes: int = 0,
) -> None:
    """Run ``kernel[grid, block](*args)`` on NumPy arrays, in place."""
    language = _Language(_index(grid), _index(block), shared_bytes, None)
    body = _rebind(python_function(kernel), language, {})
    with np.errstate(all="ignore"):
        for block_idx in _each(language.gridDim):
            language.run_block(block_idx, lambda: body(*args))


def simulate_forall(kernel: Any, extent: tuple[int, ...], args: tuple[Any, ...]) -> None:
    """Run ``kernel.forall(*extent)(*args)`` of an element kernel on NumPy arrays, in place.

    A thread's coordinates are its index, as if every block had one thread.
    """
    language = _Language(_index(extent), Index(1, 1, 1), 0, extent)
    body = _rebind(python_function(kernel), language, {})
    with np.errstate(all="ignore"):
        for place in itertools.product(*(range(e) for e in extent)):
            language.run_block(_index(tuple(place)), lambda: body(*args))
