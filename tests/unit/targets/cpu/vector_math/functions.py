"""The functions under test: how a kernel spells them, what they must give, and how exactly.

References
----------
CUDA C++ Programming Guide, section "Mathematical Functions", tables of maximum ulp errors of the
single- and double-precision functions.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import kerneldsl as kd

__all__ = ["FUNCTIONS", "Function", "edges", "is_close_enough", "results", "sampled"]


@dataclass(frozen=True)
class Function:
    """A function of one argument.

    Parameters
    ----------
    name : str
        C's name, without the letter of the type.
    spelled : callable
        What a kernel calls.
    exact : callable
        Gives the results for an array of NumPy's widest type.
    bounds : tuple of int
        The guide's bounds for float32 and float64: units of the last place from the nearest number.
    limits : tuple of float
        Arguments that are neither trivial nor out of range.
    """

    name: str
    spelled: Callable[..., Any]
    exact: Callable[..., Any]
    bounds: tuple[int, int]
    limits: tuple[float, float]

    @property
    def arity(self) -> int:
        """How many arguments it takes."""
        return 1

    @functools.cached_property
    def kernel(self) -> kd.Kernel:
        """A kernel that maps the function over an array."""
        function = self.spelled

        @kd.kernel
        def mapped(x, out):
            i = kd.grid(1)
            if i < x.size:
                out[i] = function(x[i])

        return mapped


FUNCTIONS = {
    each.name: each
    for each in (
        Function("exp", math.exp, np.exp, (2, 1), (-110.0, 95.0)),
        Function("exp2", math.exp2, np.exp2, (2, 1), (-155.0, 132.0)),
        Function("log", math.log, np.log, (1, 1), (0.0, 10.0)),
        Function("log2", math.log2, np.log2, (1, 1), (0.0, 10.0)),
    )
}


def results(function: Function, x: np.ndarray) -> np.ndarray:
    """Map a function over an array on the CPU."""
    out = np.full_like(x, 12345)
    with kd.use("cpu"):
        function.kernel.forall(x.size)(x, out)
    return out


def edges(dtype: np.dtype) -> np.ndarray:
    """Zeros, infinities, NaN, subnormal numbers, and what is around powers of two, both signs."""
    information = np.finfo(dtype)
    powers = np.ldexp(dtype.type(1), np.arange(information.minexp - 2, information.maxexp))
    around = np.concatenate([np.nextafter(powers, 0), powers, np.nextafter(powers, np.inf)])
    thresholds = [88.72283, 88.72284, 89, -87.33655, -103.97208, -103.97209, -104, 128, -149, -150]
    special = [0, np.inf, np.nan, information.smallest_subnormal, information.max, *thresholds]
    positive = np.concatenate([around, np.array(special, dtype)]).astype(dtype)
    return np.concatenate([positive, -positive])


def sampled(
    function: Function, dtype: np.dtype, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Edges, numbers of the function's range, and numbers of any bits."""
    unsigned = np.dtype(f"uint{8 * dtype.itemsize}")
    whole = rng.integers(0, np.iinfo(unsigned).max, count // 2, unsigned, endpoint=True)
    inside = rng.uniform(*function.limits, count - count // 2).astype(dtype)
    return np.concatenate([edges(dtype), inside, whole.view(dtype)])


def is_close_enough(got: np.ndarray, exact: np.ndarray, bound: float) -> np.ndarray:
    """Return where results are within `bound` + 1/2 units of the last place of the exact ones.

    NaN must be NaN, and a zero have its sign. An infinity counts as the power of two that follows
    the largest number.
    """
    dtype = got.dtype
    information = np.finfo(dtype)
    with np.errstate(all="ignore"):
        nearest = exact.astype(dtype)
        limit = np.ldexp(np.longdouble(1), information.maxexp)
        magnitude = np.minimum(np.abs(exact), limit)
        exponent = np.maximum(np.frexp(magnitude)[1] - 1, information.minexp)
        unit = np.ldexp(np.longdouble(1), exponent - information.nmant)
        finite = np.clip(got.astype(np.longdouble), -limit, limit)
        distance = np.abs(finite - np.clip(exact, -limit, limit)) / unit
    same_nan = np.isnan(got) & np.isnan(exact)
    same_sign = (nearest != 0) | (got != 0) | (np.signbit(nearest) == np.signbit(got))
    return same_nan | (distance <= bound + 0.5) & same_sign
