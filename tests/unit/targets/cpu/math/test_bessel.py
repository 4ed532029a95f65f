"""Modified Bessel functions over the whole range of float64, against mpmath.

The conformance suite draws 60 arguments each; here they are dense, where errors add up the most and
next to the places at which the computation changes.
"""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.arrays import assert_within_ulp
from tests.support.extent import examples
from tests.support.libdevice import real

NAMES = ("cyl_bessel_i0", "cyl_bessel_i1")
#: Measured are 0.501 below 20, 1.6 from there on, 2.2 from 709 on. Half a unit is allowed on top.
BELOW_20, FROM_20 = 0.1, 2
REGIONS = [
    (0.0, 1e-300, BELOW_20),
    (1e-9, 4.0, BELOW_20),
    (4.0, 12.0, BELOW_20),
    (12.0, 18.0, BELOW_20),
    (18.0, np.nextafter(20.0, 0.0), BELOW_20),
    (20.0, 20.5, FROM_20),
    (20.5, 300.0, FROM_20),
    (300.0, 708.9, FROM_20),
    (708.9, 709.1, FROM_20),  # exp is taken of less from 709 on
    (709.1, 713.98, FROM_20),
]


@kd.kernel
def both(x, out):
    i = kd.grid(1)
    out[0, i] = kd.libdevice.cyl_bessel_i0(x[i])
    out[1, i] = kd.libdevice.cyl_bessel_i1(x[i])


@kd.kernel
def both_single(x, out):
    i = kd.grid(1)
    out[0, i] = kd.libdevice.cyl_bessel_i0f(x[i])
    out[1, i] = kd.libdevice.cyl_bessel_i1f(x[i])


def computed(kernel, x):
    out = np.empty((2, x.size), x.dtype)
    with kd.use("cpu"):
        kernel.forall(x.size)(x, out)
    return out


@pytest.mark.parametrize(("low", "high", "bound"), REGIONS)
def test_modified_functions_in_float64(rng, low, high, bound):
    count = examples(2000, 100)
    x = rng.uniform(low, high, count) * rng.choice([-1.0, 1.0], count)
    x[:2] = low, -high
    for name, found in zip(NAMES, computed(both, x), strict=True):
        assert_within_ulp(found, real(name)(x), bound, name)


def test_modified_functions_in_float32(rng):
    """They are computed in float64: nothing but the last rounding is left."""
    sizes = np.concatenate([rng.uniform(*each, examples(1000)) for each in ((0, 21), (21, 91))])
    x = (sizes * rng.choice([-1.0, 1.0], sizes.size)).astype(np.float32)
    for name, found in zip(NAMES, computed(both_single, x), strict=True):
        assert_within_ulp(found, real(name)(x), 0.01, name)


def test_modified_functions_of_special_numbers():
    sizes = np.array([0.0, 5e-324, 1e-323, 713.99, 714.1, 730.0, 1e4, 1e308, np.inf])
    infinite = np.isinf([0, 0, 0, *[np.inf] * 6])
    for sign in (1.0, -1.0):
        even, odd = computed(both, sign * sizes)
        assert np.array_equal(even, np.where(infinite, np.inf, 1.0))
        expected = np.where(infinite, np.inf, [0.0, 0.0, 5e-324, *[0.0] * 6])
        assert np.array_equal(odd, sign * expected)
        assert np.array_equal(np.signbit(odd), np.full(sizes.size, sign < 0))
    assert np.isnan(computed(both, np.array([np.nan]))).all()
