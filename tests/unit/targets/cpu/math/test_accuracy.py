"""Each function is within the guide's bound everywhere, with the special results of IEEE 754."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from targets.cpu.math.vector.define import FUNCTIONS as WRITTEN
from tests.support.extent import IS_QUICK, examples, full_beyond, sample
from tests.unit.targets.cpu.math.functions import FUNCTIONS, edges, errors, exact, results, sampled

KINDS = {"float": "float32", "double": "float64"}
WRITTEN_KINDS = [(name, KINDS[kind]) for name, kinds in WRITTEN.items() for kind in kinds]
_OF_ONE = [case for case in WRITTEN_KINDS if FUNCTIONS[case[0]].arity == 1]
#: Every function once, and every dtype with about as many.
_QUICK_OF_ONE = list(dict(_OF_ONE[::2] + _OF_ONE[1::4]).items())


def test_every_function_is_tested() -> None:
    assert set(FUNCTIONS) == set(WRITTEN)


@pytest.mark.parametrize(("name", "dtype"), full_beyond(WRITTEN_KINDS, sample(WRITTEN_KINDS, 15)))
def test_of_samples(name: str, dtype: str) -> None:
    function, kind = FUNCTIONS[name], np.dtype(dtype)
    count = 500_000 if function.exact is not None else 5_000  # mpmath takes long
    x = sampled(function, kind, examples(count, count // 20), np.random.default_rng())
    got, expected = results(function, *x), exact(function, *x)
    wrong = ~(errors(got, expected) <= function.bounds[kind.itemsize > 4] + 0.5)
    shown = [tuple(each[wrong][i] for each in (*x, got, expected)) for i in range(wrong.sum())][:8]
    assert not wrong.any(), shown


@pytest.mark.parametrize(("name", "dtype"), full_beyond(_OF_ONE, _QUICK_OF_ONE))
def test_zeros_infinities_and_nan(name: str, dtype: str) -> None:
    """A result at these that is a number of the type is met, with its sign."""
    function = FUNCTIONS[name]
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1], dtype)
    got = results(function, x)
    with np.errstate(all="ignore"):
        expected = exact(function, x).astype(dtype)
    is_number = (expected == exact(function, x)) | np.isnan(expected)
    assert np.array_equal(got[is_number], expected[is_number], equal_nan=True)
    assert np.array_equal(
        np.signbit(got[is_number & (x == 0)]), np.signbit(expected[is_number & (x == 0)])
    )
    beyond = edges(np.dtype(dtype))
    if function.exact is not None:
        assert np.array_equal(
            np.isnan(results(function, beyond)), np.isnan(exact(function, beyond))
        )


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_next_to_multiples_of_half_pi(name: str, dtype: str) -> None:
    """Arguments next to multiples of pi / 2, up to the largest; the worst of float64 among them.

    J.-M. Muller, "Elementary Functions", 3rd edition, section 11.3.2: 6381956970095103 * 2**797.
    """
    rng = np.random.default_rng()
    largest = 100 if dtype == "float32" else 1000
    numbers = [
        int(rng.integers(1, 2**20)) << int(rng.integers(0, largest)) for _ in range(examples(500))
    ]
    with mpmath.workprec(2400):
        arguments = [
            float(n * mpmath.pi / 2) for n in [*range(1, 300, 5 if IS_QUICK else 1), *numbers]
        ]
        x = np.array([*arguments, 6381956970095103.0 * 2.0**797, 2.0**1023], "float64")
        x = x[np.abs(x) <= float(np.finfo(dtype).max)].astype(dtype)
        x = np.concatenate([x, np.nextafter(x, 0), -x])
        texts = [mpmath.nstr(getattr(mpmath, name)(mpmath.mpf(float(v))), 25) for v in x]
    expected = np.array([np.longdouble(text) for text in texts])
    function = FUNCTIONS[name]
    worst = errors(results(function, x), expected).max()
    assert worst <= function.bounds[dtype == "float64"] + 0.5


def test_special_powers() -> None:
    """C's annex F.10.4, but for errors."""
    few = [0.0, 1.0, 0.5, 2.0, 3.0, 2.5, math.inf, math.nan, 1e300, 2.0**53 + 2]
    x, y = (each.ravel() for each in np.meshgrid(*[np.array([*few, *(-f for f in few)])] * 2))
    got = results(FUNCTIONS["pow"], x, y)
    with np.errstate(all="ignore"):
        expected = np.power(x, y)
    assert (errors(got, expected.astype(np.longdouble)) <= 1.5).all()
