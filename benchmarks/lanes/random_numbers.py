"""Monte Carlo: each thread draws its own random numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numba
import numpy as np

import kerneldsl as kd
from lanes.case import Case, CompiledC, rivals_in_c

__all__ = ["SOURCE", "cases"]

#: Stored C source.
SOURCE = "random_numbers"
f32, u32 = np.float32, np.uint32
_THREADS = 256


@kd.func
def hashed(i):
    state = u32(u32(i) * u32(747796405) + u32(2891336453))
    word = u32(((state >> ((state >> u32(28)) + u32(4))) ^ state) * u32(277803737))
    return u32((word >> u32(22)) ^ word)


@kd.func
def next_state(state):
    return u32(state * u32(1664525) + u32(1013904223))


@kd.func
def uniform(state):
    return (f32(state >> u32(8)) + f32(0.5)) * f32(2.0**-24)


_hashed = numba.njit(hashed.function)
_next_state = numba.njit(next_state.function)
_uniform = numba.njit(uniform.function)


@kd.kernel
def circle(hits, samples):
    i = kd.grid(1)
    if i < hits.size:
        state = hashed(i)
        inside = 0
        for _ in range(samples):
            state = next_state(state)
            x = uniform(state)
            state = next_state(state)
            y = uniform(state)
            if x * x + y * y < f32(1.0):
                inside += 1
        hits[i] = inside


@numba.njit(parallel=True, error_model="numpy")
def _circle(hits, samples):
    for i in numba.prange(hits.size):
        state = _hashed(i)
        inside = 0
        for _ in range(samples):
            state = _next_state(state)
            x = _uniform(state)
            state = _next_state(state)
            y = _uniform(state)
            if x * x + y * y < f32(1.0):
                inside += 1
        hits[i] = inside


@kd.kernel
def asian_option(payoff, strike, drift, deviation, steps):
    i = kd.grid(1)
    if i < payoff.size:
        state = hashed(i)
        price = f32(1.0)
        total = f32(0.0)
        for _ in range(steps):
            state = next_state(state)
            radius = math.sqrt(f32(-2.0) * math.log(uniform(state)))
            state = next_state(state)
            normal = radius * math.cos(f32(6.2831853) * uniform(state))
            price *= math.exp(drift + deviation * normal)
            total += price
        payoff[i] = max(total / f32(steps) - strike, f32(0.0))


@numba.njit(parallel=True, error_model="numpy")
def _asian_option(payoff, strike, drift, deviation, steps):
    for i in numba.prange(payoff.size):
        state = _hashed(i)
        price = f32(1.0)
        total = f32(0.0)
        for _ in range(steps):
            state = _next_state(state)
            radius = math.sqrt(f32(-2.0) * math.log(_uniform(state)))
            state = _next_state(state)
            normal = radius * math.cos(f32(6.2831853) * _uniform(state))
            price *= math.exp(drift + deviation * normal)
            total += price
        payoff[i] = max(total / f32(steps) - strike, f32(0.0))


def cases(libraries: Mapping[str, CompiledC]) -> list[Case]:
    """Return the comparisons; `libraries` are those of the C source, by name."""
    return [_circle_case(libraries), _asian_option_case(libraries)]


class _Draws:
    """The threads' generators as one array of states; numbers are drawn in `dtype`."""

    def __init__(self, n: int, dtype: type) -> None:
        state = np.arange(n, dtype=u32) * u32(747796405) + u32(2891336453)
        word = ((state >> ((state >> u32(28)) + u32(4))) ^ state) * u32(277803737)
        self._state = (word >> u32(22)) ^ word
        self._dtype = dtype

    def next(self) -> np.ndarray:
        self._state = self._state * u32(1664525) + u32(1013904223)
        drawn = (self._state >> u32(8)).astype(self._dtype)
        return (drawn + self._dtype(0.5)) * self._dtype(2.0**-24)


def _circle_case(libraries: Mapping[str, CompiledC]) -> Case:
    n, samples = 1 << 16, 128
    hits = np.empty(n, np.int32)

    def counted(dtype):
        draws, inside = _Draws(n, dtype), np.zeros(n, np.int32)
        for _ in range(samples):
            inside += draws.next() ** 2 + draws.next() ** 2 < 1
        return inside

    def with_numpy():
        hits[:] = counted(f32)

    rivals = {
        "prange": lambda: _circle(hits, samples),
        "numpy": with_numpy,
        **rivals_in_c(libraries, "circle", hits, samples, n),
    }
    return Case(
        "Monte Carlo of a circle, 2^16 x 128",
        (hits,),
        (counted(np.float64),),
        0,
        lambda: circle[n // _THREADS, _THREADS](hits, samples),
        rivals,
        strays=0.001,
    )


def _asian_option_case(libraries: Mapping[str, CompiledC]) -> Case:
    n, steps = 1 << 15, 32
    payoff = np.empty(n, f32)
    strike, drift, deviation = f32(1.0), f32(0.0005), f32(0.05)

    def simulated(dtype):
        draws = _Draws(n, dtype)
        price, total = np.ones(n, dtype), np.zeros(n, dtype)
        for _ in range(steps):
            radius = np.sqrt(-2 * np.log(draws.next()))
            normal = radius * np.cos(dtype(2 * math.pi) * draws.next())
            price *= np.exp(dtype(drift) + dtype(deviation) * normal)
            total += price
        return np.maximum(total / dtype(steps) - dtype(strike), 0)

    def with_numpy():
        payoff[:] = simulated(f32)

    arguments = payoff, strike, drift, deviation, steps
    rivals = {
        "prange": lambda: _asian_option(*arguments),
        "numpy": with_numpy,
        **rivals_in_c(libraries, "asian_option", *arguments, n),
    }
    return Case(
        "Monte Carlo of an Asian option f32, 2^15 x 32",
        (payoff,),
        (simulated(np.float64),),
        1e-4,
        lambda: asian_option[n // _THREADS, _THREADS](*arguments),
        rivals,
    )
