"""Random arrays against Philox in NumPy, and against their distributions.

The tests of distributions draw of a fresh seed and fail with a probability of `FALSE_ALARM` each.
"""

from __future__ import annotations

import itertools
import math
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

import kerneldsl as kd
from kerneldsl.errors import ArgumentError, ArgumentTypeError, ArgumentValueError
from stdlib_kernels.random import Generator, State, default_rng
from tests.support.arrays import HOST_DTYPES, poisoned
from tests.support.extent import examples, full_beyond
from tests.support.philox import philox_words, unbiased

FALSE_ALARM = 1e-9
SIZES = [0, 1, 2, 3, 4, 5, 131, (3, 7), (2, 0, 5), (), 1030]
#: Random123, ``tests/kat_vectors``, "philox4x32 10": counter, key and result as numbers.
VECTORS = [
    (0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    (2**128 - 1, 2**64 - 1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (
        0x03707344_13198A2E_85A308D3_243F6A88,
        0x299F31D0_A4093822,
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ),
]


def host(array) -> np.ndarray:
    return np.asarray(array.copy_to_host() if isinstance(array, kd.DeviceArray) else array)


@pytest.mark.parametrize(("counter", "key", "words"), VECTORS)
def test_published_vectors(target, counter, key, words):
    rng = default_rng()
    rng.state = (key, counter)
    found = host(rng.integers(2**32, size=4, dtype=np.uint32))
    assert " ".join(f"{word:08x}" for word in found) == words
    assert rng.state == State(key, (counter + 1) % 2**128)


def uniform_of(words: np.ndarray, dtype: str) -> np.ndarray:
    """The upper bits of words as numbers in [0, 1)."""
    if dtype == "float64":
        pairs = words.reshape(-1, 2)
        return (pairs[:, 1] << np.uint64(32) | pairs[:, 0]) // np.uint64(2**11) / 2.0**53
    bits = {"float32": 24, "float16": 11, "bfloat16": 8}[dtype]
    return (words.reshape(-1) >> np.uint64(32 - bits)).astype(np.float64) / 2**bits


@pytest.mark.parametrize(
    "dtype",
    full_beyond(
        [n for n in ("float32", "float64", "float16", "bfloat16") if n in HOST_DTYPES],
        ["float32"],
    ),
)
def test_uniform_numbers_are_those_of_philox(target, rng, dtype):
    key, counter = int(rng.integers(2**63)), 2**64 - 3  # the lower half overflows in a draw
    drawn = default_rng(key)
    for size in SIZES:
        drawn.state = (key, counter)
        found = drawn.random(size, dtype)
        n = math.prod(size) if isinstance(size, tuple) else size
        wanted = uniform_of(philox_words(key, counter, n // 2 + 1), dtype)[:n]
        assert isinstance(found, kd.DeviceArray)
        assert found.dtype.name == dtype
        np.testing.assert_array_equal(host(found).astype(float).reshape(-1), wanted)
        assert drawn.state.counter == counter + -(-n // (2 if dtype == "float64" else 4))
        # A product is rounded before it is added, on every target.
        number = np.float64 if dtype == "float64" else np.float32
        drawn.state = (key, counter)
        scaled = host(drawn.uniform(-3, 7.25, size, dtype=dtype)).reshape(-1)
        bits = dtype if number is np.float64 else "float32"
        unit = uniform_of(philox_words(key, counter, n // 2 + 1), bits)
        units = unit[:n].astype(number)
        expected = np.array([kd.fma(number(10.25), v, number(-3)) for v in units])
        np.testing.assert_array_equal(scaled, expected.astype(scaled.dtype))


@pytest.mark.full
def test_normal_and_exponential_numbers_are_those_of_the_language(target, rng):
    key = int(rng.integers(2**63))
    drawn = default_rng(key)
    for name, parameters in (("normal", (2.5, 3.0)), ("exponential", (3.0,))):
        of_four = getattr(kd.random, f"{name}4_float32")
        shift = np.float32(2.5 if name == "normal" else 0)
        fours = [of_four(key, i) for i in range(60)]
        wanted = np.array([[kd.fma(np.float32(3), v, shift) for v in four] for four in fours])
        drawn.state = (key, 0)
        found = host(getattr(drawn, name)(*parameters, 239, dtype="float32"))
        np.testing.assert_array_equal(found, wanted.reshape(-1)[:239])
        of_two = getattr(kd.random, f"{name}2_float64")
        wide = np.array([of_two(key, i) for i in range(60)]).reshape(-1)
        drawn.state = (key, 0)
        found = host(getattr(drawn, name)(*parameters, 119))
        np.testing.assert_allclose(found, shift + 3 * wide[:119], rtol=1e-14, atol=1e-14)


INTERVALS = [
    ("int8", -128, 128),
    ("uint8", 3, 10),
    ("int16", -5, -4),
    ("int32", -(2**31), 2**31),
    ("uint32", 0, 3 * 2**30),
    ("int64", -7, 2**31 + 1),
    ("int64", -(2**62), 2**61 + 5),
    ("int64", -(2**63), 2**63),
    ("uint64", 5, 2**64),
    ("uint64", 0, 3 * 2**62),
]


@pytest.mark.parametrize("interval", full_beyond(INTERVALS, [INTERVALS[4]]))
def test_integers_are_lemires(target, rng, interval):
    dtype, low, high = interval
    key, counter = int(rng.integers(2**63)), int(rng.integers(2**62)) << 20
    drawn = default_rng(key)
    drawn.state = (key, counter)
    found = host(drawn.integers(low, high, 237, dtype))
    assert found.dtype == dtype
    wanted = [low + n for n in unbiased(key, counter, 237, high - low)]
    assert found.tolist() == wanted
    drawn.state = (key, counter)
    again = poisoned((474,), dtype)[::2]
    assert drawn.integers(low, high - 1, dtype=dtype, endpoint=True, out=again) is again
    assert again.tolist() == wanted


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 2**64 - 1),
    sizes=st.lists(st.integers(0, 70), min_size=1, max_size=4),
    data=st.data(),
)
def test_numbers_depend_on_state_and_place_alone(target, seed, sizes, data):
    rng = default_rng(seed)
    for size in sizes:
        state = rng.state
        first = host(rng.random(size, np.float32))
        rng.state = state
        longer = size + data.draw(st.integers(0, 9))
        out = kd.to_device(poisoned((longer,), np.float32))
        rng.random(out=out, dtype=np.float32)
        np.testing.assert_array_equal(host(out)[:size], first)
        rng.state = State(state.key, state.counter + -(-size // 4))


def test_out_of_any_kind_and_layout(target):
    rng = default_rng(5)
    wanted = host(rng.normal(size=(6, 10), dtype=np.float32))
    for out in (
        poisoned((6, 10), np.float32),
        poisoned((10, 6), np.float32).T,
        kd.to_device(poisoned((6, 10), np.float32)),
        kd.to_device(poisoned((12, 30), np.float32))[::2, ::3],
    ):
        rng.state = State(5, 0)
        assert rng.normal(out=out) is out  # of its dtype
        np.testing.assert_array_equal(host(out), wanted)


def test_one_number_is_a_scalar(target):
    rng = default_rng(1)
    assert isinstance(rng.random(), np.float64)
    assert isinstance(rng.integers(7), np.int64)
    assert isinstance(rng.choice(7), np.int64)
    assert rng.state.counter == 3
    assert default_rng(rng) is rng
    assert default_rng().state != default_rng().state
    assert repr(Generator(255)) == "Generator(key=0xff, counter=0)"


def test_threads_share_a_generator(target):
    rng = default_rng(3)
    found: list[float] = []
    threads = [
        threading.Thread(target=lambda: found.extend(host(rng.random(40)))) for _ in range(6)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(found) == sorted(host(default_rng(3).random(240)).tolist())


DISTRIBUTIONS = {
    "random": (lambda rng, n, dtype: rng.random(n, dtype), stats.uniform()),
    "uniform": (lambda rng, n, dtype: rng.uniform(-1, 3, n, dtype=dtype), stats.uniform(-1, 4)),
    "normal": (lambda rng, n, dtype: rng.normal(2, 0.5, n, dtype=dtype), stats.norm(2, 0.5)),
    "exponential": (
        lambda rng, n, dtype: rng.exponential(4, n, dtype=dtype),
        stats.expon(scale=4),
    ),
}


@pytest.mark.parametrize("dtype", full_beyond(["float32", "float64"], ["float32"]))
@pytest.mark.parametrize("name", full_beyond(DISTRIBUTIONS, ["normal"]))
def test_distributions(target, name, dtype):
    draw, distribution = DISTRIBUTIONS[name]
    x = host(draw(default_rng(), 1 << 17, dtype)).astype(np.float64)
    # That values of float32 repeat moves the statistic by 2**-24 of its 2**-8.
    assert stats.kstest(x, distribution.cdf).pvalue > FALSE_ALARM
    # Neighbours, and numbers of two counters, are independent.
    u = distribution.cdf(x)
    for step in (1, 2, 4, 4096):
        # Each is in one pair: counts of pairs that overlap are of another distribution.
        one, two = u.reshape(-1, 2, step).swapaxes(0, 1)
        cells = np.histogram2d(one.ravel(), two.ravel(), 16, [(0, 1)] * 2)[0]
        assert stats.chisquare(cells.reshape(-1)).pvalue > FALSE_ALARM


@pytest.mark.full
@pytest.mark.parametrize("count", [7, 3 * 2**30, 2**31 + 1, 3 * 2**62])
def test_integers_favour_none(target, count):
    x = host(default_rng().integers(count, size=1 << 16, dtype=np.uint64))
    parts = 7 if count == 7 else 48
    found = np.bincount([int(v) * parts // count for v in x], minlength=parts)
    edges = [-(-k * count // parts) for k in range(parts + 1)]
    share = np.array([b - a for a, b in itertools.pairwise(edges)], float) / count
    assert stats.chisquare(found, share / share.sum() * x.size).pvalue > FALSE_ALARM


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_choice_takes_elements_of_an_axis(call, target, dtype):
    a = np.arange(60).reshape(3, 4, 5).astype(dtype)
    for axis, size in ((0, 6), (1, (2, 3)), (-1, None), (2, 0)):
        places = default_rng(8).choice(a.shape[axis], size)
        found = call(lambda x, axis, size: default_rng(8).choice(x, size, axis=axis), a, axis, size)
        np.testing.assert_array_equal(found, np.take(a, host(places), axis))


@pytest.mark.full
def test_choice_by_weights(call, target):
    p = np.array([0, 0.1, 0, 0.5, 0.25, 0.15, 0], np.float64)
    x = np.arange(7, dtype=np.int32)
    n = 1 << 15
    found = call(lambda x, p: default_rng().choice(x, n, p=p), x, p)
    counts = np.bincount(found, minlength=7)
    assert not counts[p == 0].any()
    assert stats.chisquare(counts[p > 0], p[p > 0] * n).pvalue > FALSE_ALARM
    # They need not sum to 1, and a float32 sum does not.
    again = call(lambda p: default_rng(3).choice(7, 50, p=p), (p * 40).astype(np.float32))
    assert set(again.tolist()) <= {1, 3, 4, 5}


@pytest.mark.full
def test_permutations(call, target, rng):
    x = np.arange(60, dtype=np.int16).reshape(3, 20)
    for axis in (0, 1):
        places = host(default_rng(4).permutation(x.shape[axis]))
        assert sorted(places) == list(range(x.shape[axis]))
        found = call(lambda x, axis: default_rng(4).permutation(x, axis), x, axis)
        np.testing.assert_array_equal(found, np.take(x, places, axis))
        some = default_rng(4).choice(x.shape[axis], 2, replace=False)
        np.testing.assert_array_equal(host(some), places[:2])
        for array in (x.copy(), x.T.copy().T, kd.to_device(x)):
            assert default_rng(4).shuffle(array, axis) is None
            np.testing.assert_array_equal(host(array), np.take(x, places, axis))
    assert host(default_rng().permutation(0)).size == 0
    # Keys are the numbers of 64 bits, in the order of which elements come.
    keys = host(default_rng(9).integers(2**64, size=500, dtype=np.uint64))
    np.testing.assert_array_equal(host(default_rng(9).permutation(500)), keys.argsort())


@pytest.mark.full
def test_every_order_is_as_likely(target):
    drawn = default_rng()
    counts: dict[tuple[int, ...], int] = dict.fromkeys(itertools.permutations(range(3)), 0)
    for _ in range(600):
        counts[tuple(host(drawn.permutation(3)).tolist())] += 1
    assert stats.chisquare(list(counts.values())).pvalue > FALSE_ALARM


_LARGEST = [
    pytest.param("float16", 65504),
    pytest.param(kd.bfloat16, 3.389e38),
    pytest.param("float32", 3.402e38),
]


@pytest.mark.parametrize(("dtype", "most"), full_beyond(_LARGEST, _LARGEST[1:2]))
def test_parameters_that_the_dtype_does_not_hold(target, dtype, most):
    """They would be inf; up to the largest number they are drawn with."""
    rng = default_rng(1)
    for name, numbers in (
        ("normal", {"loc": -1.01}),
        ("normal", {"scale": 1.01}),
        ("exponential", {"scale": 1.01}),
        ("uniform", {"low": -1.01, "high": 0.0}),
        ("uniform", {"high": 1.01}),
    ):
        beyond = {each: v * most for each, v in numbers.items()}
        with pytest.raises(
            ArgumentValueError, match=rf"is .* and {np.dtype(dtype)} has numbers up"
        ):
            getattr(rng, name)(**beyond, size=2, dtype=dtype)
    drawn = rng.uniform(-most / 2, most / 2, 50, dtype=dtype).copy_to_host().astype(float)
    out = np.full((4, 6), np.nan, dtype)[::2, ::-1]
    assert rng.normal(out=out) is out
    assert np.isfinite(out.astype(float)).all()
    assert np.isfinite(drawn).all()
    assert drawn.min() < -most / 4
    assert drawn.max() > most / 4
    with pytest.raises(ArgumentValueError, match="loc is inf"):
        rng.normal(math.inf, dtype=dtype)


def test_refusals(target):
    rng = default_rng(0)
    with pytest.raises(ArgumentTypeError, match="dtype is int32"):
        rng.random(3, np.int32)
    with pytest.raises(ArgumentTypeError, match="out is a list"):
        rng.normal(out=[1.0])
    with pytest.raises(ArgumentTypeError, match=r"size is 2\.5"):
        rng.random(2.5)
    with pytest.raises(ArgumentValueError, match="size is -1"):
        rng.random(-1)
    with pytest.raises(ArgumentValueError, match=r"scale is -1\. It must be a number from 0 on"):
        rng.normal(0, -1)
    with pytest.raises(ArgumentValueError, match="scale is nan"):
        rng.exponential(math.nan)
    with pytest.raises(ArgumentValueError, match="distance from low to high is inf"):
        rng.uniform(-1e308, 1e308)
    with pytest.raises(ArgumentTypeError, match="size is True"):
        rng.random(True)
    with pytest.raises(ArgumentTypeError, match="low is True"):
        rng.integers(True)
    with pytest.raises(ArgumentTypeError, match="endpoint is 1"):
        rng.integers(3, endpoint=1)
    with pytest.raises(ArgumentValueError, match="low is 0, and high 256"):
        rng.integers(256, dtype=np.int8)
    with pytest.raises(ArgumentValueError, match="low is 3, and high 3"):
        rng.integers(3, 3)
    with pytest.raises(ArgumentTypeError, match="out has the dtype float32"):
        rng.random(dtype=np.float64, out=np.empty(3, np.float32))
    with pytest.raises(ArgumentValueError, match=r"out has the shape \(3,\)"):
        rng.random(4, out=np.empty(3))
    with pytest.raises(ArgumentValueError, match="seed is -1"):
        default_rng(-1)
    with pytest.raises(ArgumentTypeError, match="state is 3"):
        rng.state = 3
    with pytest.raises(ArgumentValueError, match="replace is False"):
        rng.choice(3, p=np.ones(3), replace=False)
    with pytest.raises(ArgumentValueError, match="there are 3 elements, and 4 are drawn"):
        rng.choice(3, 4, replace=False)
    for p in ([1.0], [1.0, -1.0, 1.0], [0.0, 0.0, 0.0], [np.nan, 1.0, 1.0]):
        with pytest.raises(ArgumentError):
            rng.choice(3, p=np.array(p))
    with pytest.raises(ArgumentValueError, match="there are 0 elements"):
        rng.choice(np.empty((0, 3)))
