"""Integer arithmetic of every pair of widths, bit for bit as Numba types it."""

from __future__ import annotations

import math

import numpy as np

import kerneldsl as kd
from tests.conformance.kernels.reference import INTEGERS, SIZE, binary_case
from tests.support.arrays import poisoned, random_array
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("integers")
CASES = _list.cases


def _integer_pair(a, b, out, i):
    out[0, i] = a + b
    out[1, i] = a - b
    out[2, i] = a * b
    out[3, i] = a & b
    out[4, i] = a | b
    out[5, i] = a ^ b
    out[6, i] = a << (b & 7)
    out[7, i] = a >> (b & 7)
    out[8, i] = min(a, b)
    out[9, i] = max(a, b)
    out[10, i] = (a < b) + 2 * (a <= b) + 4 * (a > b) + 8 * (a >= b) + 16 * (a == b) + 32 * (a != b)


def _integer_division(a, b, out, i):
    # b is never 0, and never -1 where a is the least integer.
    out[0, i] = a // b
    out[1, i] = a % b
    out[2, i] = -a
    out[3, i] = ~a
    out[4, i] = abs(a)
    out[5, i] = a**2
    out[6, i] = a**3
    q, r = divmod(a, b)
    out[7, i] = q * 3 + r


def _true_division(a, b, out, i):
    out[0, i] = a / b
    out[1, i] = a * 0.5
    out[2, i] = a + np.float32(1)


_MIXED = (("int32", "int64"), ("int8", "uint8"), ("uint32", "int32"), ("uint16", "int64"))


def _integer_inputs(left, right, rows, out_dtype, division=False):
    def make(rng):
        x = random_array(rng, SIZE, left)
        y = random_array(rng, SIZE, right)
        y[::3] = rng.integers(1, 9, y[::3].shape)
        if division:
            y[y == 0] = 3
            y[y == np.array(-1).astype(right)] = 5
        else:
            y[::5] = x[::5].astype(right)
            x[0] = np.iinfo(left).min
            y[1] = np.iinfo(right).max
        return x, y, poisoned((rows, SIZE), out_dtype)

    return make


def _wide(*dtypes):
    return np.uint64 if all(d[0] == "u" for d in dtypes) else np.int64


_pair_kernel, _pair_expected = binary_case(_integer_pair)
_division_kernel, _division_expected = binary_case(_integer_division)
_true_kernel, _true_expected = binary_case(_true_division)
for _left, _right in (*((d, d) for d in INTEGERS), *_MIXED):
    _label = _left if _left == _right else f"{_left}_{_right}"
    _out = _wide(_left, _right)
    _list.add(
        f"integer_{_label}",
        _pair_kernel,
        _integer_inputs(_left, _right, 11, _out),
        extent=(SIZE,),
        expected=_pair_expected,
    )
    _list.add(
        f"division_{_label}",
        _division_kernel,
        _integer_inputs(_left, _right, 8, _out, division=True),
        extent=(SIZE,),
        expected=_division_expected,
    )
    _list.add(
        f"true_division_{_label}",
        _true_kernel,
        _integer_inputs(_left, _right, 3, np.float64, division=True),
        extent=(SIZE,),
        expected=_true_expected,
    )


def _signs(a, b, out, i):
    # The least integer has no opposite among its like: it wraps before it is widened.
    out[0, i] = -a
    out[1, i] = abs(a)
    out[2, i] = (-a) >> 3
    out[3, i] = (-a < 0) + 2 * (abs(a) < 0)
    out[4, i] = abs(a) // 7
    out[5, i] = max(a, -a) + min(b, abs(b))
    out[6, i] = (np.float64(-a) < 0.0) + 2 * (np.float32(abs(a)) > 0.0)


def _least_and_greatest(dtype):
    def make(rng):
        x, y = (random_array(rng, SIZE, dtype) for _ in range(2))
        limits = np.iinfo(dtype)
        for array in (x, y):
            places = rng.permutation(SIZE)[:5]
            array[places] = (limits.min, limits.min + 1, -1, 0, limits.max)
        return x, y, poisoned((7, SIZE), np.int64)

    return make


_signs_kernel, _signs_expected = binary_case(_signs)
for _name in ("int8", "int16", "int32", "int64"):
    _list.add(
        f"signs_{_name}",
        _signs_kernel,
        _least_and_greatest(_name),
        extent=(SIZE,),
        expected=_signs_expected,
    )


def _mixed_comparison(a, b, out, i):
    out[0, i] = a < b
    out[1, i] = a <= b
    out[2, i] = a == b
    out[3, i] = a != b
    out[4, i] = a > b
    out[5, i] = a >= b


_compare_kernel, _compare_expected = binary_case(_mixed_comparison)


def _signed_unsigned(rng):
    x = random_array(rng, SIZE, np.int64)
    y = random_array(rng, SIZE, np.uint64)
    y[::2] = x[::2].view(np.uint64)
    x[:4] = (-1, 0, 1, -(2**63))
    y[:4] = (2**64 - 1, 0, 1, 2**63)
    return x, y, poisoned((6, SIZE), bool)


_list.add(
    "compare_int64_uint64",
    _compare_kernel,
    _signed_unsigned,
    extent=(SIZE,),
    expected=_compare_expected,
)


def _ufuncs(a, b, out, i):
    out[0, i] = np.add(a, b)
    out[1, i] = np.subtract(a, b)
    out[2, i] = np.multiply(a, b)
    out[3, i] = np.absolute(a)
    out[4, i] = np.maximum(a, b)
    out[5, i] = np.minimum(a, b)
    out[6, i] = np.negative(a)
    out[7, i] = np.square(b)
    out[8, i] = np.less(a, b) + 2 * np.equal(a, b) + 4 * np.greater_equal(a, b)
    out[9, i] = np.logical_and(a, b) + 2 * np.logical_or(a, b) + 4 * np.logical_not(a)


def _integer_ufuncs(a, b, out, i):
    out[0, i] = np.bitwise_and(a, b)
    out[1, i] = np.bitwise_or(a, b)
    out[2, i] = np.bitwise_xor(a, b)
    out[3, i] = np.invert(a)
    out[4, i] = np.left_shift(a, b & 7)
    out[5, i] = np.right_shift(a, b & 7)
    out[6, i] = math.gcd(a >> 2, b >> 2)


_ufunc_kernel, _ufunc_expected = binary_case(_ufuncs)
_integer_ufunc_kernel, _integer_ufunc_expected = binary_case(_integer_ufuncs)
for _name in ("int32", "int64", "uint32", "float32", "float64"):
    _list.add(
        f"ufuncs_{_name}",
        _ufunc_kernel,
        lambda rng, d=_name: (
            random_array(rng, SIZE, d),
            random_array(rng, SIZE, d),
            poisoned((10, SIZE), d if d[0] == "f" else np.int64),
        ),
        extent=(SIZE,),
        expected=_ufunc_expected,
    )
for _name in ("int32", "int64", "uint32"):
    _list.add(
        f"integer_ufuncs_{_name}",
        _integer_ufunc_kernel,
        _integer_inputs(_name, _name, 7, np.int64),
        extent=(SIZE,),
        expected=_integer_ufunc_expected,
    )


def shifts_beyond_bits(x, counts, python, numpy):
    i = kd.grid(1)
    python[0, i] = x[i] << counts[i]
    python[1, i] = x[i] >> counts[i]
    python[2, i] = x[i] << 70
    python[3, i] = x[i] >> 70
    numpy[0, i] = np.left_shift(x[i], counts[i])
    numpy[1, i] = np.right_shift(x[i], counts[i])


def _shifted(x, counts, python, numpy):
    """NumPy's own shifts, by Python's operators of 64 bits."""
    wide = np.uint64 if x.dtype.kind == "u" else np.int64
    values, by, many = x.astype(wide), counts.astype(wide), wide(70)
    rows = [values << by, values >> by, values << many, values >> many]
    return {2: np.stack(rows), 3: np.stack([np.left_shift(x, counts), np.right_shift(x, counts)])}


for _dtype in INTEGERS:
    _counts = np.array([0, 1, 7, 8, 9, 15, 16, 31, 32, 33, 63, 64, 65, 100, 127], _dtype)
    if np.dtype(_dtype).kind == "i":
        _counts = np.concatenate([_counts, -_counts[1:]])
    for _debug in (False, True):
        _list.add(
            f"shifts_beyond_bits_{_dtype}{'_debug' if _debug else ''}",
            kd.kernel(debug=_debug)(shifts_beyond_bits),
            lambda rng, d=_dtype, counts=_counts: (
                random_array(rng, counts.size, d),
                counts.copy(),
                poisoned((4, counts.size), "uint64" if d[0] == "u" else "int64"),
                poisoned((2, counts.size), d),
            ),
            extent=(_counts.size,),
            expected=_shifted,
        )


@kd.kernel
def _less_than_a_high_word(x, words, numbers, out):
    i = kd.grid(1)
    block = kd.blockIdx.x
    out[i, 0] = block // 3 - block
    out[i, 1] = np.int64(kd.mulhi(words[i], np.uint32(x[i]))) - numbers[i]
    out[i, 2] = np.int64(words[i] // np.uint32(10)) - numbers[i]
    out[i, 3] = -numbers[i] + np.int64(words[i] % np.uint32(7))
    out[i, 4] = np.int64(np.uint16(x[i]) // np.uint16(11)) - numbers[i]


def _numbers_with_low_words_of_0(rng):
    numbers = rng.integers(-(2**31), 2**31, SIZE) << 32
    numbers[::3] += rng.integers(0, 2**32, numbers[::3].shape)
    numbers[1::4] = 0
    words = random_array(rng, SIZE, np.uint32)
    return random_array(rng, SIZE, np.uint32), words, numbers, poisoned((SIZE, 5), np.int64)


_list.add(
    "less_than_a_high_word",
    _less_than_a_high_word,
    _numbers_with_low_words_of_0,
    grid=(SIZE,),
    block=(1,),
)


@kd.kernel(contract=False)
def _magnitude_in_a_branch(n, m, y, narrow, out):
    i, j = kd.grid(2)
    if i >= out.shape[0] or j >= out.shape[1]:
        return
    v = np.uint16(i)
    value = np.int64(v) // -3 + 102
    if j % 2 < 0 or value == np.int16(35):
        if n > 0:
            value = kd.funnelshift_lc(j, j, np.int8(0)) // n
    elif -2.0 - value >= kd.load(
        y, (i % y.shape[0], 0, (value + 2) % y.shape[2]), cache="streaming"
    ):
        v = np.uint16(n)
    else:
        v = np.uint16(int(not m > value))
        value = abs(value)
    narrow[i, j] = v
    out[i, j] = value


# The result is in the register of the number: a rewrite of the instruction must not overwrite it.
_list.add(
    "magnitude_in_a_branch",
    _magnitude_in_a_branch,
    lambda rng: (
        np.int64(5),
        np.int64(2),
        rng.standard_normal((16, 16, 7), np.float32),
        poisoned((17, 4), np.uint16),
        poisoned((17, 4), np.int64),
    ),
    extent=(17, 4),
)


@kd.kernel
def _hashed_indices(table, starts, out):
    """Products of hashes wrap around, so that indices are negative, also in loops."""
    i = kd.grid(1)
    if i < out.shape[0]:
        out[i, 0] = table[(np.int64(i) * 6364136223846793005) >> 55]
        out[i, 1] = table[(np.int64(i) << 58) >> 55]
        total, state = 0, np.int64(i)
        for k in range(starts[i], starts[i + 1]):
            state = state * 1103515245 + 12345
            total += table[(np.int64(k) * 2862933555777941757) >> 55] - table[state >> 55]
        out[i, 2] = total
        out[i, 3] = table[np.int64(i) ** 13 >> 55]
        sixth = np.int64(i) * i * i * (i * i * i)
        out[i, 4] = table[sixth * sixth >> 55]
        total, text, square, double = 0, np.int64(5381), np.int64(i) + 2, np.int64(i) + 1
        for k in range(starts[i + 1] - starts[i] + 60):
            text = (text << 5) + text + k
            square = square * square + 1
            double += double
            total += table[square >> 55] - table[text >> 55] + 3 * table[double >> 55]
        out[i, 5] = total
        n, text = 0, np.int64(0)
        while n < 20:
            if table[n] > 0:
                text = text * 31 + n
            n += 1
        out[i, 6] = table[(text + i) >> 55]


def _starts(rng):
    starts = np.cumsum(rng.integers(0, 9, SIZE + 1))
    return rng.integers(-99, 99, 512), starts, poisoned((SIZE, 7), np.int64)


_list.add("hashed_indices", _hashed_indices, _starts, grid=(-(-SIZE // 32),), block=(32,))


@kd.kernel
def _narrowed_indices(table, small, wide, bits, out):
    """Conversions to smaller types, shifts and magnitudes may make indices negative."""
    i = kd.grid(1)
    if i < out.shape[0]:
        out[i, 0] = table[np.int8(i)]
        out[i, 1] = table[np.int8(small[i])]
        out[i, 2] = table[np.int32(wide[i]) >> 24]
        out[i, 3] = table[np.int16(wide[i] & 0xFFFF) >> 8]
        out[i, 4] = table[np.int32(i * 60000000) >> 25]
        out[i, 5] = table[np.int64(i << bits[0]) >> 56]
        out[i, 6] = table[max(np.int8(i), np.int8(-100))]
        h = np.int32(0)
        for k in range(9):
            h = np.int32(np.int64(h) * 31 + k * 12345 + i)
        out[i, 7] = table[h >> 24]
        j = np.int16(i * 200)
        if j < table.size:
            out[i, 8] = table[j // 256]
        for k in range(np.int8(i), np.int8(i) + 1):
            out[i, 9] = table[k]
        out[i, 10] = table[abs(np.int8(small[i] | 128))]
        out[i, 11] = table[np.int32(kd.brev(np.uint32(i))) >> 25]


def _narrowed(rng):
    small = rng.integers(0, 256, SIZE).astype(np.uint8)
    wide = rng.integers(0, 2**32, SIZE).astype(np.uint32)
    out = np.full((SIZE, 12), -7)
    return rng.integers(-99, 99, 512), small, wide, np.array([56]), out


_list.add("narrowed_indices", _narrowed_indices, _narrowed, grid=(-(-SIZE // 32),), block=(32,))


@kd.kernel
def _grown_indices(table, starts, out):
    """Sums of variables that loops make of each other wrap around, and so do their indices."""
    i = kd.grid(1)
    if i < out.shape[0]:
        half, third = np.int64(i) + 2, np.int64(i) + 3
        one, two, most = np.int64(i), np.int64(1), np.int64(1)
        for k in range(starts[i + 1] - starts[i] + 250):
            half += half >> 1
            third = third + third // 3 if k % 5 else third + 1
            one, two = two, one + two
            step = 0
            for _ in range(3):
                step += most
            most = step
            most = (most | most >> 1) + 1
            out[i, 0] += table[half >> 55] - table[third >> 55]
            out[i, 1] += 3 * table[one >> 55] - table[most >> 55]


@kd.kernel
def _grown_until(table, starts, out):
    """Conditions that compare a part of a hash, or its lower bound, do not limit it."""
    i = kd.grid(1)
    if i < out.shape[0]:
        part, above, size = np.int64(i), np.int64(i) + 1, np.int64(-i)
        while part % 64 < 60:
            part = part * 5 + 3
        k = starts[i + 1] - starts[i] + 30
        while above > -(2**62) and k > 0:
            above = above * 3
            k -= 1
        for _ in range(starts[i + 1] - starts[i] + 61):
            size = abs(size) + abs(size)
        written = np.int64(i) * 31 + 7
        written = ((((written * 31 + 7) * 31 + 7) * 31 + 7) * 31 + 7) * 31 + 7
        written = ((((written * 31 + 7) * 31 + 7) * 31 + 7) * 31 + 7) * 31 + 7
        written = ((((written * 31 + 7) * 31 + 7) * 31 + 7) * 31 + 7) * 31 + 7
        out[i, 0] = table[part >> 55] - 3 * table[above >> 55]
        out[i, 1] = table[size >> 55] - 3 * table[written >> 55]


@kd.kernel
def _grown_below(table, starts, out):
    """An iteration that begins below the limit of a condition may overflow."""
    i = kd.grid(1)
    if i < out.shape[0]:
        large, twice, after = np.int64(i) + 1, np.int64(i) + 1, np.int64(i) + 1
        one, two, down, limit = (
            np.int64(i) + 1,
            np.int64(i) + 1,
            -np.int64(i) - 1,
            starts[0] + 2**59,
        )
        while 0 < large < 2**58:
            large = large * 31 + 1
            if large > 2**57:
                large = large * 31
        while 0 < twice < 9223372036854775807:
            twice += twice
        while 0 < after < limit:
            after = after * 65
        while 0 < one < limit * 4 and two < limit * 4:
            one = two * 31 + 1
            two = one * 31 + 5
        k = starts[i + 1] - starts[i] + 30
        while down < out.shape[0] and k > 0:
            down = down * 31
            k -= 1
        out[i, 0] = table[large >> 55] - 3 * table[twice >> 55]
        out[i, 1] = table[after * 65 >> 55] - 3 * table[one >> 55] + 5 * table[-down >> 55]


_GROWN = (
    ("grown_indices", _grown_indices),
    ("grown_until", _grown_until),
    ("grown_below", _grown_below),
)
for _name, _kernel in _GROWN:
    _list.add(_name, _kernel, _starts, grid=(-(-SIZE // 32),), block=(32,))
