"""The cases of ``library.py`` on a CPU, against NumPy and Numba's ``prange`` as people write it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numba
import numpy as np
from contest import Bound, Case, Prepared
from numba import prange

from stdlib_kernels import linalg, reduce, scan

__all__ = ["cases"]

_LARGE = 1 << 26


def cases() -> Iterator[Case]:
    """Return the cases."""
    yield Case("sum 2^26", lambda: _sum(_LARGE), (Bound("NumPy", 1.0), Bound("prange", 0.9)))
    yield Case("argmax 2^26", lambda: _argmax(_LARGE), (Bound("NumPy", 1.0),))
    yield Case("cumsum 2^26", lambda: _cumsum(_LARGE), (Bound("NumPy", 1.5),))
    yield Case("matmul 1024", lambda: _matmul(1024), (Bound("NumPy", 0.6),))


def _error_to(reference: Any) -> Callable[[Any], float]:
    scale = float(np.abs(reference).max())
    return lambda result: float(np.abs(np.asarray(result, np.float64) - reference).max()) / scale


def _vector(size: int) -> Any:
    return np.random.default_rng().standard_normal(size, np.float32)


def _sum(size: int) -> Prepared:
    x = _vector(size)
    launches: dict[str, Callable[[], Any]] = {
        "ours": lambda: reduce.sum(x),
        "NumPy": lambda: np.sum(x),
        "prange": lambda: _sum_prange(x),
    }
    error = lambda found: abs(float(found) - x.sum(dtype=np.float64)) / np.sqrt(size)  # noqa: E731
    return Prepared(launches, {}, error, 1e-2, x.nbytes)


def _argmax(size: int) -> Prepared:
    x = _vector(size)
    launches: dict[str, Callable[[], Any]] = {
        "ours": lambda: reduce.argmax(x),
        "NumPy": lambda: np.argmax(x),
    }
    return Prepared(launches, {}, lambda found: float(found) - int(x.argmax()), 0.0, x.nbytes)


def _cumsum(size: int) -> Prepared:
    x = _vector(size)
    launches: dict[str, Callable[[], Any]] = {
        "ours": lambda: scan.cumsum(x),
        "NumPy": lambda: np.cumsum(x),
    }
    return Prepared(launches, {}, _error_to(np.cumsum(x, dtype=np.float64)), 1e-3, 2 * x.nbytes)


def _matmul(size: int) -> Prepared:
    a, b = (_vector(size * size).reshape(size, size) for _ in range(2))
    launches: dict[str, Callable[[], Any]] = {
        "ours": lambda: linalg.matmul(a, b),
        "NumPy": lambda: a @ b,
    }
    return Prepared(launches, {}, _error_to(a.astype(float) @ b.astype(float)), 1e-5, 0)


@numba.njit(parallel=True, fastmath=True)
def _sum_prange(x):
    total = np.float32(0)
    for i in prange(x.size):
        total += x[i]
    return total
