"""What Numba's operations on numbers give, on NumPy's numbers of the same types.

The IR has typed an operation already: its signature names the types of the operands and of the
result. Machine code is not asked, so that it can be compared with this.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from numba import njit, types
from numba.core.registry import CPUDispatcher

from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.lowering.scalar_operations import LARGEST_EXPONENT
from tests.support.arrays import poisoned
from tests.support.conversions import cast
from tests.support.libdevice import real

__all__ = [
    "NotInterpretedError",
    "constant",
    "converter",
    "dtype_of",
    "is_number",
    "numba_function",
    "typed",
    "undefined",
]


class NotInterpretedError(Exception):
    """The IR has an operation of which this reference does not know the meaning."""


def is_number(kind: Any) -> bool:
    """Return whether values of a type are NumPy's scalars, without records."""
    row = ELEMENT_TYPES.get(str(kind))
    return _is_time(kind) or (row is not None and not row.is_record and not row.is_vector)


def _is_time(kind: Any) -> bool:
    return str(kind).startswith(("timedelta64[", "datetime64["))


def dtype_of(kind: Any) -> np.dtype:
    """Return NumPy's dtype of a type of numbers."""
    if not is_number(kind):
        raise NotInterpretedError(f"numbers of {kind}")
    return np.dtype(str(kind) if _is_time(kind) else ELEMENT_TYPES[str(kind)].name)


def constant(value: Any, kind: Any) -> Any:
    """Return a number of Python's in a type, where integers wrap; any other value as it is."""
    if not is_number(kind):
        return tuple(value) if isinstance(value, tuple) else value
    dtype = dtype_of(kind)
    if type(value) is int and dtype.kind in "iu":
        bits = value & ((1 << 8 * dtype.itemsize) - 1)
        return np.array(bits, f"u{dtype.itemsize}").view(dtype)[()]
    return np.asarray(value).astype(dtype)[()]


def undefined(kind: Any) -> Any:
    """Return what no program computes by accident."""
    return poisoned(1, dtype_of(kind))[0] if is_number(kind) else None


def converter(source: Any, target: Any) -> Callable[[Any], Any]:
    """Return what converts a value from one type to another."""
    if source == target or not is_number(target):
        return lambda value: value
    dtype = dtype_of(target)
    if dtype.kind == "b":
        return lambda value: np.bool_(value != 0)
    return lambda value: cast(value, dtype)


def typed(kind: Any) -> Callable[[Any], Any]:
    """Return what gives a number a type, or the members of a tuple theirs."""
    if isinstance(kind, types.BaseTuple):
        members = [typed(each) for each in kind.types]
        return lambda value: tuple(each(v) for each, v in zip(members, value, strict=True))
    if not is_number(kind):
        return lambda value: value
    dtype = dtype_of(kind)
    if dtype.kind in "mM":  # one class has all units
        return lambda value: np.asarray(value).astype(dtype)[()]
    exact = dtype.type
    return lambda value: value if type(value) is exact else cast(np.asarray(value)[()], dtype)


def numba_function(function: Any, signature: Any, operands: list[Any]) -> Callable[..., Any]:
    """Return what computes an operation from numbers of the operands' types.

    Numba computes binary operations in the type of the result, but true quotients, operations of
    one number and functions in the types of the signature.
    """
    if isinstance(function, types.Dispatcher):
        key: Any = njit(function.dispatcher.py_func, error_model="numpy")
    else:
        key = _function_of(function)
    kinds = _arguments(signature, len(operands))
    result = signature.return_type
    found = _meaning(key, kinds, result)
    to_kinds = [converter(one, two) for one, two in zip(operands, kinds, strict=True)]
    finish = typed(result)
    if kinds and isinstance(kinds[-1], types.StarArgTuple | types.StarArgUniTuple):
        return lambda *values: finish(found(*values[:-1], *values[-1]))
    if all(one == two for one, two in zip(operands, kinds, strict=True)):
        return lambda *values: finish(found(*values))

    def compute(*values: Any) -> Any:
        given = (convert(value) for convert, value in zip(to_kinds, values, strict=True))
        return finish(found(*given))

    return compute


def _function_of(function: Any) -> Any:
    """Return Python's function of a type of functions."""
    own = (getattr(each, "function", None) for each in getattr(function, "templates", ()))
    return next((each for each in own if each), getattr(function, "typing_key", function))


def _arguments(signature: Any, count: int) -> list[Any]:
    kinds = list(signature.args)
    if signature.recvr is not None:
        kinds.insert(0, signature.recvr)
    if len(kinds) != count:
        raise NotInterpretedError(f"{count} operands of {signature}")
    return kinds


def _meaning(key: Any, kinds: list[Any], result: Any) -> Callable[..., Any]:
    if key in _IN_THE_RESULT:
        function, converts = _IN_THE_RESULT[key], [converter(each, result) for each in kinds]
        if all(kind == result for kind in kinds) or any(map(_is_time, kinds)):
            return function
        return lambda *values: function(
            *(convert(value) for convert, value in zip(converts, values, strict=True))
        )
    if key in _FUNCTIONS:
        return _FUNCTIONS[key]
    if isinstance(key, CPUDispatcher):
        return key  # type: ignore[no-any-return]
    if isinstance(key, tuple) and key[-1] == "bit_count":  # a method of integers
        return lambda number: int(number).bit_count()
    if isinstance(key, str) and key.partition(".")[0] in ("array", "complex"):
        method = key.rpartition(".")[2]
        return lambda whole, *values: getattr(whole, method)(*values)
    name, module = getattr(key, "__name__", ""), getattr(key, "__module__", "") or ""
    if isinstance(key, np.ufunc) or module.partition(".")[0] == "numpy":
        return key  # type: ignore[no-any-return]
    if module == "math":
        return _of_math(key)
    if module == "cmath":
        return getattr(np, _OF_NUMPY.get(name, name))  # type: ignore[no-any-return]
    raise NotInterpretedError(f"numba.{name or key}")


def _is_integer(value: Any) -> bool:
    return isinstance(value, np.integer) and not isinstance(value, np.timedelta64)


def _whole(value: Any) -> Any:
    return np.int64(value) if isinstance(value, bool | np.bool_) else value


def _quotient(one: Any, two: Any) -> Any:
    if isinstance(two, np.timedelta64):
        return 0 if np.isnat(one) or np.isnat(two) or not two.astype(np.int64) else one // two
    if not _is_integer(one):
        return one // two
    if two == 0 or (two == -1 and one == np.iinfo(one.dtype).min):
        return type(one)(0)
    return one // two


def _remainder(one: Any, two: Any) -> Any:
    return one % two if not _is_integer(one) or two != 0 else type(one)(0)


def _power(one: Any, two: Any) -> Any:
    if not isinstance(two, np.integer) or isinstance(one, np.complexfloating):
        return one**two
    if isinstance(one, np.floating):
        return _product_of_powers(one, int(two))
    if two >= 0:
        return one**two
    if one == 0:  # the quotient of 1 and 0 as an integer
        return type(one)(np.iinfo(one.dtype).min)
    return type(one)(int(one) ** (int(two) & 1) if abs(int(one)) == 1 else 0)


def _product_of_powers(base: Any, exponent: int) -> Any:
    """By one product for each bit, whatever this release of NumPy does."""
    if abs(exponent) > LARGEST_EXPONENT:
        return base ** type(base)(exponent)
    product = type(base)(1)
    for bit in reversed(f"{abs(exponent):b}"):
        product = product * base if bit == "1" else product
        base = base * base
    return type(base)(1) / product if exponent < 0 else product


#: What is computed in the type of the result.
_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": _quotient,
    "mod": _remainder,
    "and_": operator.and_,
    "or_": operator.or_,
    "xor": operator.xor,
    "lshift": operator.lshift,
    "rshift": operator.rshift,
}
_IN_THE_RESULT: dict[Any, Callable[..., Any]] = {
    **{getattr(operator, name): function for name, function in _ARITHMETIC.items()},
    **{
        getattr(operator, "i" + name.rstrip("_")): function
        for name, function in _ARITHMETIC.items()
    },
    int: lambda value: value,
    float: lambda value: value,
}


def _extremum(is_better: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def two(left: Any, right: Any) -> Any:
        return right if is_better(right, left) else left

    return lambda *values: reduce(two, values[0] if len(values) == 1 else values)


def _of_numpy(extremum: Callable[..., Any], whole: Callable[..., Any]) -> Callable[..., Any]:
    """An extremum of NumPy's, which integers of all types have exactly."""

    def compute(*values: Any) -> Any:
        is_whole = all(isinstance(value, np.integer) for value in values)
        return whole(*values) if is_whole else extremum(*values)

    return compute


def _reciprocal(value: Any) -> Any:
    if not isinstance(value, np.integer):
        return np.reciprocal(value)
    return value if abs(int(value)) == 1 else type(value)(0)


def _logarithm(value: Any, base: Any = None) -> Any:
    return np.log(value) if base is None else np.log(value) / np.log(base)


def _is_close(one: Any, two: Any, relative: Any = 1e-9, absolute: Any = 0.0) -> Any:
    return np.bool_(math.isclose(one, two, rel_tol=relative, abs_tol=absolute))


def _gamma(value: Any) -> Any:
    """At the poles, where Python raises, what C's function gives."""
    return np.copysign(np.inf, value) if value == 0 else _of_math(math.gamma)(value)


def _lgamma(value: Any) -> Any:
    is_pole = value <= 0 and value == np.floor(value)
    if is_pole or not np.isfinite(value):
        return value if np.isnan(value) else np.float64(np.inf)
    return real("lgamma")(np.asarray(value).reshape(1))[0]


def _round(value: Any, digits: Any = None) -> Any:
    if isinstance(value, np.integer) or digits is None:
        return round(value)
    return round(value.item(), int(digits))


def _of_math(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of numbers, computed in float64."""

    def compute(*values: Any) -> Any:
        try:
            found = function(*(value.item() for value in values))
        except (ValueError, ZeroDivisionError):
            return np.float64(np.nan)
        except OverflowError:
            return np.float64(np.inf)
        return np.asarray(found)[()]

    return compute


#: Names of functions that have other names in NumPy.
_OF_NUMPY = {
    **{f"a{name}": f"arc{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "atan2": "arctan2",
}
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    operator.truediv: operator.truediv,
    operator.itruediv: operator.truediv,
    operator.pow: _power,
    operator.ipow: _power,
    pow: _power,
    # In the type of the operand, which is converted afterwards.
    operator.neg: lambda value: -_whole(value),
    operator.pos: lambda value: value,
    operator.invert: lambda value: np.bool_(not value) if isinstance(value, bool) else ~value,
    operator.lt: operator.lt,
    operator.le: operator.le,
    operator.gt: operator.gt,
    operator.ge: operator.ge,
    operator.eq: operator.eq,
    operator.ne: operator.ne,
    operator.not_: lambda value: np.bool_(not value),
    operator.truth: lambda value: np.bool_(value != 0),
    bool: lambda value: np.bool_(value != 0),
    operator.is_: lambda one, two: np.bool_(one is two or (one is not None and one == two)),
    operator.getitem: operator.getitem,
    operator.setitem: operator.setitem,
    slice: slice,
    abs: abs,
    min: _extremum(operator.lt),
    max: _extremum(operator.gt),
    **{each: _of_numpy(each, _extremum(operator.lt)) for each in (np.minimum, np.fmin)},
    **{each: _of_numpy(each, _extremum(operator.gt)) for each in (np.maximum, np.fmax)},
    len: lambda array: np.int64(len(array)),
    complex: lambda *values: complex(*(value.item() for value in values)),
    divmod: lambda one, two: (_quotient(one, two), _remainder(one, two)),
    round: _round,
    operator.contains: lambda row, value: any(each == value for each in row),
    sum: sum,
    **{
        getattr(math, name): getattr(np, name)
        for name in (
            *("sqrt", "exp", "expm1", "log2", "log10", "log1p", "sin", "cos", "tan"),
            *("sinh", "cosh", "tanh", "floor", "ceil", "trunc", "fabs", "copysign", "fmod"),
            *("hypot", "isnan", "isinf", "isfinite", "degrees", "radians", "nextafter"),
        )
    },
    **{getattr(math, name): getattr(np, found) for name, found in _OF_NUMPY.items()},
    math.log: _logarithm,
    math.isclose: _is_close,
    math.gamma: _gamma,
    math.lgamma: _lgamma,
    np.reciprocal: _reciprocal,
    math.pow: np.power,
}
