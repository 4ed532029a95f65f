"""Make the standard's elementwise functions from functions of numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from stdlib_kernels.array_api.computing import Rule, compute
from stdlib_kernels.checks import Out
from stdlib_kernels.functions import repeated_function

__all__ = ["RULES", "elementwise"]

_TEXT = """{summary}

Parameters
----------
{operands}
out : array, optional
    Array for the result, with the result's shape and dtype and the same kind as `x`.

Returns
-------
array
    The same dtype as from ``numpy.{ufunc}``; `out` if it is given.

Raises
------
kerneldsl.errors.ArgumentError
    If the function does not exist for the dtypes, or the arguments do not fit.

See Also
--------
numpy.{ufunc}

Examples
--------
>>> from stdlib_kernels import array_api as xp
>>> xp.{name}({given}).tolist()
{result}
"""
_ONE = """x : array
    Any rank and layout."""
_TWO = """x1, x2 : array or number
    At least one is an array. They are broadcast against each other. A Python number takes the
    dtype of the array, if it has numbers of its kind."""

#: Description of each function, by the names of the standard.
RULES: dict[str, Rule] = {}


def elementwise(
    ufunc: np.ufunc,
    kinds: str,
    example: str,
    *,
    others: Mapping[str, Callable[..., Any]] | None = None,
    **properties: bool,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function of arrays from one of numbers, with its name and its summary; a decorator.

    - `ufunc`, `kinds`, `properties`: fields of `Rule`.
    - `example`: the elements of one array or two, and those of the result.
    - `others`: the functions of numbers for kinds that have their own.
    """

    def decorate(of_numbers: Callable[..., Any]) -> Callable[..., Any]:
        name = of_numbers.__name__
        functions = {**others, kinds: of_numbers} if others else of_numbers
        rule = RULES[name] = Rule(ufunc, functions, kinds, **properties)

        def unary(x: Any, /, *, out: Out = None) -> Any:
            return compute(rule, name, (x,), out)

        def binary(x1: Any, x2: Any, /, *, out: Out = None) -> Any:
            return compute(rule, name, (x1, x2), out)

        function: Any = unary if ufunc.nin == 1 else binary
        given, result = example.split(" → ")
        arrays = [f"xp.asarray({each})" for each in given.replace("], [", "]; [").split("; ")]
        function.__name__ = function.__qualname__ = name
        function.__doc__ = _TEXT.format(
            name=name,
            summary=of_numbers.__doc__,
            ufunc=ufunc.__name__,
            operands=_ONE if ufunc.nin == 1 else _TWO,
            given=", ".join(arrays),
            result=result,
        )
        return repeated_function(function)

    return decorate
