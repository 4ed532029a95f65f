"""Declare what reads an array as one of other elements."""

from __future__ import annotations

from kerneldsl.language.intrinsics.intrinsic import Intrinsic, Typing

__all__ = ["packed", "unpack", "view"]


packed = Intrinsic(
    "packed",
    "The numbers of a few bits that are packed along the last axis of an array of words, as an "
    "array that is read: `numbers` is kd.int4, kd.uint4, kd.int2, kd.uint2 or kd.ternary.",
    Typing.PACKED,
    ("words", "numbers"),
    static=("numbers",),
)
unpack = Intrinsic(
    "unpack",
    "The numbers in a word, four to an int32 as the bytes that kd.dot4 takes, the first in the "
    "lowest: a tuple of two (kd.int4) or four (kd.int2, kd.ternary); of kd.uint4 and kd.uint2 they "
    "are uint32.",
    Typing.UNPACK,
    ("word", "numbers"),
    static=("numbers",),
)
view = Intrinsic(
    "view",
    "A contiguous array's elements along its last axis as vectors of a dtype such as "
    "kd.float32x4, in the same memory; what remains at the end of a row is in none.",
    Typing.VIEW,
    ("array", "dtype"),
    static=("dtype",),
)
