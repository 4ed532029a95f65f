"""Parameters that are no arrays: axes, dtypes and numbers, checked once for all functions.

A value of a wrong type raises an `ArgumentTypeError`, and one that is out of range or not a valid
choice an `ArgumentValueError`. Both name the parameter.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import cache
from typing import Any

import numpy as np

from kerneldsl.errors import ArgumentOverflowError, ArgumentTypeError
from kerneldsl.errors.conversions import AxisError
from kerneldsl.errors.kernels import wrong_type, wrong_value
from kerneldsl.errors.values import as_int, safe_repr
from kerneldsl.repeating.recorded_calls import refuse_to_repeat
from kerneldsl.utilities.formatting import format_count

__all__ = [
    "NARROW",
    "NUMERIC",
    "accumulator_dtype",
    "axes_of",
    "axis_of",
    "axis_or_flat",
    "axis_or_none",
    "check_conversion",
    "choice_of",
    "common_dtype",
    "computing_dtype",
    "dtype_of",
    "each_axis_of",
    "finite_of",
    "floating_dtype",
    "function_of",
    "integer_of",
    "integers_in",
    "integers_of",
    "is_number",
    "names_of",
    "number_of",
    "real_dtype",
    "scalar_of",
    "shape_of",
    "weak_scalar_of",
    "wrong_type",
    "wrong_value",
]

#: Names of NumPy's dtypes that functions take.
NUMERIC = frozenset(
    ["bool", "complex64", "complex128", "float32", "float64"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)
#: Floats that are computed with as float32.
NARROW = ("float16", "bfloat16")


@cache
def names_of(kinds: str, *, halves: bool) -> tuple[str, ...]:
    """Return the names of dtypes of NumPy's kinds, if requested with those of 16-bit floats."""
    names = tuple(sorted(name for name in NUMERIC if np.dtype(name).kind in kinds))
    return names + NARROW if halves else names


def integers_in(array: Any, kinds: str, but: str = "") -> tuple[str, ...]:
    """Return the names of dtypes for an array of integers; an empty list was read as float64."""
    names = tuple(each for each in names_of(kinds, halves=False) if each != but)
    return names if getattr(array, "size", 1) else (*names, "float64")


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return axes from 0 on, in rising order; all of them for ``None``.

    An array of no axes is reduced along 0 and -1, too, as in NumPy.
    """
    is_flat = not (ndim or isinstance(axis, tuple | list)) and axis_or_flat(axis, ndim) is None
    axes = sorted(range(ndim) if is_flat or axis is None else each_axis_of(axis, ndim))
    if len(set(axes)) != len(axes):
        raise wrong_value("axis", axis, "An axis is named twice", "Name each axis once")
    return tuple(axes)


def each_axis_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return one axis or several from 0 on, in the order in which they are given."""
    return tuple(axis_of(each, ndim) for each in integers_of("axis", axis))


def axis_of(axis: Any, ndim: int) -> int:
    """Return one axis from 0 on."""
    found = integer_of("axis", axis)
    if not -ndim <= found < ndim:
        raise AxisError(
            f"axis {safe_repr(axis)} is not one of an array of {format_count(ndim, 'dimension')}",
            axis=found,
            ndim=ndim,
            limit=f"Axes are {-ndim} to {ndim - 1}" if ndim else "It has no axes",
            remedy="Omit axis, or reshape the array" if ndim else "Reshape it, with x.reshape(1)",
        )
    return found % ndim


def axis_or_none(axis: Any, ndim: int) -> int | None:
    """Return one axis from 0 on, or ``None`` as it is."""
    return None if axis is None else axis_of(axis, ndim)


def axis_or_flat(axis: Any, ndim: int) -> int | None:
    """Return one axis from 0 on, or ``None`` for a flattened array.

    As in NumPy, an array of no axes is flattened for 0 and -1, too.
    """
    found = axis_or_none(axis, ndim or 1)
    return found if ndim else None


def dtype_of(dtype: Any, default: Any, *, kinds: str = "biufc") -> np.dtype[Any]:
    """Return a dtype in which functions compute, or the default for ``None``.

    `kinds` are characters of NumPy's dtype kinds; floats of 16 bits are among "f".
    """
    if dtype is None:
        dtype = default
    wanted = names_of(kinds, halves="f" in kinds)
    limit = f"It must be one of {', '.join(wanted)}"
    try:
        found: np.dtype[Any] = np.dtype(dtype)
    except Exception as error:  # what NumPy, or a foreign object, raises
        raise wrong_type("dtype", dtype, limit) from error
    if not (found.name in wanted and found.isnative):
        raise ArgumentTypeError(f"dtype is {found}", value=dtype, limit=limit)
    if default is not None:
        check_conversion(np.dtype(default), found)
    return found


def check_conversion(source: np.dtype[Any], wanted: np.dtype[Any]) -> None:
    """Refuse to convert complex numbers to others."""
    if source.kind == "c" and wanted.kind != "c":
        raise ArgumentTypeError(
            f"{source} cannot be converted to {wanted}",
            value=wanted,
            limit="The imaginary parts would be lost",
            remedy="Compute .real or abs() of the elements with stdlib_kernels.elementwise.map(…)",
        )


def accumulator_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which NumPy adds up elements: at least 64 bits for integers."""
    if dtype.kind in "bi":
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if dtype.kind == "u" else dtype


def floating_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of what is no integer: float64 for booleans and integers."""
    return np.dtype(np.float64) if dtype.kind in "biu" else dtype


def computing_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which numbers are combined: float32 for floats of 16 bits."""
    return np.dtype(np.float32) if dtype.name in NARROW else dtype


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the parts of complex numbers; another dtype as it is."""
    return np.empty(0, dtype).real.dtype


def common_dtype(*values: Any) -> np.dtype[Any]:
    """Return NumPy's dtype for arrays and numbers; Python's numbers take the arrays' precision."""
    try:
        # The value of a Python integer does not matter: `scalar_of` refuses one that is too large.
        weak = (v if isinstance(v, bool) or not isinstance(v, int) else 0 for v in values)
        return np.result_type(*(getattr(v, "dtype", v) for v in weak))
    except TypeError as error:
        raise ArgumentTypeError(
            f"there is no dtype for {', '.join(safe_repr(getattr(v, 'dtype', v)) for v in values)}",
            limit="Arrays are of dtypes that NumPy promotes to one",
            remedy="Convert one of them",
        ) from error


def function_of(name: str, value: Any) -> Any:
    """Return what kernels may be able to call."""
    if callable(value):
        return value
    raise wrong_type(
        name, value, "It must be a function that kernels can call", "Pass a lambda, say"
    )


def choice_of(name: str, value: Any, choices: Collection[str]) -> str:
    """Return one of some words."""
    if isinstance(value, str) and value in choices:
        return value
    raise wrong_value(name, value, f"It must be one of {', '.join(map(repr, choices))}")


def integer_of(name: str, value: Any, low: float = -math.inf, high: float = math.inf) -> int:
    """Return a Python or NumPy integer in an interval; a bool is not valid."""
    found = as_int(value)
    if type(value) is np.ndarray:
        refuse_to_repeat()  # calls are equal for all contents of their arrays
    if found is None:
        raise wrong_type(name, value, "It must be an int", "Convert it, with int(…) for instance")
    if not low <= found <= high:
        raise wrong_value(name, value, f"It must be an int {_interval(low, high)}")
    return found


def integers_of(name: str, value: Any, low: float = -math.inf) -> tuple[int, ...]:
    """Return integers that are given as one, or as a tuple of them."""
    values = value if isinstance(value, tuple | list) else (value,)
    return tuple(integer_of(name, each, low) for each in values)


def _interval(low: float, high: float) -> str:
    return f"from {low} on" if high == math.inf else f"from {low} to {high}"


def shape_of(name: str, value: Any) -> tuple[int, ...]:
    """Return a shape that is given as an int, a tuple of ints, or ``None`` for one element."""
    return () if value is None else integers_of(name, value, 0)


def number_of(name: str, value: Any, low: float = -math.inf) -> float:
    """Return a number of Python's or NumPy's as a float, with `low` one that is not below it."""
    try:
        found = float(value) if isinstance(value, int | float | np.integer | np.floating) else None
    except OverflowError:
        found = None
    if found is None:
        raise wrong_type(name, value, "It must be a number that a float64 holds")
    if low > -math.inf and not found >= low:  # nor NaN
        raise wrong_value(name, value, f"It must be a number {_interval(low, math.inf)}")
    return found


def finite_of(name: str, value: Any, dtype: np.dtype[Any], low: float = -math.inf) -> Any:
    """Return a number as a scalar of a dtype of floats, which has one as large."""
    with np.errstate(over="ignore"):
        found = dtype.type(number_of(name, value, low))
    if not np.isfinite(found):
        largest = float(np.nextafter(dtype.type(np.inf), dtype.type(0)))
        limit = f"It must be finite, and {dtype} has numbers up to {largest:.5g}"
        raise wrong_value(name, value, limit)
    return found


def is_number(value: Any) -> bool:
    """Return whether a value is a number of Python's or NumPy's, or a bool."""
    if isinstance(value, np.generic):
        return isinstance(value, np.number | np.bool_) or value.dtype.name in NARROW
    return isinstance(value, int | float | complex)


def weak_scalar_of(name: str, value: Any, dtype: np.dtype[Any]) -> Any:
    """Return an operand; a Python int takes the dtype of arrays, as in NumPy."""
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    if dtype.kind not in "iu":
        dtype = np.dtype(np.int64 if -(2**63) <= value < 2**63 else np.float64)
    held = scalar_of(name, int(value), dtype)
    return held if dtype == np.uint64 else held.item()  # kernels have int64 for all others


def scalar_of(name: str, value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a number as a NumPy scalar of a dtype."""
    limit = f"It must be a number that {dtype} holds"
    remedy = "Give another one, or convert the array to a dtype that holds it"
    if is_number(value):
        # NumPy has Python's numbers alone refused where an integer would wrap around.
        plain = value.item() if dtype.kind in "iu" and isinstance(value, np.number) else value
        try:
            return dtype.type(plain)
        except OverflowError as error:
            ends: Any = (np.iinfo if dtype.kind in "iu" else np.finfo)(dtype)
            limit += f", {ends.min} to {ends.max}"
            raise wrong_value(name, value, limit, remedy, ArgumentOverflowError) from error
        except (TypeError, ValueError):
            pass
    raise wrong_type(name, value, limit, remedy)
