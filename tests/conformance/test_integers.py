"""Integers stay integers, and keep their values, on every target (docs/adr/0031).

Expected values are computed by Python's integers, modulo the width of the type.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.language.element_types import ELEMENT_TYPES
from tests.support.arrays import poisoned
from tests.support.extent import full_beyond

U64 = 2**64
INTEGERS = [name for name, row in ELEMENT_TYPES.items() if row.is_integer]
#: Numbers at which signs and the width of a float matter.
WIDE = [0, 1, 7, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 5, U64 - 1]
SIGNED = [-(2**63), -(2**53) - 1, -7, -1, 0, 1, 7, 2**53 + 1, 2**63 - 1]


@kd.func
def by_three(x):
    return x // 3 + 7


@kd.kernel
def with_literals(x, out):
    i = kd.grid(1)
    v = x[i]
    out[i, 0] = v // 3
    out[i, 1] = v % 10
    out[i, 2] = (v - 1) >> 1
    out[i, 3] = max(v, 5) // 2
    out[i, 4] = np.minimum(v, 5)
    out[i, 5] = (v if v > 7 else 7) // 5
    out[i, 6] = by_three(v)
    out[i, 7] = pow(v, 2) // 3
    v //= 3
    v %= 1000003
    out[i, 8] = v


def _with_literals(v: int) -> list[int]:
    return [
        v // 3,
        v % 10,
        (v - 1) % U64 >> 1,
        max(v, 5) // 2,
        min(v, 5),
        (v if v > 7 else 7) // 5,
        v // 3 + 7,
        v * v % U64 // 3,
        v // 3 % 1000003,
    ]


def test_a_literal_beside_a_uint64_is_one(computing_target: str) -> None:
    x, out = np.array(WIDE, np.uint64), poisoned((len(WIDE), 9), "uint64")
    with kd.use(computing_target), warnings.catch_warnings():
        warnings.simplefilter("error", kd.KernelWarning)
        warnings.filterwarnings("ignore", ".*v - 1 is a uint64", kd.KernelWarning)
        with_literals[1, x.size](x, out)
    assert out.tolist() == [_with_literals(v) for v in WIDE]


@kd.kernel
def generator(seeds, odd, last):
    i = kd.grid(1)
    s = seeds[i]
    n = 0
    for _ in range(50):
        s = (s * 6364136223846793005 + 1442695040888963407) % 2147483648
        if s % 2 == 1:
            n += 1
    odd[i] = n
    last[i] = s


def test_a_generator_of_random_numbers(computing_target: str) -> None:
    seeds = np.array(WIDE, np.uint64)
    odd, last = poisoned(seeds.size, "int64"), poisoned(seeds.size, "uint64")
    with kd.use(computing_target), warnings.catch_warnings():
        warnings.simplefilter("error", kd.KernelWarning)
        generator[1, seeds.size](seeds, odd, last)
    for seed, n, found in zip(WIDE, odd.tolist(), last.tolist(), strict=True):
        s, count = seed, 0
        for _ in range(50):
            s = (s * 6364136223846793005 + 1442695040888963407) % U64 % 2**31
            count += s % 2
        assert (n, found) == (count, s)


@kd.kernel
def hashes(x, hashed, bits):
    i = kd.grid(1)
    h = x[i]
    for _ in range(2):
        h ^= h >> 33
        h *= 0xFF51AFD7ED558CCD
    v, n = x[i], 0
    while v:
        v = v & (v - 1)
        n += 1
    hashed[i] = h
    bits[i] = n


def test_a_hash_of_uint64(computing_target: str) -> None:
    x = np.array(WIDE, np.uint64)
    hashed, bits = poisoned(x.size, "uint64"), poisoned(x.size, "uint32")
    with kd.use(computing_target), warnings.catch_warnings():
        warnings.simplefilter("error", kd.KernelWarning)
        hashes[1, x.size](x, hashed, bits)
    for value, h, n in zip(WIDE, hashed.tolist(), bits.tolist(), strict=True):
        expected = value
        for _ in range(2):
            expected ^= expected >> 33
            expected = expected * 0xFF51AFD7ED558CCD % U64
        assert (h, n) == (expected, value.bit_count())


@kd.kernel
def first_assigned_in_loops(x, out):
    i = kd.grid(1)
    for k in range(2):
        for n in range(i, i + 1):
            w = x[n]
            out[n, k] = w
        if k == 1:
            out[i, 2] = w // 3


def test_a_uint64_that_is_first_assigned_in_a_loop_of_a_loop(computing_target: str) -> None:
    x = np.array(WIDE, np.uint64)
    out = poisoned((len(x), 3), "uint64")
    with kd.use(computing_target):
        first_assigned_in_loops.forall(len(x))(x, out)
    assert out.tolist() == [[v, v, v // 3] for v in WIDE]


@kd.kernel
def totals(x, out):
    total = 0
    largest, hashed = 0, 17
    for k in range(x.size):
        total += x[k]
        hashed = hashed * 31 + x[k]
        if x[k] > largest:
            largest = x[k]
    kd.syncthreads()
    out[0] = total // 3
    out[1] = largest // 3
    out[2] = hashed % 1000003


def test_a_variable_of_literals_and_uint64_is_one(computing_target: str) -> None:
    x, out = np.array(WIDE, np.uint64), poisoned(3, "uint64")
    with kd.use(computing_target), warnings.catch_warnings():
        warnings.simplefilter("error", kd.KernelWarning)
        totals[1, 1](x, out)
    hashed = 17
    for value in WIDE:
        hashed = (hashed * 31 + value) % U64
    assert out.tolist() == [sum(WIDE) % U64 // 3, max(WIDE) // 3, hashed % 1000003]


@kd.kernel
def compared(x, y, out):
    i, j = kd.grid(2)
    a, b = x[i], y[j]
    out[i, j, 0] = a < b
    out[i, j, 1] = a <= b
    out[i, j, 2] = a > b
    out[i, j, 3] = a >= b
    out[i, j, 4] = a == b
    out[i, j, 5] = a != b
    out[i, j, 6] = np.less(a, b)
    out[i, j, 7] = (a if a > 3 else 3) > b


@kd.kernel
def extremes(x, y, least, most):
    i, j = kd.grid(2)
    least[i, j, 0] = min(x[i], y[j])
    least[i, j, 1] = np.minimum(x[i], y[j])
    least[i, j, 2] = np.fmin(y[j], x[i])
    most[i, j, 0] = max(x[i], y[j])
    most[i, j, 1] = np.maximum(y[j], x[i])
    most[i, j, 2] = np.fmax(x[i], y[j])


def _edges(dtype: str) -> np.ndarray:
    limits = np.iinfo(dtype)
    wanted = [v for v in (*WIDE, *SIGNED) if limits.min <= v <= limits.max]
    return np.array(sorted({*wanted, limits.min, limits.max}), dtype)


PAIRS = [pytest.param(one, two) for two in ("int8", "int64", "uint8", "uint64") for one in INTEGERS]
#: Both signs and both widths on either side.
QUICK_PAIRS = [
    pytest.param(*pair)
    for pair in (
        *(("uint64", "int64"), ("int8", "uint64"), ("uint32", "int64"), ("int16", "uint8")),
    )
]


@pytest.mark.parametrize(("one", "two"), full_beyond(PAIRS, QUICK_PAIRS))
def test_comparisons_and_extremes_are_exact(computing_target: str, one: str, two: str) -> None:
    x, y = _edges(one), _edges(two)
    pairs = [[(int(a), int(b)) for b in y] for a in x]
    found = poisoned((x.size, y.size, 8), "bool")
    least = poisoned((x.size, y.size, 3), "int64")
    most = poisoned((x.size, y.size, 3), "uint64")
    with kd.use(computing_target):
        compared[1, (x.size, y.size)](x, y, found)
        extremes[1, (x.size, y.size)](x, y, least, most)
    for row, results, low, high in zip(pairs, found, least, most, strict=True):
        for (a, b), result, small, large in zip(row, results, low, high, strict=True):
            chosen = max(a, 3)
            expected = [a < b, a <= b, a > b, a >= b, a == b, a != b, a < b, chosen > b]
            assert result.tolist() == expected, (a, b)
            assert {int(v) % U64 for v in small} == {min(a, b) % U64}, (a, b)
            assert {int(v) for v in large} == {max(a, b) % U64}, (a, b)


@kd.kernel
def mixed(u, n, out):
    i = kd.grid(1)
    out[i, 0] = u[i] + n[i]
    out[i, 1] = (u[i] - n[i]) * 3
    out[i, 2] = u[i] ^ n[i] | n[i] << 3
    s = u[i]
    for _ in range(3):
        s = s * n[i] + n[i]
    out[i, 3] = s


def test_sums_and_products_of_both_signs_are_modular(computing_target: str) -> None:
    """Bits that depend on no sign are right, and nothing is warned of."""
    u, n = np.array(WIDE, np.uint64), np.array(SIGNED, np.int64)
    out = poisoned((u.size, 4), "uint64")
    with kd.use(computing_target), warnings.catch_warnings():
        warnings.simplefilter("error", kd.KernelWarning)
        mixed[1, u.size](u, n, out)
    for a, b, found in zip(WIDE, SIGNED, out.tolist(), strict=True):
        s = a
        for _ in range(3):
            s = s * b + b
        assert found == [v % U64 for v in (a + b, (a - b) * 3, a ^ b | b << 3, s)]


@kd.kernel
def pixels(a, b, out):
    i = kd.grid(1)
    out[i, 0] = max(a[i] + b[i] - 255, 0)
    out[i, 1] = (a[i] + b[i]) // 2 - a[i]
    out[i, 2] = 4 * a[i] - (a[i] + b[i] + b[i])
    out[i, 3] = (max(a[i] + b[i], np.int64(a[i]) - 300) & 255) - 256


def test_what_smaller_unsigned_numbers_make_may_become_negative(computing_target: str) -> None:
    """As numba.cuda has it: literals beside a promoted sum are int64."""
    a, b = np.array([9, 200, 255, 0], np.uint8), np.array([250, 250, 255, 1], np.uint8)
    out = poisoned((4, 4), "float32")
    with kd.use(computing_target), warnings.catch_warnings():
        warnings.simplefilter("error", kd.KernelWarning)
        pixels[1, 4](a, b, out)
    for p, q, found in zip(a.tolist(), b.tolist(), out.tolist(), strict=True):
        differences = [max(p + q - 255, 0), (p + q) // 2 - p, 4 * p - (p + 2 * q)]
        assert found == [*differences, (p + q) % 256 - 256]


@kd.func
def returned(x, limit):
    if x > limit:
        return x
    return 0


@kd.kernel
def of_returns(x, out):
    i = kd.grid(1)
    out[i] = returned(x[i], 7) // 3


def test_a_returned_literal_beside_a_uint64_is_one(computing_target: str) -> None:
    x, out = np.array(WIDE, np.uint64), poisoned(len(WIDE), "uint64")
    with kd.use(computing_target), warnings.catch_warnings():
        warnings.simplefilter("error", kd.KernelWarning)
        of_returns[1, x.size](x, out)
    assert out.tolist() == [v // 3 if v > 7 else 0 for v in WIDE]


@kd.kernel
def of_numpy(x, out):
    i = kd.grid(1)
    v = x[i]
    out[i, 0] = np.where(v > 7, v, 0)
    out[i, 1] = np.clip(v, 3, 9223372036854775809) // 3
    out[i, 2] = np.clip(v, None, 5)
    out[i, 3] = np.right_shift(v, 3) // 3
    out[i, 4] = np.left_shift(v, 1) // 3
    first = second = 3
    first += v
    out[i, 5] = first // 3
    out[i, 6] = second - 1


def test_literals_given_to_functions_and_to_several_variables(computing_target: str) -> None:
    x, out = np.array(WIDE, np.uint64), poisoned((len(WIDE), 7), "uint64")
    with kd.use(computing_target), warnings.catch_warnings():
        warnings.simplefilter("error", kd.KernelWarning)
        of_numpy[1, x.size](x, out)
    for v, found in zip(WIDE, out.tolist(), strict=True):
        limited = max(3, min(v, 2**63 + 1)) // 3
        shifted_values = [(v >> 3) // 3, v * 2 % U64 // 3]
        chosen = v if v > 7 else 0
        assert found == [chosen, limited, min(v, 5), *shifted_values, (3 + v) % U64 // 3, 2]


LIMITS = (3, 7)


@kd.func
def ordered(x, limit):
    if x > limit:
        return x, 0
    return 7, x


@kd.kernel
def pairs(x, out):
    i = kd.grid(1)
    v = x[i]
    pair = (v, 0) if v > 7 else (0, v)
    out[i, 0] = pair[0] // 3
    out[i, 1] = pair[1] // 3
    pair = (v, 5)
    if v > 9:
        pair = (5, v)
    first, second = pair
    out[i, 2] = first // 3
    out[i, 3] = second // 3
    first, second = ordered(v, 7)
    out[i, 4] = first // 3
    out[i, 5] = second // 3
    chosen = (LIMITS[0], v) if v > 9 else pair
    out[i, 6] = chosen[0] // 3
    out[i, 7] = chosen[1] // 3
    fixed = (v, 5)
    out[i, 8] = (fixed[0] + fixed[1]) // 3


def test_literals_in_tuples_beside_a_uint64(computing_target: str) -> None:
    x, out = np.array(WIDE, np.uint64), poisoned((len(WIDE), 9), "uint64")
    with kd.use(computing_target), warnings.catch_warnings():
        warnings.simplefilter("error", kd.KernelWarning)
        pairs[1, x.size](x, out)
    for v, found in zip(WIDE, out.tolist(), strict=True):
        rows = [(v, 0) if v > 7 else (0, v), (5, v) if v > 9 else (v, 5)]
        rows += [(v, 0) if v > 7 else (7, v), (3, v) if v > 9 else (v, 5)]
        assert found == [n // 3 for row in rows for n in row] + [(v + 5) % U64 // 3]


@kd.func
def power(base, exponent, modulus=65521):
    result, base = 1, base % modulus
    while exponent > 0:
        if exponent & 1:
            result = result * base % modulus
        base = base * base % modulus
        exponent >>= 1
    return result


@kd.func
def digits(number, base=10):
    count = 0
    while number:
        number //= base
        count += 1
    return count


@kd.func
def clamped(number, low, high):
    return min(max(number, low), high)


@kd.kernel
def given_literals(x, signed, out):
    i = kd.grid(1)
    v = x[i]
    out[i, 0] = power(v, 13)
    out[i, 1] = power(exponent=2, base=v) + power(v, 3, modulus=1009)
    out[i, 2] = digits(v) + digits(v, 7)
    out[i, 3] = clamped(v, 5, 2**63 - 1) // 3
    out[i, 4] = max(v, signed[i]) // 3
    out[i, 5] = (max(signed[i], v, 3) + 7) % 10
    for j in range(v & 7):
        out[i, 6] = j // 2
    for j in range(3, v & 7, 2):
        out[i, 7] = j // 2


def test_literals_that_functions_are_given_beside_a_uint64(computing_target: str) -> None:
    signed = np.array([-1, 2**62, 0, 5] * len(WIDE))[: len(WIDE)]
    x, out = np.array(WIDE, np.uint64), np.zeros((len(WIDE), 8), "uint64")
    with kd.use(computing_target), warnings.catch_warnings():
        warnings.simplefilter("error", kd.KernelWarning)
        given_literals[1, x.size](x, signed, out)
    for v, n, found in zip(WIDE, signed.tolist(), out.tolist(), strict=True):
        most = max(v, n)
        rounds = [j // 2 for j in range(v & 7)], [j // 2 for j in range(3, v & 7, 2)]
        assert found == [
            pow(v, 13, 65521),
            pow(v, 2, 65521) + pow(v, 3, 1009),
            len(str(v)) * (v > 0) + _digits(v, 7),
            min(max(v, 5), 2**63 - 1) // 3,
            most // 3,
            (max(most, 3) + 7) % U64 % 10,
            *(each[-1] if each else 0 for each in rounds),
        ]


def _digits(number: int, base: int) -> int:
    count = 0
    while number:
        number, count = number // base, count + 1
    return count


@kd.func
def lowered(x, by):
    return x - by


@kd.func
def counted(x, n):
    n -= 1
    return n // 2 if x else 0


@kd.kernel
def lowered_to_floats(x, out):
    out[0] = lowered(x[0], 5)


@kd.kernel
def lowered_counts(x, out):
    out[0] = counted(x[0], 0)


def test_parameters_that_are_literals_may_change(computing_target: str) -> None:
    x, out = np.array([3], np.uint64), poisoned(1, "float64")
    with kd.use(computing_target):
        with pytest.warns(kd.KernelWarning, match="x - by is a uint64"):
            lowered_to_floats[1, 1](x, out)
        assert out[0] == float(U64 - 2)
        lowered_counts[1, 1](x, out)
    assert out[0] == -1.0


@kd.kernel
def looped(x, small, out):
    total = largest = 0
    for v in x:
        total += v
        largest = max(largest, v // LIMITS[0])
    out[0] = total // 3
    out[1] = largest // 3
    for k, v in enumerate(x):
        out[2] = (v + 1) // 3 + k
    for v, s in zip(x, small):  # noqa: B905 - kernels have no strict=
        out[3] = (v or 1) // LIMITS[1] + max(s - 5, 0)


def test_elements_that_a_loop_gives_are_said_to_be_uint64(computing_target: str) -> None:
    x, small = np.array(WIDE, np.uint64), np.full(len(WIDE), 3, np.uint8)
    out = poisoned(4, "uint64")
    with kd.use(computing_target), warnings.catch_warnings():
        warnings.simplefilter("error", kd.KernelWarning)
        looped[1, 1](x, small, out)
    expected = [sum(WIDE) % U64 // 3, (U64 - 1) // 3 // 3, len(WIDE) - 1, (U64 - 1) // 7]
    assert out.tolist() == expected


@kd.kernel
def widened(a, u, out):
    i = kd.grid(1)
    v = a[i]
    out[i, 0] = max(2 - v, 0)
    v = v >> 1
    out[i, 1] = v - 10
    if u[i] > 7:
        v = np.uint64(u[i])
    out[i, 2] = v // 3
    m = 0
    for _ in range(2):
        m = np.uint64(m + v)
    out[i, 3] = m // 3


def test_a_small_unsigned_number_that_becomes_a_uint64(computing_target: str) -> None:
    """What is read before it does has the rules of small numbers."""
    a, u = np.array([0, 1, 2, 255], np.uint8), np.array([2**63 + 5, 9, 3, 7], np.uint64)
    out = poisoned((4, 4), "int64")
    with kd.use(computing_target), warnings.catch_warnings():
        warnings.simplefilter("error", kd.KernelWarning)
        widened[1, 4](a, u, out)
    for p, q, found in zip(a.tolist(), u.tolist(), out.tolist(), strict=True):
        v = q if q > 7 else p >> 1
        assert found == [max(2 - p, 0), (p >> 1) - 10, v // 3, 2 * v % U64 // 3]


@kd.kernel
def by_magnitudes(x, y, out):
    i = kd.grid(1)
    out[i, 0] = (7 & x[i]) // abs(y[i])
    out[i, 1] = (7 & x[i]) % abs(y[i])
    out[i, 2] = abs(y[i])


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_the_magnitude_of_the_least_integer_is_negative(computing_target: str, dtype: str) -> None:
    """It has the width of the integer, and wraps around."""
    least = int(np.iinfo(dtype).min)
    x, y = np.array([5, 7, 0, 2]), np.array([least, least, 3, -3], dtype)
    out = poisoned((4, 3), "int64")
    with kd.use(computing_target):
        by_magnitudes[1, 4](x, y, out)
    for p, q, found in zip(x.tolist(), y.tolist(), out.tolist(), strict=True):
        size = least if q == least else abs(q)
        assert found == [p // size, p % size, size]


@kd.kernel
def rounded(x, n, out):
    i = kd.grid(1)
    out[i, 0] = round(x[i])
    q, r = divmod(x[i], 10)
    out[i, 1] = q
    out[i, 2] = r
    out[i, 3] = np.floor_divide(x[i], 3)
    out[i, 4] = np.add(x[i], n[i])
    out[i, 5] = (n[i] > 0) ** np.int32(2)


@pytest.mark.filterwarnings("ignore:.*the result is int64:kerneldsl.KernelWarning")
def test_functions_that_numba_computes_in_floats(computing_target: str) -> None:
    x, n = np.array(WIDE, np.uint64), np.array(SIGNED, np.int64)
    out = poisoned((x.size, 6), "uint64")
    with kd.use(computing_target):
        rounded[1, x.size](x, n, out)
    for a, b, found in zip(WIDE, SIGNED, out.tolist(), strict=True):
        assert found == [a, a // 10, a % 10, a // 3, (a + b) % U64, int(b > 0)]


@kd.kernel
def shifted(x, counts, out):
    i, j = kd.grid(2)
    out[i, j, 0] = x[i] << counts[j]
    out[i, j, 1] = x[i] >> counts[j]
    out[i, j, 2] = np.left_shift(x[i], counts[j])


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_every_bit_of_a_count_is_read(computing_target: str, dtype: str) -> None:
    """Counts of 2**32 and more too, of which PTX's instruction reads the lower 32 bits."""
    x = _edges(dtype)
    counts = np.array([0, 1, 63, 64, 65, 2**32, 2**32 + 1, 2**53 + 1, 2**63 - 1], dtype)
    out = poisoned((x.size, counts.size, 3), dtype)
    with kd.use(computing_target):
        shifted[1, (x.size, counts.size)](x, counts, out)
    for value, row in zip(x.tolist(), out, strict=True):
        for count, found in zip(counts.tolist(), row, strict=True):
            left = value << count if count < 64 else 0
            right = value >> min(count, 64)
            assert [int(v) % U64 for v in found] == [v % U64 for v in (left, right, left)]
