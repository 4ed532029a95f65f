"""The functions under test: how a kernel spells them, what they must give, and how exactly.

References
----------
CUDA C++ Programming Guide, section "Mathematical Functions", tables of maximum ulp errors of the
single- and double-precision functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np

import kerneldsl as kd
from kerneldsl.utilities.cached_property import cached_property

__all__ = ["FUNCTIONS", "Function", "edges", "errors", "exact", "results", "sampled"]


@dataclass(frozen=True)
class Function:
    """A function of one or two arguments.

    Parameters
    ----------
    name : str
        C's name, without the letter of the type.
    spelled : callable
        What a kernel calls.
    exact : callable or None
        NumPy's function, which takes NumPy's widest type. Without it mpmath's is asked.
    bounds : tuple of int
        The guide's bounds for float32 and float64: units of the last place from the nearest number.
    limits : tuple of float
        Arguments that are neither trivial nor out of range.
    more_limits : tuple of float or None
        Those of the second argument.
    """

    name: str
    spelled: Callable[..., Any]
    exact: Callable[..., Any] | None
    bounds: tuple[int, int]
    limits: tuple[float, float]
    more_limits: tuple[float, float] | None = None

    @property
    def arity(self) -> int:
        """How many arguments it takes."""
        return 1 if self.more_limits is None else 2

    @cached_property
    def kernel(self) -> kd.Kernel:
        """A kernel that maps the function over an array."""
        function = self.spelled
        if self.arity == 2:

            @kd.kernel
            def mapped_pairs(x, y, out):
                i = kd.grid(1)
                if i < x.size:
                    out[i] = function(x[i], y[i])

            return mapped_pairs

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
        Function("expm1", math.expm1, np.expm1, (1, 1), (-20.0, 10.0)),
        Function("log", math.log, np.log, (1, 1), (0.0, 10.0)),
        Function("log1p", math.log1p, np.log1p, (1, 1), (-1.0, 4.0)),
        Function("log2", math.log2, np.log2, (1, 1), (0.0, 10.0)),
        Function("log10", math.log10, np.log10, (2, 1), (0.0, 10.0)),
        Function("cbrt", math.cbrt, np.cbrt, (1, 1), (-9.0, 9.0)),
        Function("sin", math.sin, np.sin, (2, 2), (-50.0, 50.0)),
        Function("cos", math.cos, np.cos, (2, 2), (-50.0, 50.0)),
        Function("tan", math.tan, np.tan, (4, 2), (-50.0, 50.0)),
        Function("asin", math.asin, np.arcsin, (2, 2), (-1.0, 1.0)),
        Function("acos", math.acos, np.arccos, (2, 2), (-1.0, 1.0)),
        Function("atan", math.atan, np.arctan, (2, 2), (-9.0, 9.0)),
        Function("sinh", math.sinh, np.sinh, (3, 2), (-9.0, 9.0)),
        Function("cosh", math.cosh, np.cosh, (2, 1), (-9.0, 9.0)),
        Function("tanh", math.tanh, np.tanh, (2, 1), (-3.0, 3.0)),
        Function("erf", math.erf, None, (2, 2), (-4.0, 4.0)),
        Function("erfc", math.erfc, None, (4, 5), (-4.0, 12.0)),
        Function("pow", math.pow, np.power, (4, 2), (0.0, 9.0), (-99.0, 99.0)),
        Function("atan2", math.atan2, np.arctan2, (3, 2), (-9.0, 9.0), (-9.0, 9.0)),
        Function("hypot", math.hypot, np.hypot, (3, 2), (-9.0, 9.0), (-9.0, 9.0)),
    )
}


def results(function: Function, *arguments: np.ndarray) -> np.ndarray:
    """Map a function over arrays on the CPU."""
    out = np.full_like(arguments[0], 12345)
    with kd.use("cpu"):
        function.kernel.forall(out.size)(*arguments, out)
    return out


@np.errstate(all="ignore")
def exact(function: Function, *arguments: np.ndarray) -> np.ndarray:
    """Return the results in NumPy's widest type."""
    if function.exact is not None:
        return function.exact(*(each.astype(np.longdouble) for each in arguments))
    evaluate = getattr(mpmath, function.name)
    with mpmath.workdps(40):
        # Beyond 1e4 nothing changes, and mpmath takes long.
        given = np.clip(arguments[0].astype(float), -1e4, 1e4)
        texts = [mpmath.nstr(evaluate(mpmath.mpf(x)), 25) for x in given]
    found = np.array([np.longdouble(text) for text in texts])
    return np.where(found == 0, np.copysign(found, arguments[0]), found)  # mpmath has one zero


def edges(dtype: np.dtype) -> np.ndarray:
    """Zeros, infinities, NaN, subnormals, and what is around powers of two, of both signs."""
    information = np.finfo(dtype)
    powers = np.ldexp(dtype.type(1), np.arange(information.minexp - 2, information.maxexp))
    around = np.concatenate([np.nextafter(powers, 0), powers, np.nextafter(powers, np.inf)])
    thresholds = [88.72283, 88.72284, 89, -87.33655, -103.97208, -103.97209, 128, -149, -150]
    thresholds += [709.78271289, 709.782712895, -745.1332191, -745.133219102, 89.416, 710.4758]
    special = [0, np.inf, np.nan, information.smallest_subnormal, information.max, *thresholds]
    positive = np.concatenate([around, np.array(special, dtype)]).astype(dtype)
    return np.concatenate([positive, -positive])


def sampled(
    function: Function, dtype: np.dtype, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, ...]:
    """Edges, numbers of the function's range, and numbers of any bits, as its arguments."""
    chosen = [_sampled(function.limits, dtype, count, rng)]
    if function.more_limits is not None:
        few = np.array([0, 0.5, 1, 1.5, 2, 3, 2**24 + 2, 1e30, np.inf, np.nan, 1e-40], dtype)
        few = np.concatenate([few, -few])
        all_pairs = np.meshgrid(few, few)
        chosen.append(_sampled(function.more_limits, dtype, count, rng))
        rng.shuffle(chosen[1])
        chosen = [np.concatenate([p.ravel(), c]) for p, c in zip(all_pairs, chosen, strict=True)]
    return tuple(chosen)


def _sampled(
    limits: tuple[float, float], dtype: np.dtype, count: int, rng: np.random.Generator
) -> np.ndarray:
    unsigned = np.dtype(f"uint{8 * dtype.itemsize}")
    whole = rng.integers(0, np.iinfo(unsigned).max, count // 2, unsigned, endpoint=True)
    inside = rng.uniform(*limits, count - count // 2).astype(dtype)
    # Where mpmath is asked, few numbers must do.
    few = edges(dtype) if count > 1000 else edges(dtype)[:: 1 + edges(dtype).size // count]
    return np.concatenate([few, inside, whole.view(dtype)])


def errors(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return the distances of results from the exact ones, in units of the last place.

    The unit is that of the exact result, of subnormal ones the least number. NaN must be NaN, and
    a zero have its sign, else the distance is infinite. An infinity counts as the power of two
    that follows the largest number.
    """
    dtype = got.dtype
    information = np.finfo(dtype)
    with np.errstate(all="ignore"):
        nearest = expected.astype(dtype)
        limit = np.ldexp(np.longdouble(1), information.maxexp)
        magnitude = np.minimum(np.abs(expected), limit)
        exponent = np.maximum(np.frexp(magnitude)[1] - 1, information.minexp)
        unit = np.ldexp(np.longdouble(1), exponent - information.nmant)
        inside = np.clip(got.astype(np.longdouble), -limit, limit)
        distance = np.abs(inside - np.clip(expected, -limit, limit)) / unit
    distance[np.isnan(got) != np.isnan(expected)] = np.inf
    distance[np.isnan(got) & np.isnan(expected)] = 0
    distance[(nearest == 0) & (got == 0) & (np.signbit(nearest) != np.signbit(got))] = np.inf
    return distance.astype(np.float64)
