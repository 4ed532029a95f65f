"""Philox against its published vectors, and what is made of its words against exact arithmetic."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from tests.support.arrays import HOST_DTYPES
from tests.support.extent import sample

_WORDS = st.integers(0, 2**32 - 1)
_NUMBERS = st.integers(-(2**63), 2**63 - 1)
_SIZE = 20_000

#: Random123, ``tests/kat_vectors``, "philox4x32 10": counter, key, result.
_VECTORS = [
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def _philox(counter: tuple[int, ...], key: tuple[int, ...]) -> tuple[int, ...]:
    """The paper's rounds, in Python's integers."""
    low = 2**32 - 1
    a, b, c, d = counter
    for number in range(10):
        first, second = a * 0xD2511F53, c * 0xCD9E8D57
        left = key[0] + number * 0x9E3779B9 & low
        right = key[1] + number * 0xBB67AE85 & low
        a, b, c, d = second >> 32 ^ b ^ left, second & low, first >> 32 ^ d ^ right, first & low
    return a, b, c, d


@pytest.mark.parametrize(("counter", "key", "words"), _VECTORS)
def test_published_vectors(
    counter: tuple[int, ...], key: tuple[int, ...], words: tuple[int, ...]
) -> None:
    assert _philox(counter, key) == words
    assert kd.random.philox_4x32_10(*counter, *key) == words


@kd.kernel
def _scrambled(c0, c1, c2, c3, k0, k1, out):
    words = kd.random.philox_4x32_10(c0, c1, c2, c3, k0, k1)
    for j in range(4):
        out[j] = words[j]


@settings(deadline=None)  # the first example compiles
@given(st.tuples(*[_WORDS] * 4), st.tuples(*[_WORDS] * 2))
def test_any_counter_and_key(counter: tuple[int, ...], key: tuple[int, ...]) -> None:
    out = np.empty(4, np.uint32)
    with kd.use("cpu"):
        _scrambled[1, 1](*counter, *key, out)
    assert tuple(out.tolist()) == _philox(counter, key)


@given(_NUMBERS, _NUMBERS, _NUMBERS)
def test_seed_index_and_subsequence_are_key_and_counter(
    seed: int, index: int, subsequence: int
) -> None:
    def halves(number: int) -> tuple[int, int]:
        return number & 2**32 - 1, number >> 32 & 2**32 - 1

    wanted = _philox((*halves(index), *halves(subsequence)), halves(seed))
    assert kd.random.philox(seed, index, subsequence) == wanted


def test_exponential_numbers_are_logarithms_of_words() -> None:
    with mpmath.workdps(40):
        for index in range(200):
            words = [int(word) for word in kd.random.philox(6, index)]
            exact = [-mpmath.log(mpmath.mpf(word + 1) / 2**32) for word in words]
            found = np.array(kd.random.exponential4_float32(6, index))
            assert max(_ulp_errors(found, exact)) < 2
            wide = np.array(kd.random.exponential2_float64(6, index))
            uppers = [(words[k + 1] << 32 | words[k]) >> 11 for k in (0, 2)]
            exact = [-mpmath.log(1 - mpmath.mpf(upper) / 2**53) for upper in uppers]
            assert max(_ulp_errors(wide, exact)) < 2


def test_uint64_beyond_int64() -> None:
    assert kd.random.philox(np.uint64(2**64 - 1), 0) == kd.random.philox(-1, 0)


@given(_WORDS, _WORDS)
def test_uniform_numbers_are_the_upper_bits(low: int, high: int) -> None:
    found = kd.random.unit_float32(low)
    assert found.dtype == np.float32
    assert float(found) == (low >> 8) / 2**24
    wide = kd.random.unit_float64(low, high)
    assert wide.dtype == np.float64
    assert float(wide) == (high << 32 | low) // 2**11 / 2**53


def test_uniform_numbers_are_below_one() -> None:
    assert kd.random.unit_float32(2**32 - 1) == np.nextafter(np.float32(1), np.float32(0))
    assert kd.random.unit_float64(2**32 - 1, 2**32 - 1) == np.nextafter(1.0, 0.0)


@pytest.mark.parametrize("name", [n for n in ("float16", "bfloat16") if n in HOST_DTYPES])
def test_uniform_numbers_of_narrow_types_have_their_bits(name: str) -> None:
    bits = {"float16": 11, "bfloat16": 8}[name]
    function = getattr(kd.random, f"uniform_{name}")

    @kd.kernel
    def fill(out):
        i = kd.grid(1)
        out[i] = function(3, i)

    with kd.use("cpu"):
        out = kd.empty(_SIZE, name)
        fill.forall(_SIZE)(out)
    found = out.copy_to_host().astype(np.float64)
    wanted = [int(kd.random.philox(3, i)[0]) >> 32 - bits for i in range(100)]
    np.testing.assert_array_equal(found[:100] * 2**bits, wanted)
    assert found.min() >= 0
    assert found.max() < 1


@pytest.mark.filterwarnings("error")  # NumPy's, of integers that wrap around
@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("int32", -7, 12),
        ("int32", -(2**31), 2**31),
        ("uint32", 2**31, 2**32),
        ("int64", -(2**63), 2**63 - 1),
        ("int64", -3, 10**12),
        ("uint64", np.uint64(5), np.uint64(2**64 - 1)),
        ("int32", 4, 4),
        ("int64", 4, 4),
    ],
)
def test_integers_are_parts_of_a_product(dtype: str, low: int, high: int) -> None:
    function = getattr(kd.random, f"integers_{dtype}")
    used = 2 if dtype.endswith("32") else 4
    for index in range(200):
        words = kd.random.philox(11, index)
        bits = sum(int(words[k]) << 32 * k for k in range(used))
        wanted = int(low) + (bits * (int(high) - int(low)) >> 32 * used)
        found = function(11, index, low, high)
        assert found.dtype == dtype
        assert int(found) == wanted


def _exact_normal(radius_word: int, angle_word: int, turn: float = 0) -> mpmath.mpf:
    u = mpmath.mpf(radius_word + 1) / 2**32
    v = mpmath.mpf(angle_word >> 6) / 2**26 + turn
    return mpmath.sqrt(-2 * mpmath.log(u)) * mpmath.sinpi(2 * v)


def _ulp_errors(found: np.ndarray, exact: list[mpmath.mpf]) -> list[float]:
    return [
        float(abs(mpmath.mpf(float(value)) - wanted) / np.spacing(np.abs(value)))
        for value, wanted in zip(found, exact, strict=True)
    ]


@kd.kernel
def _normals(seed, first, out):
    i = kd.grid(1)
    out[i] = kd.random.normal_float32(seed, first + i)


@kd.kernel
def _wide_normals(seed, first, out):
    i = kd.grid(1)
    out[i] = kd.random.normal_float64(seed, first + i)


def test_normal_float32_is_within_three_ulp_of_the_transform() -> None:
    out = np.empty(_SIZE, np.float32)
    with kd.use("cpu"):
        _normals.forall(_SIZE)(5, 1000, out)
    places = sample(range(_SIZE), _SIZE // 5)
    words = [kd.random.philox(5, 1000 + i) for i in places]
    with mpmath.workdps(40):
        exact = [_exact_normal(int(w[0]), int(w[1])) for w in words]
        assert max(_ulp_errors(out[places], exact)) < 3


# Words where a radius or a sine begins, ends, or changes its formula.
_EDGES = sorted(
    {n + d for n in (0, 2**30, 2**31, 3 * 2**30, 2**32 - 1) for d in (-2, -1, 0, 1, 2)}
    | {2**k + d for k in range(32) for d in (-2, -1, 0)}
)
_EDGES = [n for n in _EDGES if 0 <= n < 2**32]


def test_float32_of_words_at_the_edges() -> None:
    from kerneldsl.random.normal import _of_word, _on_circle, _radius

    with mpmath.workdps(40):
        for word in _EDGES:
            logarithm = -mpmath.log(mpmath.mpf(word + 1) / 2**32)
            assert _ulp_errors(np.array([_of_word(word)]), [logarithm])[0] < 2
            radius = mpmath.sqrt(-2 * mpmath.log(mpmath.mpf(word + 1) / 2**32))
            found = _radius(word)
            assert _ulp_errors(np.array([found]), [radius])[0] < 1.5
            turn = mpmath.mpf(word >> 6) / 2**25
            exact = [mpmath.sinpi(turn), mpmath.cospi(turn)]
            assert max(_ulp_errors(np.array(_on_circle(np.float32(1), word)), exact)) < 1.5


def test_the_other_three_of_normal4() -> None:
    with mpmath.workdps(40):
        for index in range(300):
            words = [int(w) for w in kd.random.philox(9, index)]
            found = np.array(kd.random.normal4_float32(9, index))
            exact = [
                _exact_normal(words[2 * pair], words[2 * pair + 1], turn)
                for pair in (0, 1)
                for turn in (0, 0.25)
            ]
            assert found[0] == kd.random.normal_float32(9, index)
            assert max(_ulp_errors(found, exact)) < 3


def test_normal_float64_is_within_six_ulp_of_the_transform() -> None:
    out = np.empty(2000)
    with kd.use("cpu"):
        _wide_normals.forall(out.size)(5, 0, out)
    with mpmath.workdps(40):
        exact = []
        for index in range(out.size):
            w = [int(word) for word in kd.random.philox(5, index)]
            u = 1 - mpmath.mpf((w[1] << 32 | w[0]) >> 11) / 2**53
            v = mpmath.mpf((w[3] << 32 | w[2]) >> 11) / 2**53
            exact.append(mpmath.sqrt(-2 * mpmath.log(u)) * mpmath.sinpi(2 * v))
        assert max(_ulp_errors(out, exact)) < 6


def test_the_first_of_several_is_that_of_one() -> None:
    for index in range(50):
        assert kd.random.uniform4_float32(1, index)[0] == kd.random.uniform_float32(1, index)
        assert kd.random.uniform2_float64(1, index)[0] == kd.random.uniform_float64(1, index)
        assert kd.random.normal2_float64(1, index)[0] == kd.random.normal_float64(1, index)
        fours = kd.random.exponential4_float32(1, index)
        assert fours[0] == kd.random.exponential_float32(1, index)
        pair = kd.random.exponential2_float64(1, index)
        assert pair[0] == kd.random.exponential_float64(1, index)


def test_moments_and_independence_of_normal_numbers() -> None:
    """Bounds are five standard errors: a fixed seed passes or fails for good."""
    out = np.empty(1 << 18, np.float32)
    with kd.use("cpu"):
        _normals.forall(out.size)(1, 0, out)
    x, error = out.astype(np.float64), 5 / np.sqrt(out.size)
    assert abs(x.mean()) < error
    assert abs((x**2).mean() - 1) < error * np.sqrt(2)
    assert abs((x**3).mean()) < error * np.sqrt(15)
    assert abs((x**4).mean() - 3) < error * np.sqrt(96)
    assert abs((x[1:] * x[:-1]).mean()) < error


@pytest.mark.full
def test_contraction_changes_no_bit() -> None:
    def fill(seed, out):
        i = kd.grid(1)
        out[i] = kd.random.normal_float32(seed, i)

    found = []
    for contract in (True, False):
        out = np.empty(_SIZE, np.float32)
        with kd.use("cpu"):
            kd.kernel(contract=contract)(fill).forall(_SIZE)(77, out)
        found.append(out.view(np.uint32))
    np.testing.assert_array_equal(*found)
    host = np.array([kd.random.normal_float32(77, i) for i in range(500)])
    np.testing.assert_array_equal(found[0][:500], host.view(np.uint32))
