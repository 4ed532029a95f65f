"""Random typed expressions without undefined behaviour, in the style of codes on arrays.

Every expression knows its dtype. Shift counts, indices and conversions of floats to integers are
kept in range by the way they are written; a divisor is never -1, and 0 only where it is guarded.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tests.fuzz.typing import DTYPES, FLOATS, INTEGERS, common_type, result_type

__all__ = ["USUAL", "ArrayName", "Expression", "Expressions", "Function"]

_T = TypeVar("_T")
#: dtypes to choose from: the usual ones more often.
USUAL = ("int64",) * 8 + ("float64", "float32") * 3 + DTYPES
_INTEGER_CONSTANTS = (0, 1, 2, 3, 3, 5, 7, 9, 17, 100, -1, -4)
#: Names of captured constants.
_CAPTURED = ("MODE", "SCALE", "OFFSET")
_FLOAT_CONSTANTS = (0.0, 0.5, 1.0, 1.25, 2.0, 3.0, -2.0, 1e-3)


@dataclass(frozen=True)
class Expression:
    """Text of an expression and its dtype; a composed one stands in parentheses."""

    text: str
    dtype: str

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer."""
        return self.dtype in INTEGERS


#: What computes from one thread's values.
INTRINSICS = (
    *("popc", "clz", "ffs", "brev", "byte_perm", "mulhi", "dot4", "fma", "selp", "bitcast"),
    *("funnelshift_l", "funnelshift_lc", "funnelshift_r", "funnelshift_rc"),
)


@dataclass(frozen=True)
class ArrayName:
    """An array that can be read anywhere: its name, dtype and sizes.

    `inside` is the subscript, if any, with which this thread may read it as it is; `is_table` says
    that every axis is longer than the largest divisor among the arguments.
    """

    name: str
    dtype: str
    sizes: tuple[str, ...]
    inside: str | None = None
    is_table: bool = False


@dataclass(frozen=True)
class Function:
    """A device function without barriers, of any numbers; it returns a number or a tuple."""

    name: str
    parameter_count: int
    dtypes: tuple[str, ...]


@dataclass
class Expressions:
    """Makes expressions over what is in scope.

    Parameters
    ----------
    rng : random.Random
        Chooses.
    values : list of Expression
        Scalars that may be read.
    arrays : list of ArrayName
        Arrays that may be read.
    functions : list of Function
        What may be called.
    """

    rng: random.Random
    values: list[Expression] = field(default_factory=list)
    arrays: list[ArrayName] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)

    def choose(self, options: Sequence[_T]) -> _T:
        """Return one of the options."""
        return self.rng.choice(options)

    def chance(self, one_in: int) -> bool:
        """Return true once in so many times."""
        return self.rng.randrange(one_in) == 0

    # -- of any type ---------------------------------------------------------------------------
    def expression(self, depth: int) -> Expression:
        """Return an expression of any dtype."""
        if depth <= 0:
            return self.leaf()
        make = self.choose(
            (
                self._leaf,
                self._arithmetic,
                self._arithmetic,
                self._arithmetic,
                self._division,
                self._division,
                self._bitwise,
                self._shift,
                self._unary,
                self._conversion,
                self._extremum,
                self._conditional,
                self._conditional,
                self._guarded_load,
                self._square_root,
                self._call,
                self._intrinsic,
            )
        )
        return make(depth)

    def of_type(self, dtype: str, depth: int) -> str:
        """Return the text of an expression, converted to `dtype` if it is of another."""
        for _ in range(4):
            found = self.expression(depth)
            if found.dtype == dtype:
                return found.text
        return self.converted(found, dtype).text

    def integer(self, depth: int) -> Expression:
        """Return an int64 expression."""
        found = self.expression(depth)
        return found if found.dtype == "int64" else self.converted(found, "int64")

    def condition(self, depth: int) -> str:
        """Return a condition, without parentheses."""
        left = self.expression(depth) if depth > 0 else self.value()
        right = self.leaf()
        op = self.choose(("<", "<=", ">", ">=", "==", "!="))
        text = f"{left.text} {op} {right.text}"
        kind = self.rng.randrange(12)
        if kind == 0:
            return f"{left.text} {self.choose(('<', '<='))} {right.text} < {self.leaf().text}"
        if kind == 1 and depth > 0:
            return f"{text} {self.choose(('and', 'or'))} {self.condition(0)}"
        if kind == 2:
            return f"not ({text})"
        return text

    def leaf(self) -> Expression:
        """Return a constant, a variable or an element."""
        kind = self.rng.randrange(16)
        if kind == 0:
            return Expression(str(self.choose(_INTEGER_CONSTANTS)), "int64")
        if kind == 1:
            dtype = self.choose(DTYPES)
            return Expression(f"np.{dtype}({self.rng.randrange(100)})", dtype)
        if kind == 2:
            return Expression(repr(self.choose(_FLOAT_CONSTANTS)), "float64")
        return self.value()

    def value(self) -> Expression:
        """Return a variable or an element."""
        if self.arrays and self.chance(4):
            return self.element(self.choose(self.arrays))
        return self.choose(self.values)

    def _leaf(self, depth: int) -> Expression:
        return self.leaf()

    # -- elements ------------------------------------------------------------------------------
    def element(self, array: ArrayName) -> Expression:
        """Return an element of an array, at an index that is in range."""
        if array.inside is not None and not self.chance(3):
            return Expression(f"{array.name}[{array.inside}]", array.dtype)
        indices = [self.index(size) for size in array.sizes]
        if self.chance(12):
            return Expression(self._hinted(array.name, indices), array.dtype)
        if len(indices) > 1 and self.chance(4):
            return Expression(f"{array.name}[{']['.join(indices)}]", array.dtype)
        return Expression(f"{array.name}[{', '.join(indices)}]", array.dtype)

    def _hinted(self, name: str, indices: list[str]) -> str:
        """Return a load that says how caches should treat what is read."""
        hint = self.choose(("all", "global", "streaming", "last_use"))
        place = indices[0] if len(indices) == 1 else f"({', '.join(indices)})"
        return f"kd.load({name}, {place}, {self.choose(('', 'cache='))}{hint!r})"

    def index(self, size: str) -> str:
        """Return an index in range for an axis of a size."""
        names = [v.text for v in self.values if v.dtype == "int64"] or ["1"]
        form = self.rng.randrange(9)
        if form == 0:
            return self.choose(("0", "-1"))
        if form < 5:
            value = (
                f"({self.choose(names)} {self.choose(('+', '-', '*'))} {self.choose((1, 2, 3))})"
            )
            value = self.choose((value, self.choose(names)))
        else:
            value = self.integer(1).text
        return self.choose(
            (
                f"{value} % {size}",
                f"{value} % {size}",
                f"min(max({value}, 0), {size} - 1)",
                f"{value} % {size} - {size}",
                f"-1 - {value} % {size}",
                f"abs({value}) % {size}",
            )
        )

    def _guarded_load(self, depth: int) -> Expression:
        """An element where the index is in range, else something else, perhaps of another type."""
        if not self.arrays:
            return self._arithmetic(depth)
        array = self.choose(self.arrays)
        names = [v.text for v in self.values if v.dtype == "int64"]
        index = self.choose(names)
        indices = [self.index(size) for size in array.sizes[:-1]] + [index]
        if array.inside is not None and self.chance(2):
            size, indices = "", [array.inside]
            test = f"{self.leaf().text} {self.choose('<>')} {self.leaf().text}"
        else:
            size = array.sizes[-1]
            shift = self.choose(("", " - 1", " + 1"))
            indices[-1] = index + shift
            test = f"0 <= {index}{shift} < {size}"
            if not shift and self.chance(2) and index in ("i", "t"):
                test = f"{index} < {size}"
        other = self.choose((Expression("0.0", "float64"), Expression("0", "int64"), self.leaf()))
        if (array.dtype in FLOATS) != (other.dtype in FLOATS) and array.dtype not in FLOATS:
            other = Expression("0", "int64")
        dtype = common_type(array.dtype, other.dtype)
        load = f"{array.name}[{', '.join(indices)}]"
        return Expression(f"({load} if {test} else {other.text})", dtype)

    # -- operations ----------------------------------------------------------------------------
    def _arithmetic(self, depth: int) -> Expression:
        left, right = self.expression(depth - 1), self.expression(depth - 1)
        op = self.choose("+-*")
        return Expression(
            f"({left.text} {op} {right.text})", result_type(op, left.dtype, right.dtype)
        )

    def _division(self, depth: int) -> Expression:
        op = self.choose(("/", "//", "//", "%", "%"))
        if op == "/":
            left, right = self.expression(depth - 1), self.leaf()
            text = f"({left.text} / {right.text})"
            return Expression(text, result_type("/", left.dtype, right.dtype))
        left = self.integer(depth - 1)
        right = self.choose(("3", "7", "2", "16", "-3", self._divisor()))
        return Expression(f"({left.text} {op} {right})", "int64")

    def _divisor(self) -> str:
        """From 1 to 8: never 0, and never -1, by which the smallest integer cannot be divided."""
        return f"(({self.converted(self.leaf(), 'int64').text} & 7) + 1)"

    def _bitwise(self, depth: int) -> Expression:
        left, right = self.integer(depth - 1), self.converted(self.leaf(), "int64")
        return Expression(f"({left.text} {self.choose('&|^')} {right.text})", "int64")

    def _shift(self, depth: int) -> Expression:
        left = self.integer(depth - 1)
        count = self.choose(("1", "3", f"({self.converted(self.leaf(), 'int64').text} & 15)"))
        return Expression(f"({left.text} {self.choose(('<<', '>>', '>>'))} {count})", "int64")

    def _unary(self, depth: int) -> Expression:
        value = self.expression(depth - 1)
        if value.is_integer and self.chance(2):
            return Expression(f"(~{value.text})", result_type("invert", value.dtype))
        if self.chance(2):
            return Expression(f"abs({value.text})", result_type("abs", value.dtype))
        return Expression(f"(-{value.text})", result_type("neg", value.dtype))

    def dtype(self) -> str:
        """Return a dtype, the usual ones more often."""
        return self.choose(USUAL)

    def _conversion(self, depth: int) -> Expression:
        value = self.expression(depth - 1)
        if value.is_integer and self.chance(3):
            name = self.choose(("int", "float"))
            return Expression(f"{name}({value.text})", result_type(name, value.dtype))
        if self.chance(4):
            return Expression(f"int({self.condition(0)})", "int64")
        return self.converted(value, self.dtype())

    def converted(self, value: Expression, dtype: str) -> Expression:
        """Return a value converted to a dtype; a float beyond the integers' range becomes 3.

        A float that is not a variable cannot be tested for its range: an integer takes its place.
        """
        if value.dtype == dtype:
            return value
        if value.dtype in FLOATS and dtype in INTEGERS:
            name = value.text
            if not name.isidentifier():
                integers = [v for v in self.values if v.is_integer]
                if integers:
                    return self.converted(self.choose(integers), dtype)
                return self.converted(Expression(f"int({name} > 0.5)", "int64"), dtype)
            low = "0.0" if dtype.startswith("u") else "-100.0"
            test = f"{name} >= {low} and {name} < 100.0"
            return Expression(f"(np.{dtype}({name}) if {test} else np.{dtype}(3))", dtype)
        return Expression(f"np.{dtype}({value.text})", dtype)

    def _extremum(self, depth: int) -> Expression:
        dtype = self.choose(INTEGERS)
        left, right = self.of_type(dtype, depth - 1), self.of_type(dtype, 0)
        return Expression(f"{self.choose(('min', 'max'))}({left}, {right})", dtype)

    def _conditional(self, depth: int) -> Expression:
        yes, no = self.expression(depth - 1), self.leaf()
        if self.calls(yes):
            yes = self.leaf()
        dtype = common_type(yes.dtype, no.dtype)
        test = self.condition(0)
        if any(name in test for name in _CAPTURED):
            # Numba drops a branch that a constant condition rules out, and its type.
            yes, no = self.converted(yes, dtype), self.converted(no, dtype)
        return Expression(f"({yes.text} if {test} else {no.text})", dtype)

    def _square_root(self, depth: int) -> Expression:
        dtype = self.choose(FLOATS)
        value = self.of_type(dtype, depth - 1)
        return Expression(f"math.sqrt(abs({value}))", dtype)

    def _call(self, depth: int) -> Expression:
        numbers = [f for f in self.functions if len(f.dtypes) == 1]
        if not numbers:
            return self._arithmetic(depth)
        function = self.choose(numbers)
        return Expression(self.call(function), function.dtypes[0])

    def _intrinsic(self, depth: int) -> Expression:
        """What an intrinsic computes from this thread's values."""
        name = self.choose(INTRINSICS)
        dtype = self.choose(INTEGERS)
        wide = self.choose(("int32", "uint32", "int64", "uint64"))
        word = self.choose(("int32", "uint32"))
        real = self.choose(FLOATS)
        given, found = {
            "popc": ((dtype,), dtype),
            "clz": ((dtype,), dtype),
            "ffs": ((dtype,), "uint32"),
            "brev": ((dtype,), "uint64" if dtype.endswith("64") else "uint32"),
            "byte_perm": ((dtype, word, "uint32"), "uint32"),
            "mulhi": ((wide, wide), wide),
            "dot4": ((word, word, dtype), word),
            "fma": ((real, real, real), real),
        }.get(name, ((wide, wide, dtype), wide))
        args = [self.of_type(each, depth - 1 if k == 0 else 0) for k, each in enumerate(given)]
        if name == "selp":
            args = [self.condition(0), self.of_type(real, depth - 1), self.of_type(real, 0)]
            found = real
        if name == "bitcast":
            found = ("u" if wide[0] != "u" else "") + wide.removeprefix("u")
            args[1:] = [f"np.{found}"]
        return Expression(f"kd.{name}({', '.join(args)})", found)

    def calls(self, value: Expression) -> bool:
        """Whether an expression calls a device function or an intrinsic of values.

        The oracle cannot tell the type of such a call where it is not evaluated: in the branch
        that a conditional expression does not take.
        """
        names = (*(f.name for f in self.functions), *(f"kd.{name}" for name in INTRINSICS))
        return any(f"{name}(" in value.text for name in names)

    def call(self, function: Function) -> str:
        """Return a call with random arguments."""
        args = [self.leaf().text for _ in range(function.parameter_count)]
        return f"{function.name}({', '.join(args)})"
