"""Making elementwise functions of the standard: signature, docstring and rule in one row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stdlib_kernels.array_api.computing import Rule, compute
from stdlib_kernels.checks import Out
from stdlib_kernels.functions import repeated_function

__all__ = ["RULES", "binary", "unary"]

_TEXT = """{summary}

{{parameters}}
{operands}
{{out}}
{{returns: array}}
    Of the dtype that ``numpy.{ufunc}`` gives; `out` if it is given.
{{raises where: there is no such function of the dtypes, or the arguments do not fit.}}
{{see: numpy.{ufunc}}}

Examples
--------
>>> from stdlib_kernels import array_api as xp
>>> xp.{name}({example}).tolist()
{result}
"""
_ONE = """x : array
    Of any rank and layout."""
_TWO = """x1, x2 : array or number
    At least one is an array; they are broadcast against each other. A number of Python's takes the
    array's dtype, if that has numbers of its kind."""

#: What each function computes, by the names of the standard.
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
    """Give a function its name and its docstring, and note its rule."""
    RULES[name] = rule
    function.__name__ = function.__qualname__ = name
    ufunc = rule.ufunc.__name__
    given = {"name": name, "summary": summary, "ufunc": ufunc, "operands": operands}
    function.__doc__ = _TEXT.format(**given, example=example, result=result)
    return repeated_function(function)
