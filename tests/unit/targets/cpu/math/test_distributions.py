"""The error function's relatives in float64 against mpmath, where their errors are the largest.

The conformance suite draws 60 arguments each; the documented bounds hold next to the places at
which the computation changes, too.
"""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.arrays import assert_within_ulp
from tests.support.extent import examples
from tests.support.libdevice import real

#: Of both functions 2.2 are measured. Half a unit is allowed on top.
BOUND = 2.5


@kd.kernel
def scaled(x, out):
    i = kd.grid(1)
    out[i] = kd.libdevice.erfcx(x[i])


@kd.kernel
def inverse(x, out):
    i = kd.grid(1)
    out[i] = kd.libdevice.erfinv(x[i])


def assert_close(kernel, name, x):
    out = np.empty_like(x)
    with kd.use("cpu"):
        kernel.forall(x.size)(x, out)
    assert_within_ulp(out, real(name)(x), BOUND, name)


@pytest.mark.parametrize(
    ("low", "high"),
    [(-26.6, -1.0), (-1.0, 0.5), (0.5, 2.0), (2.0, 2.5), (4.0, 5.0), (5.0, 8.0), (8.0, 12.0)],
)
def test_erfcx(rng, low, high):
    x = rng.uniform(low, high, examples(10_000, 500))
    x[:2] = low, np.nextafter(high, low)
    assert_close(scaled, "erfcx", x)


def test_erfcx_of_special_numbers():
    x = np.array([-np.inf, -27.0, -0.0, 1e200, np.inf, np.nan])
    out = np.empty_like(x)
    with kd.use("cpu"):
        scaled.forall(x.size)(x, out)
    tail = 1 / np.sqrt(np.pi) / 1e200
    assert np.array_equal(out[[0, 1, 2, 4, 5]], [np.inf, np.inf, 1.0, 0.0, np.nan], equal_nan=True)
    assert out[3] == pytest.approx(tail, rel=1e-15)


@pytest.mark.parametrize(("low", "high"), [(0.0, 0.5), (0.5, 0.52), (0.52, 0.76), (0.76, 1.0)])
def test_erfinv(rng, low, high):
    count = examples(10_000, 500)
    x = rng.uniform(low, high, count) * rng.choice([-1.0, 1.0], count)
    assert_close(inverse, "erfinv", x)
