"""What the functions of products do for the threads of a simulated device."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from targets.cuda.compile.mma.instructions import STEPS
from tests.support.warp import multiply

__all__ = ["Copies", "give_matrices", "is_of_warp", "rounded"]

_ROW_BYTES = 16
#: Memory that a copy has not reached yet.
_NOT_COPIED = 0xA5


class Copies:
    """Asynchronous copies of one thread, which happen when the thread waits for them."""

    def __init__(self) -> None:
        self._groups: list[list[Callable[[], None]]] = [[]]

    def run(self, name: str, given: Sequence[int]) -> None:
        """Run ``matrix_copy…``, ``matrix_commit`` or ``matrix_wait_…``."""
        match name.split("_"):
            case ["matrix", "copy", *_]:
                self._start(*given)
            case ["matrix", "commit"]:
                self._groups.append([])
            case ["matrix", "wait", pending]:
                done = self._groups[: len(self._groups) - 1 - int(pending)]
                for copy in (copy for group in done for copy in group):
                    copy()
                del self._groups[: len(done)]

    def _start(self, target: int, source: int, nbytes: int = _ROW_BYTES) -> None:
        assert target % _ROW_BYTES == 0
        ctypes.memset(target, _NOT_COPIED, _ROW_BYTES)

        def copy() -> None:
            ctypes.memset(target, 0, _ROW_BYTES)
            if nbytes:
                assert source % _ROW_BYTES == 0
                ctypes.memmove(target, source, nbytes)

        self._groups[-1].append(copy)


def is_of_warp(name: str) -> bool:
    """Return whether the lanes of a warp run a function together."""
    return name.startswith(("matrix_product_", "matrix_load_"))


def rounded(word: int) -> int:
    """Round the bits of a float32 to those of a tf32, ties away from zero."""
    return (word + 0x1000) & 0xFFFFE000


def give_matrices(name: str, given: Sequence[Sequence[int]]) -> None:
    """Run a function for the arguments of all lanes of a warp."""
    if name.startswith("matrix_load_"):
        _load(name, given)
        return
    step = STEPS[name]
    kind, count = np.dtype(step.accumulator), len(step.factors[0])
    word = np.float64 if step.itemsize == 8 else np.uint32
    registers = np.array([lane[1:] for lane in given])
    registers = (registers if step.itemsize == 8 else registers.astype(np.int64)).astype(word)
    memory = [_array(lane[0], 4, kind) for lane in given]
    added = np.stack(memory)
    found = multiply(
        step.dtypes, list(registers[:, :count].T), list(registers[:, count:].T), list(added.T)
    )
    for lane, values in zip(memory, np.stack(found, 1), strict=True):
        lane[:] = values


def _array(address: int, count: int, dtype: Any) -> Any:
    buffer = (ctypes.c_uint8 * (count * np.dtype(dtype).itemsize)).from_address(address)
    return np.frombuffer(buffer, dtype)


def _load(name: str, given: Sequence[Sequence[int]]) -> None:
    words = name.split("_")
    count, is_turned = int(words[2]), words[-1] == "trans"
    found = np.zeros((32, count), np.uint32)
    for matrix in range(count):
        starts = [given[8 * matrix + row][1] for row in range(8)]
        assert all(start % _ROW_BYTES == 0 for start in starts)
        rows = np.stack([_array(start, 8, np.uint16) for start in starts])
        rows = np.ascontiguousarray(rows.T if is_turned else rows)
        found[:, matrix] = rows.view(np.uint32).reshape(32)
    for (target, _), own in zip(given, found, strict=True):
        _array(target, count, np.uint32)[:] = own
