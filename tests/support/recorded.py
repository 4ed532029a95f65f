"""A slow reference of what a launch does to memory: each thread's accesses, one after the other.

A kernel's own Python function is run on arrays that note who touches which bytes (:mod:`.simt`);
sectors, wavefronts and bytes are then counted lane by lane.
"""

from __future__ import annotations

import itertools
import sys
from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np

from tests.support import python_kernels
from tests.support.simt import Launch

__all__ = ["Counted", "record", "sectors_of", "wavefronts_of"]

#: Variables that tell a loop's rounds apart.
_ROUNDS = ("r", "d")


class Counted(NamedTuple):
    """Sums over the requests of all warps, for one array and loads or stores."""

    requests: int
    lanes: int
    sectors: int
    wavefronts: int


class _Recording(np.ndarray):
    """An array that notes the element that each access means."""

    log: list[Any]
    label: str

    def __array_finalize__(self, made_from: Any) -> None:
        self.log = getattr(made_from, "log", None)
        self.label = getattr(made_from, "label", "")

    def _note(self, index: Any, is_store: bool) -> None:
        frame = outer = sys._getframe(2)
        rounds: list[int] = []
        while True:
            rounds += [int(outer.f_locals[name]) for name in _ROUNDS if name in outer.f_locals]
            language = outer.f_globals.get("kd")
            if isinstance(language, python_kernels.Language):
                break
            assert outer.f_back is not None
            outer = outer.f_back
        thread = language.turn.thread
        parts = index if isinstance(index, tuple) else (index,)
        offset = sum(int(i) * s for i, s in zip(parts, self.strides, strict=True))
        block = tuple(map(int, thread.blockIdx))
        # Not the instruction: Python rewrites it when it has run some times.
        place = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
        where = (self.label, is_store, place, tuple(rounds))
        self.log.append((where, block, thread.linear, offset, self.itemsize))

    def __getitem__(self, index: Any) -> Any:
        self._note(index, False)
        return np.asarray(self)[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._note(index, True)
        np.asarray(self)[index] = value


def _recording(array: np.ndarray, label: str, log: list[Any]) -> Any:
    made = array.view(_Recording)
    made.label, made.log = label, log
    return made


def sectors_of(offsets: list[int], nbytes: int) -> int:
    """Count the sectors of 32 bytes that some lanes touch."""
    return len({byte // 32 for offset in offsets for byte in range(offset, offset + nbytes)})


def wavefronts_of(lanes: dict[int, int], nbytes: int) -> int:
    """Count the wavefronts that lanes take, by their number and first byte.

    Each part of a warp is served by itself, and in each part the bank with the most words counts.
    """
    words = max(1, nbytes // 4)
    parts: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for lane, offset in lanes.items():
        for k in range(words):
            word = offset // 4 + k
            parts[lane // (32 // words)][word % 32].add(word)
    return sum(max(map(len, banks.values())) for banks in parts.values())


def record(
    kernel: Any, grid: Any, block: Any, args: tuple[Any, ...], shared_bytes: int = 0
) -> dict[tuple[str, bool], Counted]:
    """Run a kernel and count, for each parameter and ``"shared"``, its loads and its stores.

    NumPy arrays are taken to begin at a sector's first byte.
    """
    log: list[Any] = []
    names = python_kernels.python_function(kernel).__code__.co_varnames

    class Recorded(Launch):
        def undefined(self, shape: Any, dtype: Any) -> Any:
            return _recording(np.zeros(shape, dtype), "shared", log)

    given = tuple(
        _recording(a, name, log) if isinstance(a, np.ndarray) else a
        for name, a in zip(names, args, strict=False)
    )
    launch = Recorded(grid, block, shared_bytes)
    python_kernels.simulate_launch(kernel, launch, given)
    requests: dict[Any, dict[int, int]] = defaultdict(dict)
    sizes: dict[Any, int] = {}
    for where, place, linear, offset, nbytes in log:
        key = (where, place, linear // 32)
        assert linear % 32 not in requests[key], "a lane accesses it twice in a round"
        requests[key][linear % 32] = offset
        sizes[key] = nbytes
    found: dict[tuple[str, bool], Counted] = {}
    for key, lanes in requests.items():
        (label, is_store, *_), nbytes = key[0], sizes[key]
        old = found.get((label, is_store), Counted(0, 0, 0, 0))
        found[label, is_store] = Counted(
            old.requests + 1,
            old.lanes + len(lanes),
            old.sectors + sectors_of(list(lanes.values()), nbytes),
            old.wavefronts + wavefronts_of(lanes, nbytes),
        )
    return found
