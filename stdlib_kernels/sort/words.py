"""Elements as unsigned integers of the same order.

Sorts move elements as words, unsigned integers of their size, and compare what a function makes of
a word: -0 and 0 are equal there, all NaN are, and come last.

References
----------
Terje Mathisen, in Michael Herf, "Radix Tricks", 2001: floats compared as integers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import kerneldsl as kd
from stdlib_kernels.checks import Array

__all__ = ["Order", "as_words", "order_of"]


class Order(NamedTuple):
    """An order of words: by their ranks, which are unsigned integers."""

    rank: Callable[[Any, Any], Any]
    """Of a word and `flip`, in kernels."""
    digit: Callable[[Any, Any, Any], Any]
    """A digit of that rank to the base of 256, by its number."""
    flip: Any
    """The mask of an exclusive or with ranks, so that code is the same for many orders."""
    last: Any
    """A word of the highest rank that an element has."""


def as_words(array: Array) -> Array:
    """Return a contiguous array's elements as unsigned integers, in the same memory."""
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))


def order_of(dtype: np.dtype[Any], *, descending: bool) -> Order:
    """Return the order of the words of a dtype's elements."""
    word: Any = np.dtype(f"u{dtype.itemsize}").type
    ones = word(np.iinfo(word).max)
    sign = word(1 << (8 * dtype.itemsize - 1))
    flip = ones if descending else word(0)
    if dtype.kind in "biu":
        flip = word(flip ^ sign) if dtype.kind == "i" else flip
        return Order(*_of_integers(word), flip, word(ones ^ flip))
    infinity = np.array(np.inf, dtype).view(word)[()]
    last = word(infinity | sign) if descending else ones
    return Order(*_of_floats(word, infinity), flip, last)


@cache
def _of_integers(word: Any) -> tuple[Any, Any]:
    def rank(w: Any, flip: Any) -> Any:
        return word(w ^ flip)

    return rank, _digit_of(rank, word)


@cache
def _of_floats(word: Any, infinity: Any) -> tuple[Any, Any]:
    ones = word(np.iinfo(word).max)
    rest = word(ones >> word(1))
    sign = word(ones ^ rest)

    def rank(w: Any, flip: Any) -> Any:
        size = w & rest
        if size > infinity:
            return word(ones ^ flip)
        if size == 0:
            return word(sign ^ flip)
        return word(w ^ (ones if w & sign else sign) ^ flip)

    return rank, _digit_of(rank, word)


def _digit_of(rank: Any, word: Any) -> Any:
    if word is np.uint64:
        return lambda w, flip, k: np.int32((rank(w, flip) >> np.uint64(8 * k)) & np.uint64(255))
    # A byte, and three of zero: one instruction of a GPU.
    return lambda w, flip, k: np.int32(kd.byte_perm(rank(w, flip), 0, 0x4440 + k))
