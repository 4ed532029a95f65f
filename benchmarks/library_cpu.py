"""The cases of ``library.py`` on a CPU, against NumPy and Numba's ``prange`` as people write it."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numba
import numpy as np
from contest import Bound, Case, Prepared
from numba import prange
from scipy import ndimage

from stdlib_kernels import (
    compact,
    elementwise,
    histogram,
    linalg,
    movement,
    random,
    reduce,
    scan,
    sort,
    stencil,
)

__all__ = ["cases"]

_LARGE, _MEDIUM = 1 << 26, 1 << 24


def cases() -> Iterator[Case]:
    """Return the cases."""
    yield Case("sum 2^26", lambda: _sum(_LARGE), (Bound("NumPy", 1.0), Bound("prange", 0.9)))
    yield Case("argmax 2^26", lambda: _argmax(_LARGE), (Bound("NumPy", 1.0),))
    for name, dtype, size in itertools.product(
        ("argmax", "argmin", "max", "var"), ("float32", "float64", "int32"), (10**5, 10**6, 10**7)
    ):
        prepare = functools.partial(_reduced, name, dtype, size)
        yield Case(f"{name} {size:.0e}, {dtype}", prepare, (Bound("NumPy", 1.0),))
    yield Case("cumsum 2^26", lambda: _cumsum(_LARGE), (Bound("NumPy", 1.5),))
    yield Case("cummax 2^24", lambda: _cummax(_MEDIUM), (Bound("NumPy", 1.0),))
    yield Case("bincount 2^24, uint8", lambda: _bincount(_MEDIUM), (Bound("NumPy", 3.0),))
    yield Case("histogram 2^24, 100 bins", lambda: _histogram(_MEDIUM), (Bound("NumPy", 3.0),))
    yield Case("compress 2^24", lambda: _compress(_MEDIUM), (Bound("NumPy", 1.0),))
    yield Case("map 2^24", lambda: _map(_MEDIUM), (Bound("NumPy", 1.0),))
    for name in ("random", "standard_normal", "standard_exponential"):
        yield Case(f"{name} 2^24", lambda name=name: _random(name, _MEDIUM), (Bound("NumPy", 1.0),))
    yield Case("gaussian 2048", lambda: _filtered("gaussian_filter", 2.0), (Bound("SciPy", 1.0),))
    yield Case(
        "convolution 7 x 7, 2048", lambda: _filtered("correlate", _box(7)), (Bound("SciPy", 1.0),)
    )
    yield Case("sort 2^22, int32", lambda: _sort(1 << 22), (Bound("NumPy", 1.5),))
    yield Case("argsort 2^22, float32", lambda: _argsort(1 << 22), (Bound("NumPy", 1.0),))
    yield Case("transpose 4096", lambda: _transpose(4096), (Bound("NumPy", 1.0),))
    yield Case("take 2^24", lambda: _take(_MEDIUM), (Bound("NumPy", 1.0),))
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


def _reduced(name: str, dtype: str, size: int) -> Prepared:
    x = (np.random.default_rng().standard_normal(size) * 1000).astype(dtype)
    ours, theirs = getattr(reduce, name), getattr(np, name)
    launches: dict[str, Callable[[], Any]] = {"ours": lambda: ours(x), "NumPy": lambda: theirs(x)}
    reference = float(theirs(x.astype(np.float64)))
    error = lambda found: abs(float(found) - reference) / (abs(reference) or 1)  # noqa: E731
    count = max(1, 10**7 // size)
    return Prepared(launches, {}, error, 1e-4 if name == "var" else 0.0, x.nbytes, count)


def _cumsum(size: int) -> Prepared:
    x = _vector(size)
    launches: dict[str, Callable[[], Any]] = {
        "ours": lambda: scan.cumsum(x),
        "NumPy": lambda: np.cumsum(x),
    }
    return Prepared(launches, {}, _error_to(np.cumsum(x, dtype=np.float64)), 1e-3, 2 * x.nbytes)


def _cummax(size: int) -> Prepared:
    x = _vector(size)
    launches: dict[str, Callable[[], Any]] = {
        "ours": lambda: scan.cummax(x),
        "NumPy": lambda: np.maximum.accumulate(x),
    }
    return Prepared(launches, {}, _error_to(np.maximum.accumulate(x)), 0.0, 2 * x.nbytes)


def _bincount(size: int) -> Prepared:
    x = np.random.default_rng().integers(0, 256, size, np.uint8)
    launches: dict[str, Callable[[], Any]] = {
        "ours": lambda: histogram.bincount(x),
        "NumPy": lambda: np.bincount(x),
    }
    return Prepared(launches, {}, _error_to(np.bincount(x)), 0.0, x.nbytes)


def _histogram(size: int) -> Prepared:
    x = _vector(size)
    launches: dict[str, Callable[[], Any]] = {
        "ours": lambda: histogram.histogram(x, 100, (-3, 3))[0],
        "NumPy": lambda: np.histogram(x, 100, (-3, 3))[0],
    }
    return Prepared(launches, {}, _error_to(np.histogram(x, 100, (-3, 3))[0]), 0.0, x.nbytes)


def _compress(size: int) -> Prepared:
    x = _vector(size)
    flags = _vector(size) > 0
    launches: dict[str, Callable[[], Any]] = {
        "ours": lambda: compact.compress(flags, x),
        "NumPy": lambda: x[flags],
    }
    return Prepared(launches, {}, _error_to(x[flags]), 0.0, x.nbytes + x.nbytes // 2 + size)


def _map(size: int) -> Prepared:
    x, y = _vector(size), _vector(size)
    launches: dict[str, Callable[[], Any]] = {
        "ours": lambda: elementwise.map(_hypotenuse, x, y),
        "NumPy": lambda: np.sqrt(x * x + y * y),
    }
    return Prepared(launches, {}, _error_to(np.hypot(x, y, dtype=float)), 1e-6, 3 * x.nbytes)


def _hypotenuse(v: Any, w: Any) -> Any:
    return math.sqrt(v * v + w * w)


def _random(name: str, size: int) -> Prepared:
    """Prepare numbers of float32, whose mean tells whether they are those of the distribution."""
    rng, theirs = random.default_rng(1), np.random.default_rng(1)
    ours, out = np.empty(size, np.float32), np.empty(size, np.float32)
    method = getattr(rng, name.removeprefix("standard_"))
    launches: dict[str, Callable[[], Any]] = {
        "ours": lambda: method(out=ours),
        "NumPy": lambda: getattr(theirs, name)(out=out, dtype=np.float32),
    }
    mean = {"random": 0.5, "standard_normal": 0.0, "standard_exponential": 1.0}[name]
    return Prepared(launches, {}, lambda v: abs(float(v.mean(dtype=float)) - mean), 1e-2, 4 * size)


def _box(size: int) -> Any:
    return np.random.default_rng().random((size, size))


def _filtered(name: str, parameter: Any) -> Prepared:
    x = _vector(1 << 22).reshape(2048, 2048)
    ours, theirs = getattr(stencil, name), getattr(ndimage, name)
    launches: dict[str, Callable[[], Any]] = {
        "ours": lambda: ours(x, parameter),
        "SciPy": lambda: theirs(x, parameter),
    }
    return Prepared(launches, {}, _error_to(theirs(x.astype(float), parameter)), 1e-5, 2 * x.nbytes)


def _sort(size: int) -> Prepared:
    x = np.random.default_rng().integers(-(1 << 31), 1 << 31, size, np.int64).astype(np.int32)
    launches: dict[str, Callable[[], Any]] = {
        "ours": lambda: sort.sort(x),
        "NumPy": lambda: np.sort(x),
    }
    return Prepared(launches, {}, _error_to(np.sort(x).astype(float)), 0.0, 2 * x.nbytes)


def _argsort(size: int) -> Prepared:
    x = _vector(size)
    launches: dict[str, Callable[[], Any]] = {
        "ours": lambda: sort.argsort(x),
        "NumPy": lambda: np.argsort(x, kind="stable"),
    }
    return Prepared(launches, {}, _error_to(np.argsort(x, kind="stable").astype(float)), 0.0, 0)


def _transpose(size: int) -> Prepared:
    x = _vector(size * size).reshape(size, size)
    launches: dict[str, Callable[[], Any]] = {
        "ours": lambda: linalg.transpose(x),
        "NumPy": lambda: np.ascontiguousarray(x.T),
    }
    return Prepared(launches, {}, _error_to(x.T), 0.0, 2 * x.nbytes)


def _take(size: int) -> Prepared:
    x = _vector(size)
    places = np.random.default_rng().integers(0, size, size)
    launches: dict[str, Callable[[], Any]] = {
        "ours": lambda: movement.take(x, places),
        "NumPy": lambda: np.take(x, places),
    }
    return Prepared(launches, {}, _error_to(x[places]), 0.0, 2 * x.nbytes + places.nbytes)


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
