"""Calls of elementwise functions: NumPy's rules for dtypes, and one kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError
from kerneldsl.errors.values import a_type
from stdlib_kernels.checks import Array, Out, check_writable
from stdlib_kernels.elementwise.calls import checked_operands, map_call, widened
from stdlib_kernels.parameters import NARROW, computing_dtype, is_number, real_dtype, scalar_of

__all__ = ["Rule", "compute", "compute_in_place", "mixed"]

#: A function of numbers for every kind of dtypes, or one for each, by characters of NumPy's kinds.
_Functions: TypeAlias = "Callable[..., Any] | Mapping[str, Callable[..., Any]]"


class Rule(NamedTuple):
    """The rule of an elementwise function: the function of numbers, and its dtypes."""

    #: NumPy's function, which defines the dtypes.
    ufunc: np.ufunc
    #: The function in the language of kernels.
    functions: _Functions
    #: Kinds of the dtypes in which it computes, as NumPy's characters.
    kinds: str = "biufc"
    #: Whether integers and booleans do not change, and keep their dtype.
    keeps_integers: bool = False
    #: Whether a result is the component of a complex number.
    is_component: bool = False
    #: Whether floats of 16 bits may be computed as float32.
    has_halves: bool = True

    def __hash__(self) -> int:
        return hash(self.ufunc)


def compute(rule: Rule, name: str, operands: tuple[Any, ...], out: Out = None) -> Any:
    """Return the results of a function for arrays and numbers, in NumPy 2's dtype for them.

    Python's numbers are weak: they take the dtype of the arrays if it has numbers of their kind.
    """
    like, loop = _begin(rule, name, operands)
    whole = _beyond(rule, operands, loop)
    if whole is not None:
        return whole
    function = _function(rule, name, loop)
    values, convert = _prepared(operands, loop)
    return map_call(function, values, [loop[-1]], [out], like, convert=convert)[0]


def compute_in_place(rule: Rule, name: str, left: kd.DeviceArray, right: Any) -> Any:
    """Replace an array's elements by the results of a function; see `compute`."""
    check_writable("the array", left)
    like, loop = _begin(rule, name, (left, right))
    if not np.can_cast(loop[-1], left.dtype, "same_kind"):
        raise ArgumentTypeError(
            f"{name} returns {loop[-1]}, which an array of dtype {left.dtype} cannot hold",
            value=loop[-1],
            limit="In place, results are converted to a dtype of the same kind only",
            remedy="Assign the result to a new name, as in y = x + 1.5",
        )
    function = _function(rule, name, loop)
    values, convert = _prepared((left, right), loop)
    return map_call(function, values, [left.dtype], [left], like, convert=convert)[0]


def _weak_type(value: Any) -> Any:
    """Return the source of an operand's dtype: a dtype, or ``int``, ``float``, ``complex``."""
    dtype = getattr(value, "dtype", None)
    if dtype is not None:
        return dtype
    if isinstance(value, bool):
        return np.dtype(np.bool_)  # of the lowest kind, so that it is as weak
    return next(kind for kind in (int, float, complex) if isinstance(value, kind))


def _begin(rule: Rule, name: str, operands: tuple[Any, ...]) -> tuple[Array, tuple[Any, ...]]:
    """Return the first array, and the dtypes of the operands and of the result."""
    letters = ("x",) if len(operands) == 1 else ("x1", "x2")
    like = checked_operands(list(zip(letters, operands, strict=True)))
    return like, _loop(rule, name, tuple(map(_weak_type, operands)))


@lru_cache(1024)
def _loop(rule: Rule, name: str, given: tuple[Any, ...]) -> tuple[Any, ...]:
    if rule.keeps_integers and given[0].kind in "biu":
        return given[0], given[0]
    try:
        loop = rule.ufunc.resolve_dtypes((*given, None))
    except TypeError as error:
        raise _no_such(rule, name, given, f"NumPy says: {error}") from error
    if rule.is_component and loop[0].kind == "c":
        loop = (loop[0], real_dtype(loop[0]))
    kinds = {_kind(each) for each in loop[:-1]}
    if not kinds <= set(rule.kinds):
        raise _no_such(rule, name, given, "It is not defined for numbers of that kind")
    if not rule.has_halves and loop[0].name in NARROW:
        raise _no_such(rule, name, given, "Floats of 16 bits are computed as float32")
    return tuple(loop)


#: Dtypes of remedies, by NumPy's characters of kinds.
_USUAL = {"f": "float32", "i": "int32", "c": "complex64"}


def _no_such(rule: Rule, name: str, given: tuple[Any, ...], limit: str) -> ArgumentTypeError:
    usual = next(dtype for kind, dtype in _USUAL.items() if kind in rule.kinds)
    remedy = f"Convert the array, as in x.astype(np.{usual})"
    if "c" not in rule.kinds and any(np.dtype(each).kind == "c" for each in given):
        remedy = "Take the real parts, as in stdlib_kernels.array_api.real(x)"
    words = " and ".join(str(getattr(each, "__name__", each)) for each in given)
    return ArgumentTypeError(
        f"{name} is not available for {words}",
        value=given,
        limit=limit,
        remedy=remedy,
    )


def _kind(dtype: np.dtype[Any]) -> str:
    return computing_dtype(dtype).kind


def _function(rule: Rule, name: str, loop: tuple[Any, ...]) -> Any:
    """Return the function for the kind of numbers of the computation."""
    if callable(rule.functions):
        return rule.functions
    kind = _kind(loop[0])
    return next(f for kinds, f in rule.functions.items() if kind in kinds)


def _prepared(operands: tuple[Any, ...], loop: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
    """Return the operands, with numbers as scalars of their dtype, and the dtype of arrays."""
    values: list[Any] = []
    convert: list[Any] = []
    for n, (value, dtype) in enumerate(zip(operands, loop, strict=False)):
        number = computing_dtype(dtype)
        if is_number(value):
            # Logical functions accept any number, although NumPy defines them for booleans.
            held = value != 0 if dtype.kind == "b" else value
            values.append(number.type(scalar_of(f"x{n + 1}", held, dtype)))
            convert.append(None)
            continue
        values.append(value)
        is_as_it_is = value.dtype == number or dtype.kind == "b"
        convert.append(widened(value) if is_as_it_is else number.type)
    return values, convert


def _beyond(rule: Rule, operands: tuple[Any, ...], loop: tuple[Any, ...]) -> Any:
    """Return the result of a comparison with an int beyond a dtype, equal for all elements."""
    if len(operands) != 2 or loop[-1].kind != "b" or loop[0].kind not in "iu":
        return None
    for at in (0, 1):
        number = operands[at]
        if type(number) is not int:
            continue
        ends = np.iinfo(loop[at])
        if ends.min <= number <= ends.max:
            return None
        pair = (number, 0) if at == 0 else (0, number)
        other: Array = operands[1 - at]
        found = bool(rule.ufunc(*(np.array(each, object) for each in pair)))
        if isinstance(other, np.ndarray):
            return np.full(other.shape, found)
        return kd.full(other.shape, found, np.bool_, device=other.device)
    return None


def mixed(left: Any, right: Any) -> ArgumentTypeError:
    """Return the error of an operation with a NumPy array and a device array."""
    return ArgumentTypeError(
        f"an operation was requested on {a_type(left)} and {a_type(right)}",
        value=(left, right),
        limit="Operators take device arrays and numbers, and nothing is copied by itself",
        remedy="Use kd.to_device(array), or array.copy_to_host() of the device array",
    )
