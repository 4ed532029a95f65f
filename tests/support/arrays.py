"""Random and poisoned arrays, and comparisons that see every bit."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

from kerneldsl.language.element_types import DTYPE_NAMES, ELEMENT_TYPES, NUMPY_NAMES

__all__ = [
    "HOST_DTYPES",
    "assert_same_bits",
    "assert_within_ulp",
    "poisoned",
    "random_array",
    "strided",
    "ulp_distance",
]


if importlib.util.find_spec("ml_dtypes") is not None:
    import ml_dtypes  # noqa: F401 - makes its dtypes known to NumPy

    HOST_DTYPES = DTYPE_NAMES
else:
    #: Element types that NumPy can hold here.
    HOST_DTYPES = NUMPY_NAMES


def _is_float(dtype: np.dtype) -> bool:
    """Whether a dtype is one of real floating-point numbers; NumPy's kind does not always say."""
    row = ELEMENT_TYPES.get(dtype.name)
    return row is not None and row.is_float


def poisoned(shape: Any, dtype: Any, order: str = "C") -> np.ndarray:
    """Return an array of values that no kernel writes by accident.

    Floats are NaN, integers repeat the byte 0xA5, booleans alternate.
    """
    array = np.empty(shape, dtype, order=order)
    kind = array.dtype.kind
    if kind == "c" or _is_float(array.dtype):
        array[...] = np.nan
    elif kind == "b":
        array[...] = np.arange(array.size).reshape(array.shape) % 2 == 0
    else:
        array[...] = np.frombuffer(b"\xa5" * array.itemsize, array.dtype)[0]
    return array


def random_array(rng: np.random.Generator, shape: Any, dtype: Any) -> np.ndarray:
    """Return random values: integers over their whole range, floats of a normal distribution."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    if dtype.kind == "c":
        parts = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
        return np.asarray(parts).astype(dtype)
    return np.asarray(rng.standard_normal(shape)).astype(dtype)


def strided(array: np.ndarray, steps: tuple[int, ...]) -> np.ndarray:
    """Return a view with the same values and the given step, in elements, along each axis.

    A negative step runs backwards through memory.
    """
    base = poisoned(
        [max(1, n) * abs(s) for n, s in zip(array.shape, steps, strict=True)], array.dtype
    )
    view = base[tuple(slice(None, None, s) for s in steps)]
    view = view[tuple(slice(0, n) for n in array.shape)]
    view[...] = array
    return view


@np.errstate(invalid="ignore")  # ml_dtypes tells of every NaN
def assert_same_bits(got: np.ndarray, expected: np.ndarray, label: str) -> None:
    """Raise where a bit differs; any NaN equals any NaN, and -0 is not 0."""
    assert got.dtype == expected.dtype, f"{label}: dtype {got.dtype}, expected {expected.dtype}"
    assert got.shape == expected.shape, f"{label}: shape {got.shape}, expected {expected.shape}"
    if got.dtype.names is not None:
        for name in got.dtype.names:
            assert_same_bits(got[name], expected[name], f"{label}[{name!r}]")
        return
    if got.dtype.kind == "c":
        assert_same_bits(got.real, expected.real, f"{label}.real")
        assert_same_bits(got.imag, expected.imag, f"{label}.imag")
        return
    if got.dtype.kind in "mM":  # NaT is not equal to itself
        got, expected = got.view(np.int64), expected.view(np.int64)
    wrong = got != expected
    if _is_float(got.dtype):
        wrong |= np.signbit(got) != np.signbit(expected)
        wrong &= ~(np.isnan(got) & np.isnan(expected))
    if np.any(wrong):
        _fail(got, expected, np.asarray(wrong), label, "")


def ulp_distance(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Return the distance in units of the last place of `got`'s dtype, as float64.

    Parameters
    ----------
    got : ndarray of float32 or float64
        Results.
    exact : ndarray
        The same values in a wider type. Equal infinities and two NaN are at distance 0; a NaN or
        an infinity against anything else is infinitely far, but for an `exact` value that rounds
        to that infinity.
    """
    with np.errstate(all="ignore"):
        rounded = exact.astype(got.dtype)
        wide = np.longdouble
        distance = np.abs(got.astype(wide) - exact.astype(wide))
        unit = np.abs(np.spacing(np.where(np.isfinite(rounded), rounded, 1))).astype(wide)
        ulp = (distance / unit).astype(np.float64)
    same = (got == rounded) & ~np.isfinite(got)
    same |= np.isnan(got) & np.isnan(rounded)
    ulp[same] = 0.0
    ulp[~same & ~(np.isfinite(got) & np.isfinite(rounded))] = np.inf
    return ulp


def assert_within_ulp(got: np.ndarray, exact: np.ndarray, bound: float, label: str) -> None:
    """Raise where a result is further than `bound` units of the last place from the exact value.

    Half a unit is allowed on top: a bound of 0 means correctly rounded.
    """
    if got.dtype.kind == "c":
        # The error of one part of a complex result is bounded by the size of the whole number.
        with np.errstate(all="ignore"):
            scale = np.spacing(np.abs(exact).astype(got.real.dtype))
            error = np.abs(got - exact)
        is_same = _equal_parts(got.real, exact.real) & _equal_parts(got.imag, exact.imag)
        wrong = np.where(np.isfinite(exact), ~(error <= (bound + 0.5) * scale), ~is_same)
        if np.any(wrong):
            _fail(got, exact, wrong, label, f" within {bound} ulp")
        return
    distance = ulp_distance(got, exact)
    wrong = distance > bound + 0.5
    if np.any(wrong):
        _fail(got, exact, wrong, label, f" within {bound} ulp, found {distance.max():.3g}")


def _equal_parts(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return where one part of complex numbers is equal, or NaN in both."""
    return (got == expected) | (np.isnan(got) & np.isnan(expected))


def _fail(got: np.ndarray, expected: np.ndarray, wrong: np.ndarray, label: str, bound: str) -> None:
    places = np.argwhere(wrong)
    shown = [
        f"  {tuple(int(i) for i in p)}: got {got[tuple(p)]!r}, expected {expected[tuple(p)]!r}"
        for p in places[:6]
    ]
    raise AssertionError(
        f"{label}: {len(places)} of {wrong.size} elements differ{bound}\n" + "\n".join(shown)
    )
