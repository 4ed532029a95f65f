"""Checks of the arguments of :func:`kerneldsl.from_expression` beside the expressions."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from numbers import Real
from typing import Any

import sympy

from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.values import as_int, safe_repr

__all__ = [
    "MAX_RANK",
    "read_name",
    "read_parameters",
    "read_rank",
    "read_steps",
    "read_value_beyond",
]

#: Axes that a launch runs over at most.
MAX_RANK = 3


def read_name(name: Any) -> str:
    """Return the name of a kernel."""
    if type(name) is not str:
        raise ArgumentTypeError(
            f"name is {safe_repr(name)}", value=name, limit="A kernel's name is a str"
        )
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ArgumentValueError(
            f"name is {safe_repr(name)}",
            value=name,
            limit="A kernel's name is one that a function can have in Python",
        )
    return name


def read_rank(ndim: Any) -> int:
    """Return the rank of the arrays of expressions that index nothing."""
    found = as_int(ndim)
    if found is None:
        raise ArgumentTypeError(
            f"ndim is {safe_repr(ndim)}", value=ndim, limit="The number of axes is an int"
        )
    if not 1 <= found <= MAX_RANK:
        raise ArgumentValueError(
            f"ndim is {safe_repr(ndim)}",
            value=ndim,
            limit=f"A kernel runs over 1 to {MAX_RANK} axes",
        )
    return found


def read_parameters(parameters: Any) -> tuple[str | sympy.Symbol, ...] | None:
    """Return the parameters in their order."""
    if parameters is None:
        return None
    kinds = (str, sympy.Symbol, sympy.IndexedBase)
    if not isinstance(parameters, list | tuple) or not all(
        isinstance(p, kinds) for p in parameters
    ):
        raise ArgumentTypeError(
            f"parameters is {safe_repr(parameters)}",
            value=parameters,
            limit="The parameters are a list or tuple of names and symbols",
        )
    return tuple(parameters)


def read_value_beyond(cval: Any) -> float:
    """Return the value that is read beyond an array's ends."""
    if not isinstance(cval, Real):
        raise ArgumentTypeError(
            f"cval is {safe_repr(cval)}",
            value=cval,
            limit="The value beyond the ends is a real number",
        )
    try:
        return float(cval)
    except OverflowError:
        raise ArgumentValueError(
            "cval is an integer beyond the floats",
            value=None,
            limit="The value beyond the ends is a float64",
        ) from None


def read_steps(steps: Any) -> dict[Any, Any]:
    """Return the distances between neighbours along coordinates."""
    if steps is None:
        return {}
    if not isinstance(steps, Mapping) or not all(isinstance(each, sympy.Symbol) for each in steps):
        raise ArgumentTypeError(
            f"steps is {safe_repr(steps)}",
            value=steps,
            limit="The steps are a dict from symbols to distances",
        )
    return dict(steps)
