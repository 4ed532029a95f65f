"""Floating-point numbers that a kernel prints, against Python's own text of them."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import kerneldsl as kd

NUMBERS = [
    *(0.0, -0.0, 1.0, -2.5, 0.1, 0.1 + 0.2, 1e10, 123456.0, 100.0, 2.0**53 + 2),
    *(1e15, 9007199254740993.5, 1234567890123456.5, 1e16, 12345678901234568.0, 1e22, 1e300),
    *(1e-4, 0.00012345, 1e-5, 1.234e-5, 5e-324, 2.2250738585072014e-308),
    *(np.inf, -np.inf, np.nan, -np.nan),
]


@kd.kernel
def show(x):
    if kd.grid(1) == 0:
        for i in range(x.size):
            print(x[i])


def printed(x, capfd) -> list[str]:
    show[1, 1](x)
    ctypes.CDLL(None).fflush(None)
    return capfd.readouterr().out.splitlines()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_floats_are_shown_as_python_shows_them(dtype, capfd, rng):
    bits = rng.integers(0, 2**63, 3000).astype(np.uint64)
    if dtype is np.float32:
        bits = (bits >> np.uint64(32)).astype(np.uint32)
    with np.errstate(over="ignore"):
        common = np.round(rng.normal(size=500) * 1000.0, 2).astype(dtype)
        x = np.concatenate([np.array(NUMBERS).astype(dtype), bits.view(dtype), common])
    # NumPy finds the shortest digits of a float32; whole numbers are shown as they are.
    with np.errstate(invalid="ignore"):
        is_exact = (x == np.trunc(x)) & (np.abs(x) < 1e16) | (dtype is np.float64)
    numbers = zip(x, is_exact, strict=True)
    expected = [repr(float(value if exact else str(value))) for value, exact in numbers]
    assert printed(x, capfd)[-x.size :] == expected


def test_integers_and_parts_of_a_complex_number(capfd):
    @kd.kernel
    def mixed(x):
        if kd.grid(1) == 0:
            print("100%", 3, 2.0, x[0] > 1, x[0] * 1j)

    mixed[1, 1](np.array([2.0]))
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr().out == "100% 3 2.0 True (0.0,2.0)\n"
