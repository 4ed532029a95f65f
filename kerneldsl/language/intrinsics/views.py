"""Declare views of an array with other elements."""

from __future__ import annotations

from kerneldsl.language.intrinsics.intrinsic import Intrinsic, Typing

__all__ = ["packed", "unpack", "view"]


packed = Intrinsic(
    "packed",
    "Return a read-only array of the numbers that are packed along the last axis of an array of "
    "words: `numbers` is kd.int4, kd.uint4, kd.int2, kd.uint2 or kd.ternary.",
    Typing.PACKED,
    ("words", "numbers"),
    static=("numbers",),
)
unpack = Intrinsic(
    "unpack",
    "Unpack the numbers in a word, four to an int32, in bytes for kd.dot4, the first in the "
    "lowest byte. Return a tuple of two int32 (kd.int4) or four (kd.int2, kd.ternary); uint32 for "
    "kd.uint4 and kd.uint2.",
    Typing.UNPACK,
    ("word", "numbers"),
    static=("numbers",),
)
view = Intrinsic(
    "view",
    "View a contiguous array as vectors along its last axis, of a dtype such as kd.float32x4, in "
    "the same memory; the remainder at the end of a row is left out.",
    Typing.VIEW,
    ("array", "dtype"),
    static=("dtype",),
)
