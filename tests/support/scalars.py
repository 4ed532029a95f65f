"""What the intrinsics of one thread's values give, for the slow references: from their definitions.

References
----------
CUDA Math API, section "Integer Intrinsics"; PTX ISA, sections "shf", "prmt" and "dp4a".
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from tests.support.vectors import Vector

__all__ = ["SCALARS", "fused"]


def _bits(value: Any) -> tuple[int, int]:
    """Return an integer's bits as a number without a sign, and their count."""
    number = np.asarray(value)
    width = 8 * number.itemsize
    return int(number) & ((1 << width) - 1), width


def _like(value: Any, number: int) -> Any:
    """Return the lowest bits of a number in a value's type."""
    kind = np.asarray(value).dtype
    unsigned = np.dtype(f"u{kind.itemsize}")
    return unsigned.type(number & ((1 << 8 * kind.itemsize) - 1)).view(kind)


def _word(value: Any) -> int:
    return int(value) & 0xFFFFFFFF


def popc(value: Any) -> Any:
    return _like(value, _bits(value)[0].bit_count())


def clz(value: Any) -> Any:
    number, width = _bits(value)
    return _like(value, width - number.bit_length())


def ffs(value: Any) -> Any:
    number, _ = _bits(value)
    return np.uint32((number & -number).bit_length())


def brev(value: Any) -> Any:
    wide = np.uint64 if np.asarray(value).itemsize == 8 else np.uint32
    width = 8 * np.dtype(wide).itemsize
    text = format(int(value) & ((1 << width) - 1), f"0{width}b")
    return wide(int(text[::-1], 2))


def byte_perm(x: Any, y: Any, selector: Any) -> Any:
    given = _word(x).to_bytes(4, "little") + _word(y).to_bytes(4, "little")
    chosen = bytes(given[_word(selector) >> 4 * k & 7] for k in range(4))
    return np.uint32(int.from_bytes(chosen, "little"))


def _funnel(low: Any, high: Any, shift: int, *, is_left: bool) -> Any:
    (bottom, width), (top, _) = _bits(low), _bits(high)
    pair = top << width | bottom
    return _like(low, pair << shift >> width if is_left else pair >> shift)


def _modulo(low: Any, shift: Any) -> int:
    return int(shift) % _bits(low)[1]


def _clamped(low: Any, shift: Any) -> int:
    width = _bits(low)[1]
    return min(int(shift) & ((1 << width) - 1), width)


def funnelshift_l(low: Any, high: Any, shift: Any) -> Any:
    return _funnel(low, high, _modulo(low, shift), is_left=True)


def funnelshift_lc(low: Any, high: Any, shift: Any) -> Any:
    return _funnel(low, high, _clamped(low, shift), is_left=True)


def funnelshift_r(low: Any, high: Any, shift: Any) -> Any:
    return _funnel(low, high, _modulo(low, shift), is_left=False)


def funnelshift_rc(low: Any, high: Any, shift: Any) -> Any:
    return _funnel(low, high, _clamped(low, shift), is_left=False)


def mulhi(a: Any, b: Any) -> Any:
    return _like(a, int(a) * int(b) >> _bits(a)[1])


def dot4(a: Any, b: Any, c: Any) -> Any:
    given = [a, b, c]
    count = max(len(each) if isinstance(each, Vector) else 0 for each in given)
    if count:
        parts = [each.parts if isinstance(each, Vector) else [each] * count for each in given]
        return Vector(np.array([dot4(*each) for each in zip(*parts, strict=True)]))

    def each(word: Any) -> list[int]:
        kind = np.dtype(np.int8 if np.asarray(word).dtype.kind == "i" else np.uint8)
        return [int(v) for v in np.asarray(word).reshape(1).view(kind)]

    total = int(c) + sum(x * y for x, y in zip(each(a), each(b), strict=True))
    is_unsigned = np.asarray(a).dtype.kind == np.asarray(b).dtype.kind == "u"
    return _like(np.uint32(0) if is_unsigned else np.int32(0), total)


def _float_type(*values: Any) -> Any:
    kinds = [np.asarray(value).dtype for value in values]
    is_single = all(not (k.kind in "biu" or k == np.float64) for k in kinds)
    return np.float32 if is_single else np.float64


def fused(a: float, b: float, c: float, kind: Any) -> Any:
    """Return a · b + c rounded once; computed with whole numbers."""
    with np.errstate(all="ignore"):
        simple = np.float64(a) * np.float64(b) + np.float64(c)
    if not all(map(np.isfinite, (a, b, c))):
        both = np.isfinite(a) and np.isfinite(b)
        return kind(c) if both else kind(simple)
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact == 0:
        return kind(np.float64(np.copysign(1, a) * np.copysign(1, b)) * 0.0 + c if not c else 0.0)
    try:
        nearest = exact.numerator / exact.denominator  # rounded once, by Python
    except OverflowError:
        return kind(np.copysign(np.inf, float(exact > 0) - 0.5))
    if kind is np.float64:
        return kind(nearest)
    # Rounded to odd, so that the second rounding is that of the exact number.
    if Fraction(nearest) != exact and not np.float64(nearest).view(np.int64) & 1:
        toward = np.inf if exact > Fraction(nearest) else -np.inf
        nearest = float(np.nextafter(nearest, toward))
    with np.errstate(all="ignore"):
        return kind(nearest)


def fma(a: Any, b: Any, c: Any) -> Any:
    kind = _float_type(a, b, c)
    return fused(*(kind(v) for v in (a, b, c)), kind)


def rsqrt(x: Any) -> Any:
    kind = _float_type(x)
    with np.errstate(all="ignore"):
        return kind(1 / np.sqrt(np.longdouble(kind(x))))


def cbrt(x: Any) -> Any:
    kind = _float_type(x)
    return kind(np.cbrt(np.longdouble(kind(x))))


def saturate(x: Any) -> Any:
    kind = _float_type(x)
    return kind(min(kind(x), kind(1))) if x > 0 else kind(0)


def selp(condition: Any, a: Any, b: Any) -> Any:
    return a if condition else b


def bitcast(value: Any, dtype: Any) -> Any:
    return np.asarray(value).reshape(1).view(dtype)[0]


class packed:
    """The numbers of an array, one after the other of each word, as the words are now."""

    def __init__(self, words: Any, numbers: Any) -> None:
        self._words, self._numbers = words, numbers
        self._per_word = 8 * words.itemsize // numbers.bits
        self.dtype = np.dtype(numbers.dtype)
        self.shape = (*words.shape[:-1], words.shape[-1] * self._per_word)
        self.ndim, self.size = words.ndim, words.size * self._per_word

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        *rest, last = index if isinstance(index, tuple) else (index,)
        last = last + self.shape[-1] if last < 0 else last
        word = self._words[(*rest, last // self._per_word)]
        return _numbers(word, self._numbers)[last % self._per_word]


def unpack(word: Any, numbers: Any) -> Any:
    values = _numbers(word, numbers)
    kind = np.uint32 if numbers.smallest == 0 else np.int32
    return tuple(values.view(kind))


def _numbers(words: Any, numbers: Any) -> Any:
    """Return the numbers of each word, along another axis."""
    width = 8 * np.asarray(words).itemsize
    found = np.empty((*np.shape(words), width // numbers.bits), numbers.dtype)
    for place in np.ndindex(np.shape(words)):
        text = format(int(np.asarray(words)[place]) & ((1 << width) - 1), f"0{width}b")
        codes = [int(text[at : at + numbers.bits], 2) for at in range(0, width, numbers.bits)]
        for number, code in enumerate(reversed(codes)):
            if numbers.name == "ternary":
                found[(*place, number)] = code - 1
            else:
                found[(*place, number)] = code - (1 << numbers.bits) * (code > numbers.largest)
    return found


def nanosleep(ns: Any) -> None:
    """Let no time pass."""


def uniform(value: Any) -> Any:
    return value


#: Name of each intrinsic to its function.
SCALARS = {
    function.__name__: function
    for function in (
        *(popc, clz, ffs, brev, byte_perm, mulhi, dot4, fma, rsqrt, cbrt, bitcast),
        *(funnelshift_l, funnelshift_lc, funnelshift_r, funnelshift_rc, nanosleep, uniform),
        *(saturate, selp),
        *(packed, unpack),
    )
}
