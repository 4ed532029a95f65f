"""Kernels that spend their time in mathematical functions."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numba
import numpy as np

import kerneldsl as kd
from lanes.case import Case, CompiledC, rivals_in_c

__all__ = ["SOURCE", "cases"]

#: Stored C source.
SOURCE = "mathematics"
f32 = np.float32


@kd.func
def distribution(d):
    k = f32(1.0) / (f32(1.0) + f32(0.2316419) * abs(d))
    tail = (
        f32(0.39894228)
        * math.exp(f32(-0.5) * d * d)
        * k
        * (
            f32(0.31938153)
            + k
            * (
                f32(-0.356563782)
                + k * (f32(1.781477937) + k * (f32(-1.821255978) + k * f32(1.330274429)))
            )
        )
    )
    return f32(1.0) - tail if d > 0 else tail


@kd.kernel
def black_scholes(spot, strike, years, call, put, rate, volatility):
    i = kd.grid(1)
    if i < spot.size:
        root = math.sqrt(years[i])
        drift = (rate + f32(0.5) * volatility * volatility) * years[i]
        d1 = (math.log(spot[i] / strike[i]) + drift) / (volatility * root)
        d2 = d1 - volatility * root
        first = distribution(d1)
        second = distribution(d2)
        discounted = strike[i] * math.exp(-rate * years[i])
        call[i] = spot[i] * first - discounted * second
        put[i] = discounted * (f32(1.0) - second) - spot[i] * (f32(1.0) - first)


_distribution = numba.njit(error_model="numpy")(distribution.function)


@numba.njit(parallel=True, error_model="numpy")
def _black_scholes(spot, strike, years, call, put, rate, volatility):
    for i in numba.prange(spot.size):
        root = math.sqrt(years[i])
        drift = (rate + f32(0.5) * volatility * volatility) * years[i]
        d1 = (math.log(spot[i] / strike[i]) + drift) / (volatility * root)
        d2 = d1 - volatility * root
        first = _distribution(d1)
        second = _distribution(d2)
        discounted = strike[i] * math.exp(-rate * years[i])
        call[i] = spot[i] * first - discounted * second
        put[i] = discounted * (f32(1.0) - second) - spot[i] * (f32(1.0) - first)


@kd.kernel
def gelu(x, out):
    i = kd.grid(1)
    if i < x.size:
        out[i] = f32(0.5) * x[i] * (f32(1.0) + math.erf(x[i] * f32(0.70710678)))


@numba.njit(parallel=True, error_model="numpy")
def _gelu(x, out):
    for i in numba.prange(x.size):
        out[i] = f32(0.5) * x[i] * (f32(1.0) + math.erf(x[i] * f32(0.70710678)))


@kd.kernel
def polar(radius, angle, x, y):
    i = kd.grid(1)
    if i < radius.size:
        r, phi = radius[i], angle[i]
        x[i] = r * math.cos(phi)
        y[i] = r * math.sin(phi)


@numba.njit(parallel=True, error_model="numpy")
def _polar(radius, angle, x, y):
    for i in numba.prange(radius.size):
        r, phi = radius[i], angle[i]
        x[i] = r * math.cos(phi)
        y[i] = r * math.sin(phi)


@kd.kernel
def multiply_adds(x, out, rounds):
    i = kd.grid(1)
    if i < x.size:
        value = x[i]
        for _ in range(rounds):
            value = value * f32(0.99) + f32(0.125)
        out[i] = value


@numba.njit(parallel=True, error_model="numpy")
def _multiply_adds(x, out, rounds):
    for i in numba.prange(x.size):
        value = x[i]
        for _ in range(rounds):
            value = value * f32(0.99) + f32(0.125)
        out[i] = value


def cases(libraries: Mapping[str, CompiledC]) -> list[Case]:
    """Return the comparisons; `libraries` are those of the C source, by name."""
    rng = np.random.default_rng(7)
    return [
        _black_scholes_case(rng, libraries),
        _gelu_case(rng, libraries),
        _polar_case(rng, libraries),
        _multiply_adds_case(rng, libraries),
    ]


def _black_scholes_case(rng: np.random.Generator, libraries: Mapping[str, CompiledC]) -> Case:
    n = 1 << 20
    spot, strike = (rng.uniform(*limits, n).astype(f32) for limits in ((5, 30), (1, 100)))
    years, rate, volatility = rng.uniform(0.25, 10, n).astype(f32), f32(0.02), f32(0.3)
    call, put = np.empty(n, f32), np.empty(n, f32)
    arguments = (spot, strike, years, call, put, rate, volatility)

    def vectorized(spot, strike, years, rate, volatility):
        def cumulated(d):
            k = 1 / (1 + 0.2316419 * np.abs(d))
            inner = -0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))
            tail = 0.39894228 * np.exp(-0.5 * d * d) * k * (0.31938153 + k * inner)
            return np.where(d > 0, 1 - tail, tail)

        root = np.sqrt(years)
        d1 = (np.log(spot / strike) + (rate + 0.5 * volatility * volatility) * years) / (
            volatility * root
        )
        first, second = cumulated(d1), cumulated(d1 - volatility * root)
        discounted = strike * np.exp(-rate * years)
        return (
            spot * first - discounted * second,
            discounted * (1 - second) - spot * (1 - first),
        )

    def with_numpy():
        call[:], put[:] = vectorized(spot, strike, years, rate, volatility)

    wide = [each.astype(np.float64) for each in (spot, strike, years)]
    rivals = {
        "prange": lambda: _black_scholes(*arguments),
        "numpy": with_numpy,
        **rivals_in_c(libraries, "black_scholes", *arguments, n),
    }
    return Case(
        "black_scholes f32, 2^20",
        (call, put),
        vectorized(*wide, float(rate), float(volatility)),
        1e-5,
        lambda: black_scholes.forall(n)(*arguments),
        rivals,
    )


def _gelu_case(rng: np.random.Generator, libraries: Mapping[str, CompiledC]) -> Case:
    n = 1 << 20
    x, out = rng.standard_normal(n).astype(f32), np.empty(n, f32)
    exact = np.array([0.5 * v * (1 + math.erf(v * math.sqrt(0.5))) for v in x.astype(float)])
    rivals = {
        "prange": lambda: _gelu(x, out),
        **rivals_in_c(libraries, "gelu", x, out, n),
    }
    ours = gelu.forall(n)
    return Case("gelu f32, 2^20", (out,), (exact,), 1e-6, lambda: ours(x, out), rivals)


def _polar_case(rng: np.random.Generator, libraries: Mapping[str, CompiledC]) -> Case:
    n = 1 << 20
    radius = rng.uniform(0, 2, n).astype(f32)
    angle = rng.uniform(-math.pi, math.pi, n).astype(f32)
    x, y = np.empty(n, f32), np.empty(n, f32)
    wide = radius.astype(np.float64), angle.astype(np.float64)

    def with_numpy():
        np.multiply(radius, np.cos(angle), out=x)
        np.multiply(radius, np.sin(angle), out=y)

    rivals = {
        "prange": lambda: _polar(radius, angle, x, y),
        "numpy": with_numpy,
        **rivals_in_c(libraries, "polar", radius, angle, x, y, n),
    }
    return Case(
        "polar to cartesian f32, 2^20",
        (x, y),
        (wide[0] * np.cos(wide[1]), wide[0] * np.sin(wide[1])),
        1e-6,
        lambda: polar.forall(n)(radius, angle, x, y),
        rivals,
    )


def _multiply_adds_case(rng: np.random.Generator, libraries: Mapping[str, CompiledC]) -> Case:
    n, rounds = 1 << 20, 64
    x, out = rng.uniform(-1, 1, n).astype(f32), np.empty(n, f32)
    exact = x.astype(np.float64)
    for _ in range(rounds):
        exact = exact * 0.99 + 0.125
    rivals = {
        "prange": lambda: _multiply_adds(x, out, rounds),
        **rivals_in_c(libraries, "multiply_adds", x, out, rounds, n),
    }
    return Case(
        "64 dependent multiply-adds f32, 2^20",
        (out,),
        (exact,),
        1e-5,
        lambda: multiply_adds.forall(n)(x, out, rounds),
        rivals,
    )
