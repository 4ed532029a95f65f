"""Reductions of the library beside NumPy's, and arrays to compare them on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from stdlib_kernels import reduce
from tests.support.arrays import random_array, strided

__all__ = ["CASES", "Case", "Drawn", "arrays", "expected", "leaves_range", "rounding_bound"]


class Case(NamedTuple):
    """A function, NumPy's of the same meaning, and how they are compared."""

    ours: Callable[..., Any]
    numpys: Callable[..., Any]
    #: Characters of the dtype kinds that are taken.
    kinds: str = "biufc"
    #: Whether axes may be a tuple.
    takes_tuples: bool = True
    #: Size of the numbers that rounding errors are relative to: of ``(x, axis)``.
    scale: Callable[..., Any] | None = None
    #: Largest and smallest magnitude that an intermediate result may have, whatever the order of
    #: the operations: of ``(x, axis)``.
    extremes: Callable[..., tuple[Any, Any]] | None = None
    #: Changes random numbers in place so that results stay in range.
    moderate: Callable[[np.ndarray], None] | None = None


def _norm(order: float) -> Case:
    return Case(
        lambda x, axis=None, **named: reduce.norm(x, axis=axis, ord=order, **named),
        lambda x, axis=None, **named: np.linalg.vector_norm(x, axis=axis, ord=order, **named),
    )


def _total(x: np.ndarray, axis: Any) -> Any:
    return np.abs(x).sum(axis=axis, keepdims=True)


def _square(x: np.ndarray, axis: Any) -> Any:
    return np.square(np.abs(x)).mean(axis=axis, keepdims=True)


def _products(x: np.ndarray, axis: Any) -> tuple[Any, Any]:
    size = np.abs(x)
    return (
        np.maximum(size, 1).prod(axis=axis, keepdims=True),
        np.where(size == 0, 1, np.minimum(size, 1)).prod(axis=axis, keepdims=True),
    )


def _nearer_one(x: np.ndarray) -> None:
    """Take the 16th root of magnitudes: products of a thousand numbers stay in range."""
    if x.dtype.kind in "fc":
        size = np.abs(x)
        proper = np.isfinite(size) & (size > 0)
        wide = x[proper].astype(np.complex128)
        nearer = wide * np.abs(wide) ** (1 / 16 - 1)
        x[proper] = (nearer if x.dtype.kind == "c" else nearer.real).astype(x.dtype)


CASES = {
    "sum": Case(reduce.sum, np.sum, scale=_total),
    "prod": Case(reduce.prod, np.prod, extremes=_products, moderate=_nearer_one),
    "mean": Case(reduce.mean, np.mean, scale=lambda x, axis: np.abs(x).mean(axis, keepdims=True)),
    "max": Case(reduce.max, np.max),
    "min": Case(reduce.min, np.min),
    "var": Case(reduce.var, np.var, scale=_square),
    "std": Case(reduce.std, np.std, scale=lambda x, axis: np.sqrt(_square(x, axis))),
    "any": Case(reduce.any, np.any),
    "all": Case(reduce.all, np.all),
    "count_nonzero": Case(reduce.count_nonzero, np.count_nonzero),
    "argmax": Case(reduce.argmax, np.argmax, takes_tuples=False),
    "argmin": Case(reduce.argmin, np.argmin, takes_tuples=False),
    "norm": _norm(2),
    "norm of order 1": _norm(1),
    "norm of order 0": _norm(0),
    "norm of order 3": _norm(3),
    "norm of order inf": _norm(np.inf),
    "norm of order -inf": _norm(-np.inf),
    "reduce": Case(
        lambda x, axis=None, **named: reduce.reduce(x, _larger_size, 0, axis, **named),
        lambda x, axis=None, **named: np.max(np.abs(x), axis, initial=0, **named),
        "f",
    ),
}


def _larger_size(a: Any, b: Any) -> Any:
    return np.maximum(abs(a), abs(b))


class Drawn(NamedTuple):
    """An array as a test draws it."""

    shape: tuple[int, ...]
    #: Step in memory along each axis, negative for one that runs backwards.
    steps: tuple[int, ...]
    #: The axes in the order of memory.
    order: tuple[int, ...]
    axis: Any
    keepdims: bool

    def fill(self, rng: np.random.Generator, dtype: Any) -> np.ndarray:
        """Return random numbers in that layout."""
        shape = tuple(self.shape[i] for i in self.order)
        values = random_array(rng, shape, dtype)
        if values.dtype.kind in "iu":
            values %= np.array(7, dtype)  # ties, and zeros
        laid = strided(values, tuple(self.steps[i] for i in self.order))
        return laid.transpose([self.order.index(i) for i in range(len(self.order))])


@st.composite
def arrays(draw: Any, *, takes_tuples: bool) -> Drawn:
    """Draw a layout: few axes of which one may be long, or empty, and what is reduced."""
    ndim = draw(st.integers(1, 4))
    shape = [draw(st.integers(1, 9)) for _ in range(ndim)]
    shape[draw(st.integers(0, ndim - 1))] = draw(st.sampled_from([0, 1, 5, 63, 64, 257, 1000]))
    steps = [draw(st.sampled_from([1, 1, 1, 2, -1])) for _ in range(ndim)]
    order = draw(st.permutations(range(ndim)))
    one = st.integers(-ndim, ndim - 1)
    choices = [st.none(), one]
    if takes_tuples:
        choices.append(st.sets(st.integers(0, ndim - 1), min_size=1).map(tuple))
    axis = draw(st.one_of(choices))
    return Drawn(tuple(shape), tuple(steps), tuple(order), axis, draw(st.booleans()))


def expected(case: Case, x: np.ndarray, axis: Any, **named: Any) -> tuple[Any, Any]:
    """Return NumPy's result of `x`, and that of float64 or complex128."""
    with np.errstate(all="ignore"):
        narrow = case.numpys(x, axis=axis, **named)
        if x.dtype.kind in "fc":
            wide = np.complex128 if x.dtype.kind == "c" else np.float64
            return narrow, case.numpys(x.astype(wide), axis=axis, **named)
    return narrow, narrow


def leaves_range(case: Case, x: np.ndarray, axis: Any, exact: Any) -> Any:
    """Return where a result, or an intermediate one in some order, is beyond the dtype's range.

    Nothing is asked of such a result: NumPy's depends on its own order.
    """
    info = np.finfo(x.dtype if np.dtype(x.dtype).kind in "fc" else np.float64)
    beyond = np.abs(exact) >= info.max
    if case.extremes is None or not x.size:
        return beyond
    wide = x.astype(np.complex128 if np.dtype(x.dtype).kind == "c" else np.float64)
    largest, smallest = (each.reshape(exact.shape) for each in case.extremes(wide, axis))
    return beyond | (largest >= info.max) | (smallest <= info.tiny)


def rounding_bound(case: Case, x: np.ndarray, axis: Any, exact: Any) -> Any:
    """Return how far a result may be from the exact one: each of its steps rounds once."""
    dtype = np.dtype(np.float64) if x.dtype.kind in "biu" else x.dtype
    info = np.finfo(dtype)
    if not x.size:
        return 0.0
    count = max(1, x.size // max(1, exact.size))
    work = np.finfo(np.float32) if dtype.itemsize == 2 else info
    scale = np.abs(exact)
    if case.scale is not None:
        wide = x.astype(np.complex128 if dtype.kind == "c" else np.float64)
        scale = scale + case.scale(wide, axis).reshape(exact.shape)
    return (8 * count * work.eps + 2 * info.eps) * scale + count * info.tiny
