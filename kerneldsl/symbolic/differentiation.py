"""Derivatives of expressions of real numbers, in forms that can be computed.

SymPy's own rules are for formulas: the derivative of ``x**a`` is ``a*x**a/x`` there, which is NaN
at 0 and overflows early. What is written here has the derivative's value wherever it has one, and
is computed with no larger numbers than the expression itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import sympy
from sympy.codegen import cfunctions

__all__ = ["differentiated"]

#: Terms of sinc's series, which has the precision of a float64 if it is used.
_SINC_TERMS = 9


def differentiated(value: Any, symbol: Any) -> Any:
    """Return the derivative of an expression by a symbol, almost everywhere.

    Parameters
    ----------
    value : Expr or Boolean
        An expression of real numbers. The derivative of a condition is 0.
    symbol : Symbol or None
        ``None`` is in no expression.

    Examples
    --------
    >>> x, a = sympy.symbols("x a", positive=True)
    >>> differentiated(x**a, x), differentiated(abs(a - x), x)
    (a*x**(a - 1), -sign(a - x))
    """
    if not isinstance(value, sympy.Expr) or symbol not in value.free_symbols:
        return sympy.S.Zero
    if value == symbol:
        return sympy.S.One
    parts = [differentiated(each, symbol) for each in value.args]
    if value.is_Add:
        return sympy.Add(*parts)
    if value.is_Mul:
        args = value.args
        return sympy.Add(
            *(sympy.Mul(*args[:n], part, *args[n + 1 :]) for n, part in enumerate(parts) if part)
        )
    if isinstance(value, sympy.Piecewise):
        pieces = ((differentiated(each, symbol), test) for each, test in value.args)
        return sympy.Piecewise(*pieces)
    if type(value) not in _RULES and not hasattr(value, "fdiff"):
        return value.diff(symbol)
    return sympy.Add(*(_partial(value, n) * part for n, part in enumerate(parts) if part))


def _partial(value: Any, n: int) -> Any:
    """Return the derivative of a function, or a power, by one of its arguments."""
    rule = _RULES.get(type(value))
    return value.fdiff(n + 1) if rule is None else rule(*value.args)[n]


def _of_power(base: Any, exponent: Any) -> tuple[Any, Any]:
    by_base = exponent * base ** (exponent - 1)
    by_exponent = base**exponent * sympy.log(base)
    # x**0 is 1 at 0 too, and 0**a is 0 for every a > 0; the products are 0 times infinity there.
    if not base.is_zero and not base.is_nonzero:
        is_zero = sympy.Eq(base, 0)
        constant = sympy.And(is_zero, sympy.Eq(exponent, 0))
        by_base = sympy.Piecewise((0, constant), (by_base, True))
        by_exponent = sympy.Piecewise((0, sympy.And(is_zero, exponent > 0)), (by_exponent, True))
    return by_base, by_exponent


def _of_sinc(x: Any) -> tuple[Any]:
    # The difference of the two quotients has no digits left near 0.
    t = sympy.Dummy(real=True)
    terms = range(1, _SINC_TERMS + 1)
    series = sum((-1) ** k * 2 * k * t ** (2 * k - 1) / sympy.factorial(2 * k + 1) for k in terms)
    series = sympy.horner(series, t).xreplace({t: x})
    quotients = (sympy.cos(x) - sympy.sin(x) / x) / x
    return (sympy.Piecewise((series, sympy.Abs(x) < 1), (quotients, True)),)


#: Derivatives by each argument, where SymPy's are of complex numbers, of distributions, or NaN.
_RULES: Final[Mapping[Any, Callable[..., tuple[Any, ...]]]] = MappingProxyType(
    {
        sympy.Pow: _of_power,
        sympy.Abs: lambda x: (sympy.sign(x),),
        sympy.sign: lambda _: (sympy.S.Zero,),
        sympy.Heaviside: lambda *_: (sympy.S.Zero, sympy.S.Zero),
        sympy.sinc: _of_sinc,
        cfunctions.Cbrt: lambda x: (1 / (3 * cfunctions.Cbrt(x) ** 2),),
    }
)
