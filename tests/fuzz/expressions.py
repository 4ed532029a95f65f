"""Random typed expressions without undefined behaviour.

Every expression knows its dtype. Shift counts, divisors and float-to-integer conversions are kept
in range by the way they are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import strategies as st

from tests.fuzz.typing import DTYPES, FLOATS, INTEGERS, result_type

__all__ = ["Expression", "ExpressionBuilder", "Function"]

_T = TypeVar("_T")


@dataclass(frozen=True)
class Expression:
    """Text of an expression and its dtype."""

    text: str
    dtype: str

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer."""
        return self.dtype in INTEGERS


@dataclass(frozen=True)
class Function:
    """A device function without barriers: any arguments, one dtype of result."""

    name: str
    parameter_count: int
    dtype: str


@dataclass
class ExpressionBuilder:
    """Draws expressions over the variables in scope.

    Parameters
    ----------
    draw : callable
        Hypothesis's.
    variables : list of Expression
        What may be read.
    functions : list of Function
        What may be called.
    """

    draw: Any
    variables: list[Expression] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)

    def choose(self, options: Sequence[_T]) -> _T:
        """Draw one of the options."""
        return self.draw(st.sampled_from(options))  # type: ignore[no-any-return]

    def chance(self, one_in: int) -> bool:
        """Draw true once in so many times."""
        return self.draw(st.integers(0, one_in - 1)) == 0  # type: ignore[no-any-return]

    def expression(self, depth: int) -> Expression:
        """Draw an expression of any dtype."""
        if depth == 0:
            return self._leaf()
        make = self.choose(
            (
                self._leaf,
                self._arithmetic,
                self._arithmetic,
                self._arithmetic,
                self._division,
                self._bitwise,
                self._shift,
                self._unary,
                self._conversion,
                self._extremum,
                self._ternary,
                self._square_root,
                self._call,
            )
        )
        return make(depth) if make != self._leaf else self._leaf()

    def of_type(self, dtype: str, depth: int) -> str:
        """Draw an expression and convert it to `dtype`."""
        return self._convert(self.expression(depth), dtype)

    def integer(self, depth: int) -> Expression:
        """Draw an integer expression."""
        found = self.expression(depth)
        if found.is_integer:
            return found
        return self._converted(found, self.choose(INTEGERS))

    def condition(self, depth: int) -> str:
        """Draw a boolean."""
        left, right = self.expression(depth), self.expression(depth)
        text = f"{left.text} {self.choose(('<', '<=', '>', '>=', '==', '!='))} {right.text}"
        if depth > 0 and self.chance(4):
            return f"({text} {self.choose(('and', 'or'))} {self.condition(depth - 1)})"
        return f"not {text}" if self.chance(8) else text

    def _leaf(self) -> Expression:
        kind = self.draw(st.integers(0, 9))
        if kind == 0:
            value = self.draw(st.integers(0, 9))
            return Expression(str(value), "int64")
        if kind == 1:
            dtype = self.choose(DTYPES)
            value = self.draw(st.integers(0, 99))
            return Expression(f"np.{dtype}({value})", dtype)
        if kind == 2:
            value = self.choose((0.5, 1.25, 3.0, 1e-3))
            return Expression(repr(value), "float64")
        return self.choose(self.variables)

    def _arithmetic(self, depth: int) -> Expression:
        left, right = self.expression(depth - 1), self.expression(depth - 1)
        op = self.choose("+-*")
        text = f"({left.text} {op} {right.text})"
        return Expression(text, result_type(op, left.dtype, right.dtype))

    def _division(self, depth: int) -> Expression:
        op = self.choose(("/", "/", "//", "%"))
        if op == "/":
            left, right = self.expression(depth - 1), self.expression(depth - 1)
            text = f"({left.text} / {right.text})"
            return Expression(text, result_type("/", left.dtype, right.dtype))
        left = self.integer(depth - 1)
        right = self.integer(0)
        # 1 to 8: neither 0 nor -1.
        masked = result_type("&", right.dtype, "int64")
        divisor = Expression(f"(({right.text} & 7) + 1)", result_type("+", masked, "int64"))
        text = f"({left.text} {op} {divisor.text})"
        return Expression(text, result_type(op, left.dtype, divisor.dtype))

    def _bitwise(self, depth: int) -> Expression:
        left, right = self.integer(depth - 1), self.integer(depth - 1)
        op = self.choose("&|^")
        text = f"({left.text} {op} {right.text})"
        return Expression(text, result_type(op, left.dtype, right.dtype))

    def _shift(self, depth: int) -> Expression:
        left, right = self.integer(depth - 1), self.integer(0)
        op = self.choose(("<<", ">>"))
        count = result_type("&", right.dtype, "int64")
        text = f"({left.text} {op} ({right.text} & 15))"
        return Expression(text, result_type(op, left.dtype, count))

    def _unary(self, depth: int) -> Expression:
        value = self.expression(depth - 1)
        if value.is_integer and self.chance(2):
            return Expression(f"(~{value.text})", result_type("invert", value.dtype))
        return Expression(f"(-{value.text})", result_type("neg", value.dtype))

    def _conversion(self, depth: int) -> Expression:
        return self._converted(self.expression(depth - 1), self.choose(DTYPES))

    def _converted(self, value: Expression, dtype: str) -> Expression:
        return Expression(self._convert(value, dtype), dtype)

    def _convert(self, value: Expression, dtype: str) -> str:
        if value.dtype in FLOATS and dtype in INTEGERS:
            # A float beyond the integer's range has no defined conversion: choose another value.
            low = "0.0" if dtype.startswith("u") else "-1000.0"
            if not value.text.isidentifier():
                value = self.choose([v for v in self.variables if v.dtype in FLOATS] or [value])
            if not value.text.isidentifier():
                return f"np.{dtype}({self.draw(st.integers(0, 99))})"
            name = value.text
            guard = f"{name} >= {low} and {name} < 1000.0"
            return f"(np.{dtype}({name}) if {guard} else np.{dtype}(3))"
        return f"np.{dtype}({value.text})"

    def _extremum(self, depth: int) -> Expression:
        dtype = self.choose(INTEGERS)
        left, right = self.of_type(dtype, depth - 1), self.of_type(dtype, 0)
        op = self.choose(("min", "max"))
        return Expression(f"{op}({left}, {right})", result_type(op, dtype, dtype))

    def _ternary(self, depth: int) -> Expression:
        dtype = self.choose(DTYPES)
        yes, no = self.of_type(dtype, depth - 1), self.of_type(dtype, 0)
        return Expression(f"({yes} if {self.condition(0)} else {no})", dtype)

    def _square_root(self, depth: int) -> Expression:
        dtype = self.choose(FLOATS)
        return Expression(f"np.sqrt({self.of_type(dtype, depth - 1)})", dtype)

    def _call(self, depth: int) -> Expression:
        if not self.functions:
            return self._leaf()
        function = self.choose(self.functions)
        args = [self.expression(0) for _ in range(function.parameter_count)]
        text = f"{function.name}({', '.join(a.text for a in args)})"
        return Expression(text, function.dtype)
