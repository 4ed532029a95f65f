"""Definition of the standard's elementwise functions: signature, docstring and rule in a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stdlib_kernels.array_api.computing import Rule, compute
from stdlib_kernels.checks import Out
from stdlib_kernels.functions import repeated_function

__all__ = ["RULES", "binary", "unary"]

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
>>> xp.{name}({example}).tolist()
{result}
"""
_ONE = """x : array
    Any rank and layout."""
_TWO = """x1, x2 : array or number
    At least one is an array. They are broadcast against each other. A Python number takes the
    dtype of the array, if it has numbers of its kind."""

#: Description of each function, by the names of the standard.
RULES: dict[str, Rule] = {}


def unary(name: str, summary: str, rule: Rule, given: str, result: str) -> Callable[..., Any]:
    def function(x: Any, /, *, out: Out = None) -> Any:
        return compute(rule, name, (x,), out)

    return _public(function, name, summary, rule, _ONE, f"xp.asarray({given})", result)


def binary(name: str, summary: str, rule: Rule, given: str, result: str) -> Callable[..., Any]:
    def function(x1: Any, x2: Any, /, *, out: Out = None) -> Any:
        return compute(rule, name, (x1, x2), out)

    left, _, right = given.partition("], ")
    example = f"xp.asarray({left}]), xp.asarray({right})"
    return _public(function, name, summary, rule, _TWO, example, result)


def _public(
    function: Any, name: str, summary: str, rule: Rule, operands: str, example: str, result: str
) -> Callable[..., Any]:
    """Set the name and the docstring of a function, and register its rule."""
    RULES[name] = rule
    function.__name__ = function.__qualname__ = name
    ufunc = rule.ufunc.__name__
    given = {"name": name, "summary": summary, "ufunc": ufunc, "operands": operands}
    function.__doc__ = _TEXT.format(**given, example=example, result=result)
    return repeated_function(function)
