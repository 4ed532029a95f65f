"""Reductions of a row to a number, as device functions.

They read the row from its first element to its last. Sums of integers are of 64 bits, those of
float16 and bfloat16 are float32 until they are complete. A NaN is the largest and the smallest, as
in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from kerneldsl.frontend.normalize import make_unit
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.element_types import ELEMENT_TYPES, numpy_dtype, result_of_sum
from kerneldsl.utilities.written_functions import written_function

__all__ = ["FUNCTIONS", "METHODS", "REDUCTIONS", "counting_unit", "reduction_unit"]


@cache
def reduction_unit(name: str, *dtypes: str) -> FunctionUnit:
    """Return the device function that reduces a row.

    - `name`: one of `REDUCTIONS`, ``"nanmax"``, ``"nanmin"``, or ``"dot"``: the sum of the products
      of two rows.
    - `*dtypes`: element types of the rows.
    """
    if name == "dot":
        return make_unit(_dot(*(_total_type(dtype)(0) for dtype in dtypes)), is_device=True)
    return make_unit((REDUCTIONS | _ALONE)[name](*dtypes), is_device=True)


@cache
def counting_unit(ndim: int) -> FunctionUnit:
    """Return the device function that counts the elements of an array that are not 0."""
    return make_unit(_count_nonzero(ndim), is_device=True)


def _total_type(dtype: str) -> Any:
    return numpy_dtype(result_of_sum(dtype)).type


def _rounded(reduced: Any, dtype: str) -> Callable[..., Any]:
    """Return a reduction with a result of the row's type."""
    kind = numpy_dtype(dtype).type
    reduced.__kerneldsl_function__ = reduced  # a function of ours that is for kernels

    def rounded(row):  # type: ignore[no-untyped-def]
        return kind(reduced(row))

    return rounded


def _sum(dtype: str) -> Callable[..., Any]:
    start = _total_type(dtype)(0)

    def row_sum(row):  # type: ignore[no-untyped-def]
        total = start
        for k in range(row.shape[0]):
            total += row[k]
        return total

    return _rounded(row_sum, dtype) if ELEMENT_TYPES[dtype].is_narrow else row_sum


def _product(dtype: str) -> Callable[..., Any]:
    start = _total_type(dtype)(1)

    def row_product(row):  # type: ignore[no-untyped-def]
        total = start
        for k in range(row.shape[0]):
            total *= row[k]
        return total

    return _rounded(row_product, dtype) if ELEMENT_TYPES[dtype].is_narrow else row_product


def _mean(dtype: str) -> Callable[..., Any]:
    kind = _total_type(dtype)
    if kind in (np.int64, np.uint64):
        kind = np.float64
    start = kind(0)

    def row_mean(row):  # type: ignore[no-untyped-def]
        total = start
        for k in range(row.shape[0]):
            total += row[k]
        return total / kind(row.shape[0])

    return _rounded(row_mean, dtype) if ELEMENT_TYPES[dtype].is_narrow else row_mean


def _dot(one: Any, other: Any) -> Callable[..., Any]:
    start = one * other

    def row_dot(x, y):  # type: ignore[no-untyped-def]
        total = start
        for k in range(x.shape[0]):
            total += x[k] * y[k]
        return total

    return row_dot


#: Text for the extreme of a row, and its place; `nan` is the value or the place for a NaN.
_EXTREME = """\
def row_{name}(row):
    best = kind(0)
    for k in range(row.shape[0]):
        value = row[k]
        if k == 0 or value {beats} best or {nan} != {nan}:
            best = value
    return best
"""
_PLACE = """\
def row_{name}(row):
    found, best = 0, kind(0)
    for k in range(row.shape[0]):
        value = row[k]
        is_first_nan = value != value and best == best
        if k == 0 or value {beats} best or is_first_nan:
            found, best = k, value
    return found
"""


def _extreme(name: str, dtype: str) -> Callable[..., Any]:
    """Return the function of ``"max"``, ``"argmin"``, ``"nanmax"`` and their like."""
    text, nan = _PLACE if name.startswith("arg") else _EXTREME, "value"
    if name.startswith("nan"):
        nan = "best"
    text = text.format(name=name, beats=">" if name.endswith("max") else "<", nan=nan)
    kind = numpy_dtype(dtype).type
    found: Callable[..., Any] = written_function(f"row_{name}", text, {"kind": kind}, __name__)
    return found


def _any(dtype: str) -> Callable[..., Any]:
    def row_any(row):  # type: ignore[no-untyped-def]
        for k in range(row.shape[0]):  # noqa: SIM110 - kernels have no generators
            if row[k]:
                return True
        return False

    return row_any


def _all(dtype: str) -> Callable[..., Any]:
    def row_all(row):  # type: ignore[no-untyped-def]
        for k in range(row.shape[0]):  # noqa: SIM110
            if not row[k]:
                return False
        return True

    return row_all


def _count_nonzero(ndim: int) -> Callable[..., Any]:
    if ndim == 0:

        def count(array):  # type: ignore[no-untyped-def]
            return 1 if array[()] else 0

    elif ndim == 1:

        def count(array):  # type: ignore[no-untyped-def]
            found = 0
            for k in range(array.shape[0]):
                if array[k]:
                    found += 1
            return found

    else:
        inner = _count_nonzero(ndim - 1)

        def count(array):  # type: ignore[no-untyped-def]
            found = 0
            for k in range(array.shape[0]):
                found += inner(array[k])
            return found

    count.__kerneldsl_function__ = count  # type: ignore[attr-defined]
    return count


#: Makers of the function for an element type, by method of arrays.
REDUCTIONS: dict[str, Callable[[str], Callable[..., Any]]] = {
    "sum": _sum,
    "prod": _product,
    "mean": _mean,
    **{name: partial(_extreme, name) for name in ("max", "min", "argmax", "argmin")},
    "any": _any,
    "all": _all,
}

#: Reductions that are functions only, not methods.
_ALONE = {name: partial(_extreme, name) for name in ("nanmax", "nanmin")}
#: Methods of one array, and the one of two arrays.
METHODS = (*REDUCTIONS, "dot")
#: Reductions by the names of NumPy's functions; most are methods, too.
FUNCTIONS = {f"numpy.{name}": name for name in METHODS} | {
    "numpy.amax": "max",
    "numpy.amin": "min",
    **{f"numpy.{name}": name for name in (*_ALONE, "count_nonzero")},
}
