"""Write a SymPy expression as Python text in the language of kernels.

Numbers are written as ``dtype(0.5)``. The caller binds the name `dtype`, so results from arrays of
float32 are float32. A Python number would make them float64.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple, NoReturn

import sympy

from kerneldsl.errors import ArgumentValueError
from kerneldsl.kernels.decorators import func

__all__ = ["CALLS", "NAMES_IN_TEXT", "Printer", "is_condition", "needs_floats", "sign"]

# How tightly a text holds together: each is put into parentheses where one more is wanted.
_CHOICE, _OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(10)
#: Bits of an integer constant: as many as the integers have that a float64 reaches.
_MOST_BITS = 1024
#: Bits of an integer constant that is written as one; arrays of integers have no larger ones.
_WORD_BITS = 64
_HALF = sympy.Rational(1, 2)
#: Functions that are reciprocals, and the functions in the denominator.
_RECIPROCALS = {"sec": "cos", "csc": "sin", "cot": "tan", "sech": "cosh", "csch": "sinh"} | {
    "coth": "tanh"
}


#: Functions that are operators, or have another argument than SymPy's.
_OPERATIONS = ("sign", "Mod")


class _Text(NamedTuple):
    text: str
    level: int

    def at(self, level: int) -> str:
        return self.text if self.level >= level else f"({self.text})"


def is_condition(value: Any) -> bool:
    """Return whether a value is a condition; to SymPy a symbol may be one, and is a number here."""
    return isinstance(value, sympy.logic.boolalg.Boolean) and not value.is_Symbol


@lru_cache(256, typed=True)  # each call of a kernel asks
def needs_floats(expression: Any) -> bool:
    """Return whether the value of an expression of integers may be no integer."""
    for each in sympy.preorder_traversal(expression):
        if each.is_Function and type(each).__name__ in (*_WHOLE, "sign", "Mod", "Heaviside"):
            continue
        if isinstance(each, sympy.Function | sympy.NumberSymbol | sympy.Float):
            if not isinstance(each, sympy.Piecewise):
                return True
        elif each.is_Pow:
            if not (each.exp.is_Integer and each.exp > 0):
                return True
        elif each.is_Number and not each.is_Integer:
            return True
    return False


class Printer:
    """Writes expressions over symbols that have names in a text.

    - `names`: Symbol to its text, a name or ``u[i, j]``.
    - `integers`: those of them that are indices or extents, converted if they are numbers of a
      formula.
    - `casts`: whether numbers are converted by ``dtype(…)``.
    """

    def __init__(
        self, names: Mapping[Any, str], integers: Any = frozenset(), *, casts: bool = True
    ) -> None:
        self._names = names
        self._integers = frozenset(integers)
        self._casts = casts

    def text(self, expression: Any) -> str:
        """Return a number's text.

        - raises `ArgumentValueError` where the language has no word for a part of the expression.
        """
        return self._number(expression).text

    def condition(self, expression: Any) -> str:
        """Return a condition's text."""
        return self._condition(expression).text

    # ------------------------------------------------------------------ numbers

    def _number(self, e: Any) -> _Text:
        if e.is_Symbol:
            name = self._name(e)
            return self._cast(name) if e in self._integers else _Text(name, _ATOM)
        if is_condition(e):
            condition = self._condition(e)
            return self._cast(condition.text) if self._casts else condition
        if e.is_number and not e.args:
            return self._constant(e)
        if e.is_Add:
            return self._sum(e)
        if e.is_Mul:
            return self._product(e)
        if e.is_Pow:
            return self._power(e.base, e.exp)
        if isinstance(e, sympy.Piecewise):
            return self._choice(e)
        return self._call(e)

    def _name(self, symbol: Any) -> str:
        name = self._names.get(symbol)
        if name is None:
            raise ArgumentValueError(
                f"the symbol {symbol} is not an array, number or index of the expression",
                value=str(symbol),
                limit="Every symbol is a parameter, or an index of the arrays",
                remedy=f"Replace it by .subs({symbol}, …), or name it among the parameters",
            )
        return name

    def _cast(self, text: str) -> _Text:
        return _Text(f"dtype({text})" if self._casts else text, _ATOM)

    def _constant(self, e: Any) -> _Text:
        if e is sympy.nan:
            return self._cast("math.nan")
        if e.is_infinite and e.is_extended_real:
            found = self._cast("math.inf")
            return found if e.is_positive else _Text(f"-{found.text}", _SIGN)
        if e is sympy.zoo:
            raise ArgumentValueError(
                "the expression holds zoo, which is SymPy's quotient of a number and 0",
                value=str(e),
                limit="It has no sign, which infinities of floats have",
                remedy="Find the division by 0; or write sympy.oo, or -sympy.oo",
            )
        if not e.is_real:
            raise ArgumentValueError(
                f"the expression holds {e}, which is not a real number",
                value=str(e),
                limit="Kernels of expressions compute with real numbers",
                remedy="Give the real and the imaginary part as two expressions",
            )
        if e.is_Integer and int(e).bit_length() > _MOST_BITS:
            raise ArgumentValueError(
                f"the expression holds an integer of {int(e).bit_length()} bits",
                value=None,
                limit=f"Constants have at most {_MOST_BITS} bits, as the largest float64 has",
            )
        if e < 0:
            return _Text(f"-{self._constant(-e).text}", _SIGN)
        is_word = e.is_Integer and int(e).bit_length() <= _WORD_BITS
        return self._cast(str(int(e)) if is_word else repr(float(e)))

    def _sum(self, e: Any) -> _Text:
        text = ""
        # Terms without a sign come first, so that the text begins without one.
        for term in sorted(e.as_ordered_terms(), key=lambda t: t.could_extract_minus_sign()):
            is_less = bool(text) and term.could_extract_minus_sign()
            part = self._number(-term if is_less else term).at(_PRODUCT)
            text += f" {'-' if is_less else '+'} {part}" if text else part
        return _Text(text, _SUM)

    def _product(self, e: Any) -> _Text:
        coefficient, rest = e.as_coeff_Mul()
        above: list[Any] = []
        below: list[Any] = []
        for factor in rest.as_ordered_factors():
            is_below = factor.is_Pow and factor.exp.is_Number and factor.exp < 0
            (below if is_below else above).append(1 / factor if is_below else factor)
        if coefficient not in (1, -1) or not above:
            above.insert(0, abs(coefficient))
        text = " * ".join(self._number(each).at(_SIGN) for each in above)
        if below:
            under = [self._number(each) for each in below]
            text += " / " + (
                under[0].at(_POWER)
                if len(under) == 1
                else f"({' * '.join(each.at(_SIGN) for each in under)})"
            )
        return _Text(f"-{text}", _PRODUCT) if coefficient < 0 else _Text(text, _PRODUCT)

    def _power(self, base: Any, exponent: Any) -> _Text:
        if exponent.is_Number and exponent < 0:
            return self._product(sympy.Pow(base, exponent))
        if exponent.is_Integer:
            # A literal exponent is multiplied out when the kernel is compiled.
            return _Text(f"{self._number(base).at(_ATOM)} ** {exponent}", _POWER)
        if exponent == _HALF:
            return _Text(f"math.sqrt({self._number(base).text})", _ATOM)
        if (2 * exponent).is_Integer:
            whole = self._power(base, exponent - _HALF) if exponent > 1.5 else self._number(base)
            return _Text(f"{whole.at(_SIGN)} * {self._power(base, _HALF).text}", _PRODUCT)
        return _Text(
            f"{self._number(base).at(_ATOM)} ** {self._number(exponent).at(_SIGN)}", _POWER
        )

    def _choice(self, e: Any) -> _Text:
        *pieces, (last, condition) = e.args
        if condition != True:  # noqa: E712 -- SymPy's
            pieces, last = e.args, sympy.nan
        text = self._number(last).at(_CHOICE)
        for value, condition in reversed(pieces):
            text = (
                f"{self._number(value).at(_OR)} if {self._condition(condition).at(_OR)} else {text}"
            )
        return _Text(text, _CHOICE)

    def _call(self, e: Any) -> _Text:
        name = type(e).__name__
        if name in _RECIPROCALS:
            return self._number(1 / getattr(sympy, _RECIPROCALS[name])(*e.args))
        if name == "sinc":
            x = e.args[0]
            return self._number(sympy.Piecewise((sympy.sin(x) / x, sympy.Ne(x, 0)), (1, True)))
        if name == "exp2":
            return self._power(sympy.Integer(2), e.args[0])
        if name == "Heaviside":
            x, middle = e.args
            return self._number(sympy.Piecewise((0, x < 0), (1, x > 0), (middle, True)))
        if name == "DiracDelta":  # almost everywhere
            return self._cast("0")
        if name not in CALLS and name not in _OPERATIONS:
            self._refuse(e)
        # The arguments of Max and Min are a set; its order differs from process to process.
        is_set = name in ("Max", "Min")
        given = sorted(e.args, key=sympy.default_sort_key) if is_set else e.args
        arguments = [self._number(each) for each in given]
        if name == "sign":
            return _Text(f"sign({arguments[0].text}, {self._cast('1').text})", _ATOM)
        if name == "Mod":
            left, right = arguments
            return _Text(f"{left.at(_SIGN)} % {right.at(_SIGN)}", _PRODUCT)
        text = f"{CALLS[name]}({', '.join(each.text for each in arguments)})"
        return self._cast(text) if name in ("floor", "ceiling") else _Text(text, _ATOM)

    # ------------------------------------------------------------------ conditions

    def _condition(self, e: Any) -> _Text:
        if e.is_Symbol:
            return _Text(self._name(e), _ATOM)
        if e in (sympy.true, sympy.false):
            return _Text(str(bool(e)), _ATOM)
        if isinstance(e, sympy.Not):
            return _Text(f"not {self._condition(e.args[0]).at(_NOT)}", _NOT)
        if isinstance(e, sympy.And | sympy.Or):
            word, level = ("and", _AND) if isinstance(e, sympy.And) else ("or", _OR)
            parts = [self._condition(each) for each in sorted(e.args, key=sympy.default_sort_key)]
            return _Text(f" {word} ".join(each.at(level + 1) for each in parts), level)
        if e.is_Relational:
            is_whole = self._is_whole(e.lhs) and self._is_whole(e.rhs)
            inner = Printer(self._names, casts=False) if is_whole else self
            left, right = (inner._number(each).at(_SUM) for each in (e.lhs, e.rhs))
            return _Text(f"{left} {e.rel_op} {right}", _COMPARISON)
        if isinstance(e, sympy.ITE):
            test, chosen, other = (self._condition(each).at(_OR) for each in e.args)
            return _Text(f"{chosen} if {test} else {other}", _CHOICE)
        self._refuse(e)

    def _refuse(self, e: Any) -> NoReturn:
        """Refuse a part of an expression that is no function of the language."""
        if isinstance(e, sympy.Derivative):  # of what rounds: others are evaluated
            remedy = "Take it out of the expression, or write its derivative by hand"
        elif isinstance(e, sympy.Integral | sympy.Limit | sympy.Subs):
            remedy = "Evaluate it: .doit()"
        else:
            remedy = "Rewrite the expression by one of these, with .rewrite(…) for instance"
        text = str(e.xreplace({s: sympy.Symbol(name) for s, name in self._names.items()}))
        words = sorted({*CALLS, *_OPERATIONS, "Heaviside", "Piecewise", "sqrt"})
        raise ArgumentValueError(
            f"{text} is a {type(e).__name__}, for which kernels have no function",
            value=text,
            limit=f"Functions are {', '.join(words)}, and powers",
            remedy=remedy,
        )

    def _is_whole(self, e: Any) -> bool:
        """Return whether an expression is of indices and extents alone."""
        symbols = e.free_symbols
        return symbols <= self._integers and not needs_floats(e)


# The functions that SymPy and the language of kernels have in common, as data, without SymPy.


@func
def sign(x: Any, one: Any) -> Any:
    """Return `one` with the sign of a number; 0, -0 and NaN themselves.

    Examples
    --------
    >>> sign(-2.0, 1.0), sign(0.0, 1.0)
    (-1.0, 0.0)
    """
    if x > 0:
        return one
    if x < 0:
        return -one
    return x


#: Functions that SymPy and :mod:`math` call by the same name.
_OF_MATH = (
    *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "hypot"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp", "expm1"),
    *("log", "log1p", "log2", "log10", "erf", "erfc", "gamma"),
)
#: Functions that kernels call, by the names of SymPy's classes with the same arguments.
CALLS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{name: f"math.{name}" for name in _OF_MATH},
        "loggamma": "math.lgamma",
        "floor": "math.floor",
        "ceiling": "math.ceil",
        "Abs": "abs",
        "Max": "max",
        "Min": "min",
        "Cbrt": "kd.cbrt",
        "fma": "kd.fma",
    }
)
#: Functions with integer results for integers.
_WHOLE: Final = frozenset({"floor", "ceiling", "Abs", "Max", "Min"})
#: Names that a text may use besides those that it defines.
NAMES_IN_TEXT: Final = frozenset(
    {"abs", "dtype", "kd", "math", "max", "min", "mirror", "reflect", "sign", "wrap"}
)
