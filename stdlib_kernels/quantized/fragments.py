"""Products by tensor cores of numbers that a thread unpacks in registers.

An instruction multiplies 16 rows of words by 8 rows of the other factor. Its numbers along k may
have any order that is the same for both. So each thread has whole words. A pair of numbers is 16
bits apart in a word: number i and number ``i + 16 // bits``.

PTX ISA, section "Matrix Fragments for mma.m16n8k16 with floating point type".
"""

from __future__ import annotations

from typing import Any

import kerneldsl as kd

__all__ = [
    "EXCHANGES",
    "INSTRUCTIONS",
    "WARP",
    "add_exactly",
    "add_scaled",
    "load_other",
    "load_scales",
    "multiply_word",
    "pairs_of_other",
    "subtrahend",
]

#: Threads of a warp.
WARP = 32
#: All threads of it.
ALL = 0xFFFFFFFF


def _instructions(number: str, one: int) -> tuple[Any, Any]:
    """Return functions for a product of fragments, and a sum of pairs of 16-bit floats."""
    product = (
        f"mma.sync.aligned.m16n8k16.row.col.f32.{number}.{number}.f32 {{$0, $1, $2, $3}}, "
        "{$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};"
    )
    total = f"fma.rn.{number}x2 $0, $1, $2, $3;"

    @kd.func
    def multiply(a0, a1, a2, a3, b0, b1, c0, c1, c2, c3):
        """Return ``c + a @ b``."""
        out = kd.float32, kd.float32, kd.float32, kd.float32
        return kd.ptx(product, a0, a1, a2, a3, b0, b1, c0, c1, c2, c3, out=out, pure=True)

    @kd.func
    def add(pair, other):
        """Return the sums of two numbers."""
        return kd.ptx(total, pair, kd.uint32(one), other, out=kd.uint32, pure=True)

    return multiply, add


@kd.func
def halves_of(pair, is_half):
    """Return two floats of 16 bits as float32."""
    if is_half:
        low = kd.float32(kd.bitcast(kd.uint16(pair & kd.uint32(0xFFFF)), kd.float16))
        return low, kd.float32(kd.bitcast(kd.uint16(pair >> kd.uint32(16)), kd.float16))
    low = kd.bitcast(kd.uint32(pair << kd.uint32(16)), kd.float32)
    return low, kd.bitcast(kd.uint32(pair & kd.uint32(0xFFFF0000)), kd.float32)


@kd.func
def pair_of(low, high, is_half):
    """Return two float32 as the floats of 16 bits that equal them."""
    if is_half:
        own = kd.uint32(kd.bitcast(kd.float16(low), kd.uint16))
        return kd.uint32(own | kd.uint32(kd.bitcast(kd.float16(high), kd.uint16)) << kd.uint32(16))
    return kd.byte_perm(kd.bitcast(low, kd.uint32), kd.bitcast(high, kd.uint32), kd.uint32(0x7632))


def _exchanges(is_half: bool) -> tuple[Any, Any]:
    """Return the same functions for targets without the instructions."""

    @kd.func
    def multiply(a0, a1, a2, a3, b0, b1, c0, c1, c2, c3):
        lane = kd.threadIdx.x % WARP
        g, t = lane // 4, lane % 4
        for s in range(4):
            for upper in range(2):
                own, below, other = (a2, a3, b1) if upper else (a0, a1, b0)
                p, q = halves_of(kd.shfl_sync(kd.uint32(ALL), own, g * 4 + s), is_half)
                u, v = halves_of(kd.shfl_sync(kd.uint32(ALL), below, g * 4 + s), is_half)
                y, z = halves_of(kd.shfl_sync(kd.uint32(ALL), other, t * 8 + s), is_half)
                c0, c2 = kd.float32(c0 + p * y + q * z), kd.float32(c2 + u * y + v * z)
                y, z = halves_of(kd.shfl_sync(kd.uint32(ALL), other, t * 8 + 4 + s), is_half)
                c1, c3 = kd.float32(c1 + p * y + q * z), kd.float32(c3 + u * y + v * z)
        return c0, c1, c2, c3

    @kd.func
    def add(pair, other):
        a, b = halves_of(pair, is_half)
        c, d = halves_of(other, is_half)
        return pair_of(kd.float32(a + c), kd.float32(b + d), is_half)

    return multiply, add


#: Functions for products and sums, by whether numbers are float16, or else bfloat16.
INSTRUCTIONS = {True: _instructions("f16", 0x3C003C00), False: _instructions("bf16", 0x3F803F80)}
EXCHANGES = {is_half: _exchanges(is_half) for is_half in (True, False)}


@kd.func
def subtrahend(zero, bits, is_half):
    """Return what is added to numbers that are in the lowest bits of the fraction of a float."""
    if bits == 8 and not is_half:
        return kd.bitcast(kd.float32(kd.float32(-(1 << 23)) - kd.float32(zero)), kd.uint32)
    own = kd.uint32(kd.uint32(0xE400 if is_half else 0xC300) + kd.uint32(zero))
    return kd.uint32(own * kd.uint32(0x00010001))


@kd.func
def pair_of_word(word, i, less, mask, add, bits, flip, is_half):
    """Return numbers i and ``i + 16 // bits`` of a word, minus the zero.

    An unknown `mask` is in a register: with two constants in an instruction it would be two.
    """
    if bits == 8 and not is_half:  # bfloat16 has too few bits in front of them
        flipped = kd.uint32(word ^ kd.uint32(flip * 0x01010101))
        low = kd.byte_perm(flipped, kd.uint32(0x4B000000), kd.uint32(0x7440 + i))
        high = kd.byte_perm(flipped, kd.uint32(0x4B000000), kd.uint32(0x7442 + i))
        by = kd.bitcast(less, kd.float32)
        return pair_of(kd.bitcast(low, kd.float32) + by, kd.bitcast(high, kd.float32) + by, False)
    one = (0x6400 if is_half else 0x4300) + flip
    moved = kd.uint32(word >> kd.uint32(bits * i)) if i else word
    return add(kd.uint32((moved & mask) ^ kd.uint32(one * 0x00010001)), less)


@kd.func
def load_other(x, into, first, m, at, size):
    """Load the numbers of row m that belong to word `at`, as words."""
    if size == 1:
        into[first] = x[m, at]
    elif size == 2:
        two = kd.view(x, kd.uint32x2)[m, at]
        into[first], into[first + 1] = two.x, two.y
    else:
        for i in range(size // 4):
            four, k = kd.view(x, kd.uint32x4)[m, at * (size // 4) + i], first + 4 * i
            into[k], into[k + 1], into[k + 2], into[k + 3] = four.x, four.y, four.z, four.w


@kd.func
def pairs_of_other(words, first, pairs, place, count, size):
    """Write numbers i and ``i + count`` of the other factor in ``pairs[place + i]``.

    Integers of 8 bits become floats of 16.
    """
    for i in range(count):
        if size == count:
            low, high = words[first + i // 2], words[first + (i + count) // 2]
            found = kd.byte_perm(low, high, kd.uint32(0x7632 if i % 2 else 0x5410))
        else:
            low, less = words[first + i // 4] ^ kd.uint32(0x80808080), kd.float32((1 << 23) + 128)
            high = words[first + (i + count) // 4] ^ kd.uint32(0x80808080)
            one = kd.byte_perm(low, kd.uint32(0x4B000000), kd.uint32(0x7440 + i % 4))
            two = kd.byte_perm(high, kd.uint32(0x4B000000), kd.uint32(0x7440 + (i + count) % 4))
            a, b = kd.bitcast(one, kd.float32) - less, kd.bitcast(two, kd.float32) - less
            found = pair_of(a, b, False)
        pairs[place + i] = found


@kd.func
def multiply_word(
    words, j, own, found, less, at, pairs, mask, tall, wide, multiply, add, bits, flip, is_half
):
    """Add the products of word j of the `own` of each of a thread's rows.

    What is subtracted is in `less` from the place `at` on.
    """
    count = 16 // bits
    for each in range(tall // 16 * (count // 2)):
        mt, i = each // (count // 2), each % (count // 2) * 2
        one, two, place = words[2 * own * mt + j], words[2 * own * mt + own + j], at + 2 * mt
        a0 = pair_of_word(one, i, less[place], mask, add, bits, flip, is_half)
        a1 = pair_of_word(two, i, less[place + 1], mask, add, bits, flip, is_half)
        a2 = pair_of_word(one, i + 1, less[place], mask, add, bits, flip, is_half)
        a3 = pair_of_word(two, i + 1, less[place + 1], mask, add, bits, flip, is_half)
        for nt in range(wide):
            k, b = 4 * (mt * wide + nt), (j * wide + nt) * count + i
            found[k], found[k + 1], found[k + 2], found[k + 3] = multiply(
                a0, a1, a2, a3, pairs[b], pairs[b + 1],
                found[k], found[k + 1], found[k + 2], found[k + 3],
            )  # fmt: skip


@kd.func
def load_scales(
    scales, zeros, by, less, at, first, last, g, tall, height, bits, is_half, has_zeros
):
    """Load the scales and zeros of group g of each of a thread's rows, to the place `at` on."""
    for i in range(tall // 8):
        n = min(first + 8 * i, last) // height
        by[at + i] = scales[n, g]
        if has_zeros:
            less[at + i] = subtrahend(zeros[n, g], bits, is_half)


@kd.func
def add_scaled(found, by, at, totals, count, wide):
    """Add scaled sums to others, and begin new ones."""
    for k in range(count):
        totals[k] = kd.float32(totals[k] + found[k] * by[at + k // (4 * wide) * 2 + k // 2 % 2])
        found[k] = kd.float32(0)


@kd.func
def add_exactly(found, totals, count):
    """Add sums to integers, and begin new ones."""
    for k in range(count):
        totals[k] = kd.int32(totals[k] + kd.int32(found[k]))
        found[k] = kd.float32(0)
