"""Give what ``kd.chain`` gives, for the slow references, and what it leaves in its state.

Blocks run one after the other here, so all values before a part's are known when it asks. The order
in which they are combined is that of the language page, written down once more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.support.groups import added_as, of_one_type, rounded, tree

__all__ = ["CHAIN_WORDS", "Chains"]

CHAIN_WORDS = ("next", "publish", "before")
_FANOUT = 32


def _add(a: Any, b: Any) -> Any:
    return a + b


def _announced(part: Any, value: Any, op: Any) -> tuple[Any, ...]:
    given = np.asarray(value)
    return int(part), given.dtype, given.tobytes(), op is None


class Chains:
    """The chains of one launch of some blocks."""

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks
        #: By the address of a state, the nodes of each level.
        self._levels: dict[int, list[list[Any]]] = {}
        #: By the same, what a block has published and not yet given to `before`.
        self._published: dict[int, tuple[Any, ...]] = {}

    def answer(self, word: str, given: tuple[Any, ...]) -> Any:
        """Return what every thread of a block gets."""
        words = {"next": self._next, "publish": self._announce, "before": self._before}
        return words[word](*given)

    @staticmethod
    def _next(state: np.ndarray) -> Any:
        part = int(state[0]) & 0xFFFFFFFF
        state[0] += state.dtype.type(1)
        return np.int64(part)

    def _announce(self, state: np.ndarray, part: Any, value: Any, op: Any) -> None:
        """Note what the block must give to `before`, whose answer it does not change."""
        assert state.ctypes.data not in self._published, "a block publishes one value"
        self._published[state.ctypes.data] = _announced(part, value, op)

    def _before(self, state: np.ndarray, part: Any, value: Any, op: Any, initial: Any) -> Any:
        own = added_as(value) if op is None else np.asarray(value)[()]
        combine = _add if op is None else of_one_type(op)
        levels = self._levels.setdefault(state.ctypes.data, [[]])
        assert len(levels[0]) == int(part), "parts ask in their order here"
        given = _announced(part, value, op)
        assert self._published.pop(state.ctypes.data, given) == given, "it was published otherwise"
        before = self._known(levels, combine)
        self._append(state, levels, own, combine)
        kind = type(own)
        start = None if initial is None else kind(rounded(initial, value))
        if before is None:
            result = kind(0) if start is None else start
        else:
            result = before if start is None else combine(start, before)
        if int(part) + 1 == self._blocks:
            self._write(state, 0, int(state[0]) >> 32 << 32)
            state[0] += state.dtype.type(1 << 32)
        return rounded(result, value)

    @staticmethod
    def _known(levels: list[list[Any]], combine: Callable[[Any, Any], Any]) -> Any:
        """All values so far: the nodes of each level that are in no node of the next."""
        before = None
        for level in levels:
            rest = level[len(level) - len(level) % _FANOUT :]
            if rest:
                total = tree(dict(enumerate(rest)), combine)
                before = total if before is None else combine(total, before)
        return before

    def _append(
        self, state: np.ndarray, levels: list[list[Any]], node: Any, combine: Callable[..., Any]
    ) -> None:
        start, length = 0, self._blocks
        for number in range(len(levels) + 1):
            if number == len(levels):
                levels.append([])
            level = levels[number]
            self._publish(state, start + len(level), node)
            level.append(node)
            if len(level) % _FANOUT:
                return
            others = dict(enumerate(level[-_FANOUT:-1]))
            node = combine(tree(others, combine), node)
            start, length = start + length, length // _FANOUT

    def _publish(self, state: np.ndarray, number: int, node: Any) -> None:
        value = np.asarray(node)
        if value.dtype.itemsize == 2 and value.dtype.kind not in "iu":
            value = value.astype(np.float32)  # as which floats of 16 bits are computed
        data = value.tobytes()
        pieces = -(-len(data) // 4)
        bits = int.from_bytes(data, "little")
        launch = (int(state[0]) >> 32) + 1
        for piece in range(pieces):
            word = launch << 32 | bits >> 32 * piece & 0xFFFFFFFF
            first = 4 + number * 4 if state.size >= 6 * self._blocks else 1 + number * pieces
            self._write(state, first + piece, word)

    @staticmethod
    def _write(state: np.ndarray, number: int, word: int) -> None:
        state[number] = np.uint64(word).astype(state.dtype)
