"""Other layouts of a shared array, to find one without its bank conflicts.

Longer rows move each row to other banks. A swizzle keeps the size of the array. It exchanges the
elements of a row by an exclusive or with bits of the row's number.

References
----------
CUDA C++ Programming Guide, section "Shared Memory"; CUTLASS documentation, "Layouts and Tensors"
(swizzles).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kerneldsl.explain.requests import BANK_BYTES, BANK_COUNT
from kerneldsl.explain.values import Memory, View

__all__ = ["Arrangement", "Padding", "Swizzle", "arrangements_of", "moved_addresses"]

#: Elements by which rows are made longer.
_PADS = (1, 2, 4, 8)
#: Elements of an array with one axis that count as a row.
_ROW, _ROW_BITS = 32, 5


class Padding(NamedTuple):
    """Rows that are longer by some elements."""

    elements: int

    def shape(self, memory: Memory) -> tuple[int, ...]:
        """Return the shape of the longer array."""
        return (*memory.shape[:-1], memory.shape[-1] + self.elements)

    def place(self, memory: Memory, index: tuple[Any, ...]) -> Any:
        """Return the place of an element in C order; rows of one axis have 32 elements."""
        if len(index) == 1:
            return index[0] + index[0] // _ROW * self.elements
        return _in_order(index, self.shape(memory))


class Swizzle(NamedTuple):
    """Element j of row i at ``j ^ ((i >> shift & mask) << scale)`` of that row."""

    mask: int
    shift: int = 0
    scale: int = 0

    def place(self, memory: Memory, index: tuple[Any, ...]) -> Any:
        """Return the place of an element in C order; rows of one axis have 32 elements."""
        *rows, last = index
        row = rows[-1] if rows else last >> _ROW_BITS
        return _in_order(
            (*rows, last ^ ((row >> self.shift & self.mask) << self.scale)), memory.shape
        )

    def term(self, row: str) -> str:
        """Return what an index is combined with, as a kernel has it.

        Examples
        --------
        >>> Swizzle(31).term("i"), Swizzle(7, 2).term("i"), Swizzle(15, 0, 1).term("i")
        ('(i & 31)', '(i >> 2 & 7)', '((i & 15) << 1)')
        """
        bits = f"({row} >> {self.shift} & {self.mask})" if self.shift else f"({row} & {self.mask})"
        return f"({bits} << {self.scale})" if self.scale else bits


Arrangement: TypeAlias = Padding | Swizzle


def arrangements_of(memory: Memory) -> Iterator[Arrangement]:
    """Yield the arrangements that are tried for an array, of equals the plainer first.

    A swizzle exchanges as many words as there are banks, or as the row has, or half of them. If
    rows are shorter than all banks, several rows may have the same exchange.
    """
    yield from map(Padding, _PADS)
    if not memory.shape or not memory.shape[-1]:
        return
    word = max(1, BANK_BYTES // memory.itemsize)
    scale = word.bit_length() - 1
    last = memory.shape[-1]
    aligned = last & -last  # the largest power of two that divides it
    words = min(BANK_COUNT, aligned // word)
    row_bytes = last * memory.itemsize if len(memory.shape) > 1 else BANK_COUNT * BANK_BYTES
    rows = BANK_COUNT * BANK_BYTES // row_bytes
    shifts = sorted({0, max(rows, 1).bit_length() - 1})
    for count in (words, words // 2):
        for shift in shifts:
            if count > 1:
                yield Swizzle(count - 1, shift, scale)


def moved_addresses(view: View, lanes: int, arrangement: Arrangement) -> NDArray[np.int64] | None:
    """Return where elements are that are arranged otherwise; ``None`` of no plain element."""
    chosen, memory = view.chosen, view.memory
    if not chosen or len(chosen) != len(memory.shape) or view.itemsize != memory.itemsize:
        return None
    address = memory.base + arrangement.place(memory, chosen) * memory.itemsize
    return np.broadcast_to(np.asarray(address, np.int64), (lanes,))


def _in_order(index: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    place: Any = 0
    for each, extent in zip(index, shape, strict=True):
        place = place * extent + each
    return place
