"""Write the body of a mathematical function as LLVM's intermediate representation.

A function of :mod:`targets.cpu.math.vector` is Python that computes with a :class:`Value` as with a
number; what it does is recorded, instruction by instruction. No instruction carries a fast-math
flag, and there are no branches: choices are selects. So LLVM's loop vectorizer takes it at any
width. An element has the same bits in a vector, in the rest of a loop, and by itself.
"""

from __future__ import annotations

import math
import operator
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TypeAlias

from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "TABLE_PREFIX",
    "Code",
    "Value",
    "absolute",
    "bits",
    "copy_sign",
    "fast_two_sum",
    "floating",
    "fma",
    "high_part",
    "is_whole",
    "low_half",
    "maximum",
    "minimum",
    "polynomial",
    "power_of_two",
    "rounded",
    "scaled",
    "select",
    "split",
    "square_root",
    "table_row",
    "to_double",
    "to_single",
    "two_product",
    "two_sum",
    "whole",
]

#: Prefix of the names of constant tables.
TABLE_PREFIX = "kerneldsl.table."

_INTEGERS = {"float": "i32", "double": "i64"}
_FLOATS = {"i32": "float", "i64": "double"}
_SUFFIXES = {"float": "f32", "double": "f64"}


@dataclass
class Code:
    """Instructions of one function, in the order in which they run."""

    #: Whether the processor multiplies and adds with one rounding; else :func:`fma` rounds twice.
    has_fma: bool
    lines: list[str] = field(default_factory=list)
    #: Declarations of LLVM's intrinsics that are called.
    declared: set[str] = field(default_factory=set)
    #: Definitions of constant tables, by name.
    tables: dict[str, str] = field(default_factory=dict)

    def append(self, kind: str, instruction: str) -> Value:
        """Record an instruction that gives a value of a type of LLVM's."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {instruction}")
        return Value(self, kind, name)

    def call(self, name: str, *arguments: Value) -> Value:
        """Record a call of an intrinsic of LLVM's with arguments of the type of its result."""
        kind = arguments[0].kind
        function = f"@llvm.{name}.{_SUFFIXES[kind]}"
        self.declared.add(f"declare {kind} {function}({', '.join([kind] * len(arguments))})")
        passed = ", ".join(f"{kind} {each.name}" for each in arguments)
        return self.append(kind, f"call {kind} {function}({passed})")


def _instruction(
    of_floats: str, of_others: str, *, gives: str | None = None
) -> Callable[[Value, Number], Value]:
    """Return the operator that records an instruction: LLVM's for floats, and for other types.

    It `gives` a value of the operands' type, if no other one is named.
    """

    def operate(value: Value, other: Number) -> Value:
        if isinstance(other, Value):
            assert other.kind == value.kind, (other.kind, value.kind)
        operand = other.name if isinstance(other, Value) else _text(value.kind, other)
        name = of_floats if value.kind in _INTEGERS else of_others
        return value.code.append(
            gives or value.kind, f"{name} {value.kind} {value.name}, {operand}"
        )

    return operate


def _reflected(operate: Callable[[Value, Value], Value]) -> Callable[[Value, float], Value]:
    """Return an operator with a number on its left."""
    return lambda value, number: operate(value.constant(number), value)


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """A value of a function that is written: a float, a double, an integer of their size, a truth.

    Operators are those of numbers; ``>>`` keeps an integer's sign. A Python number stands for a
    constant of the same type, and must be one of its numbers.
    """

    code: Code
    #: LLVM's name of the type.
    kind: str
    #: Name in LLVM IR.
    name: str

    @property
    def is_single(self) -> bool:
        """Return whether this is a float32."""
        return self.kind == "float"

    def constant(self, value: float) -> Value:
        """Return a constant of the same type."""
        return Value(self.code, self.kind, _text(self.kind, value))

    def is_nan(self) -> Value:
        """Return whether this is not a number."""
        return self.code.append("i1", f"fcmp uno {self.kind} {self.name}, {self.name}")

    __add__ = _instruction("fadd", "add")
    __sub__ = _instruction("fsub", "sub")
    __mul__ = _instruction("fmul", "mul")
    __truediv__ = _instruction("fdiv", "")
    __radd__ = _reflected(operator.add)
    __rsub__ = _reflected(operator.sub)
    __rmul__ = _reflected(operator.mul)
    __rtruediv__ = _reflected(operator.truediv)
    __and__ = _instruction("", "and")
    __or__ = _instruction("", "or")
    __xor__ = _instruction("", "xor")
    __lshift__ = _instruction("", "shl")
    __rshift__ = _instruction("", "ashr")
    __lt__ = _instruction("fcmp olt", "icmp slt", gives="i1")
    __le__ = _instruction("fcmp ole", "icmp sle", gives="i1")
    __gt__ = _instruction("fcmp ogt", "icmp sgt", gives="i1")
    __ge__ = _instruction("fcmp oge", "icmp sge", gives="i1")
    #: Compares values as numbers: a NaN is not equal to itself.
    equals = _instruction("fcmp oeq", "icmp eq", gives="i1")

    def __neg__(self) -> Value:
        return self.code.append(self.kind, f"fneg {self.kind} {self.name}")

    def __invert__(self) -> Value:
        return self ^ -1


#: Operand of an expression.
Number: TypeAlias = Value | float


def _text(kind: str, value: float) -> str:
    """Write a constant of a type.

    Raises `ValueError` where a number is not a float32.
    """
    if kind == "i1":
        return "true" if value else "false"
    if kind not in _INTEGERS:
        assert isinstance(value, int)
        return str(value)
    is_exact = kind == "double" or struct.unpack("f", struct.pack("f", value))[0] == value
    if not is_exact and not math.isnan(value):
        raise ValueError(f"{value.hex()} is no float32")
    return f"0x{struct.unpack('Q', struct.pack('d', value))[0]:016X}"


def fma(a: Value, b: Number, c: Number) -> Value:
    """Return a * b + c, rounded once where the processor can."""
    factor = b if isinstance(b, Value) else a.constant(b)
    term = c if isinstance(c, Value) else a.constant(c)
    if a.code.has_fma:
        return a.code.call("fma", a, factor, term)
    return a * factor + term


def select(condition: Value, a: Number, b: Number) -> Value:
    """Return a where a condition holds, else b."""
    like = a if isinstance(a, Value) else b
    assert isinstance(like, Value)
    first = a if isinstance(a, Value) else like.constant(a)
    second = b if isinstance(b, Value) else like.constant(b)
    assert first.kind == second.kind
    text = f"select i1 {condition.name}, {first.kind} {first.name}, {first.kind} {second.name}"
    return like.code.append(like.kind, text)


def bits(x: Value) -> Value:
    """Return the bits of a floating-point number as an integer."""
    kind = _INTEGERS[x.kind]
    return x.code.append(kind, f"bitcast {x.kind} {x.name} to {kind}")


def floating(x: Value) -> Value:
    """Return the floating-point number of some bits."""
    kind = _FLOATS[x.kind]
    return x.code.append(kind, f"bitcast {x.kind} {x.name} to {kind}")


def absolute(x: Value) -> Value:
    """Return the magnitude."""
    return x.code.call("fabs", x)


def copy_sign(x: Value, sign: Value) -> Value:
    """Return the magnitude of x with the sign of another number."""
    return x.code.call("copysign", x, sign)


def square_root(x: Value) -> Value:
    """Return the square root, correctly rounded."""
    return x.code.call("sqrt", x)


def minimum(x: Value, limit: float) -> Value:
    """Return the smaller of two numbers; of NaN, NaN."""
    return select(x > limit, limit, x)


def maximum(x: Value, limit: float) -> Value:
    """Return the larger of two numbers; of NaN, NaN."""
    return select(x < limit, limit, x)


def to_double(x: Value) -> Value:
    """Return a float32 as a float64."""
    return x.code.append("double", f"fpext float {x.name} to double")


def to_single(x: Value) -> Value:
    """Return a float64 rounded to a float32."""
    return x.code.append("float", f"fptrunc double {x.name} to float")


def low_half(x: Value) -> Value:
    """Return the lower half of an integer of 64 bits."""
    return x.code.append("i32", f"trunc i64 {x.name} to i32")


def table_row(index: Value, name: str, rows: Sequence[Sequence[float]]) -> tuple[Value, ...]:
    """Return a row of a constant table of float64 by its number, which is not negative."""
    code, columns, name = index.code, len(rows[0]), TABLE_PREFIX + name
    if name not in code.tables:
        size = columns * len(rows)
        words = struct.pack(f"<{size}d", *(each for row in rows for each in row))
        if sys.byteorder == "big":
            raise NotImplementedError("tables are written for little-endian machines")
        text = "".join(f"\\{byte:02X}" for byte in words)
        code.tables[name] = (
            f'@"{name}" = linkonce_odr unnamed_addr constant [{8 * size} x i8] c"{text}", align 64'
        )
    if index.kind == "i32":
        index = code.append("i64", f"zext i32 {index.name} to i64")
    first = code.append("i64", f"mul nuw nsw i64 {index.name}, {columns}")
    places = [first, *(code.append("i64", f"add i64 {first.name}, {i}") for i in range(1, columns))]
    return tuple(
        code.append("double", f"load double, ptr {pointer.name}, align 8")
        for pointer in [
            code.append("ptr", f'getelementptr inbounds double, ptr @"{name}", i64 {place.name}')
            for place in places
        ]
    )


def polynomial(x: Value, *coefficients: float) -> Value:
    """Return c[0] + c[1] * x + c[2] * x**2 + …, by Horner's scheme."""
    result: Number = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        if isinstance(result, Value):
            result = fma(result, x, coefficient)
        else:
            result = fma(x, result, coefficient)
    assert isinstance(result, Value)
    return result


# -- parts of floating-point numbers ---------------------------------------------------------------


def rounded(x: Value) -> tuple[Value, Value]:
    """Return the whole number that is nearest to a small one, as a float and as an integer.

    Added to 1.5 * 2**23 (2**52 of a float64) it is in the last places of the sum.
    """
    magic = _magic(x)
    shifted = x + magic
    return shifted - magic, bits(shifted) - _pattern(x, magic)


def whole(n: Value, like: Value) -> Value:
    """Return a small integer as a float of the type of another one."""
    magic = _magic(like)
    return floating(n + _pattern(like, magic)) - magic


def power_of_two(n: Value, like: Value) -> Value:
    """Return 2**n for an exponent n that a normal number has, as a float of the type of another."""
    return floating((n + _bias(like)) << _places(like))


def scaled(x: Value, n: Value) -> Value:
    """Return x * 2**n, rounded once, for n of up to twice the range of exponents."""
    half = n >> 1
    return x * power_of_two(half, x) * power_of_two(n - half, x)


def split(x: Value, lowest: float) -> tuple[Value, Value]:
    """Return a number from `lowest` to 2 * `lowest`, and n: their product with 2**n is x > 0.

    Of what is not positive and finite, numbers without a meaning.
    """
    places = _places(x)
    least = 2.0 ** (1 - _bias(x))
    is_subnormal = x < least
    normal = select(is_subnormal, x * 2.0**places, x)
    pattern = bits(normal)
    n = (pattern - _pattern(x, lowest)) >> places
    mantissa = floating(pattern - (n << places))
    return mantissa, n + select(is_subnormal, n.constant(-places), n.constant(0))


def high_part(x: Value) -> Value:
    """Return a number of half as many places; products of such numbers are exact."""
    return floating(bits(x) & (-(1 << 12) if x.is_single else -(1 << 27)))


def is_whole(magnitude: Value) -> Value:
    """Return whether a number that is not negative has no fraction; infinity has none."""
    unit = 2.0 ** _places(magnitude)
    return (magnitude >= unit) | ((magnitude + unit) - unit).equals(magnitude)


def fast_two_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """Return a + b and what rounding took from it, where a is 0 or not smaller than b."""
    total = a + b
    return total, b - (total - a)


def two_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """Return a + b and what rounding took from it."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: Value, b: Value) -> tuple[Value, Value]:
    """Return a * b and what rounding took from it, of float64 with a product below 2**900."""
    product = a * b
    if a.code.has_fma:
        return product, fma(a, b, -product)
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    rest = ((a_high * b_high - product) + a_high * b_low) + a_low * b_high
    return product, rest + a_low * b_low


def _halves(x: Value) -> tuple[Value, Value]:
    """Return a float64 as a sum of two numbers of 26 places."""
    multiple = x * (2.0**27 + 1.0)
    high = multiple - (multiple - x)
    return high, x - high


def _places(x: Value) -> int:
    return 23 if x.is_single else 52


def _bias(x: Value) -> int:
    return 127 if x.is_single else 1023


def _magic(x: Value) -> float:
    return 1.5 * 2.0 ** _places(x)


def _pattern(x: Value, value: float) -> int:
    """Return the bits of a number of the type of another one."""
    code, of = ("i", "f") if x.is_single else ("q", "d")
    found: int = struct.unpack(code, struct.pack(of, value))[0]
    return found
