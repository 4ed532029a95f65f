"""Quotients and remainders of 64-bit integers on a GPU, which divides 32 bits at a time.

Most numbers of a kernel are indices and sizes, which are never negative. Two such numbers are
divided without signs, and without the corrections by which Python's quotients round down. Numbers
that fit 32 bits are divided by a constant in 32 bits. The kernel tests for both, unless LLVM knows
the answer, and no result depends on it. Each operation becomes a call of a function that LLVM
inlines. By 0 both results are 0. So is the quotient of the least integer by -1, as Numba has it.

References
----------
CUDA Programming Guide, section "Arithmetic Instructions": an integer division is up to 20
instructions for 32 bits, and several times as many for 64. LLVM Language Reference, instructions
"udiv", "sdiv", "urem" and "srem": none has a value for a divisor of 0.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from kerneldsl.contract import Report, ignore_remark

__all__ = ["call_division", "count_divisions", "division_definitions", "simplify_divisions"]

_BITS = 64
#: The first number that does not fit 32 bits.
_WIDE = 2**32
_SYMBOL = re.compile(r"kerneldsl\.(?P<operation>div|rem)(?P<by>_by)?\.(?P<sign>[su])64")
_CALL = re.compile(rf'call i64 @"?({_SYMBOL.pattern})"?\(')
#: Start of a definition.
_ENTRANCE = re.compile(rf"define linkonce_odr i64 @{_SYMBOL.pattern}\([^{{]*{{\n")
_FUNCTION = """
define linkonce_odr i64 @{symbol}(i64 %a, i64 %b) alwaysinline nofree norecurse \
nosync nounwind willreturn memory(none) {{
{body}}}
"""
#: Division by a variable that may fit 32 bits. LLVM replaces a division by a constant by a product
#: with twice the bits of the number.
_IF_SHORT = """\
  %is_short = icmp ult i64 %a, 4294967296
  br i1 %is_short, label %short, label %signed
short:
  %short.a = trunc i64 %a to i32
  %short.b = trunc i64 %b to i32
  %short.found = u{operation} i32 %short.a, %short.b
  %short.result = zext i32 %short.found to i64
  ret i64 %short.result
signed:
"""
_IF_UNSIGNED = """\
  %both = or i64 %a, %b
  %has_sign = icmp slt i64 %both, 0
  br i1 %has_sign, label %signed, label %unsigned
unsigned:
"""
_UNSIGNED = {
    "rem": """\
  %unsigned.safe = call i64 @llvm.umax.i64(i64 %b, i64 1)
  %unsigned.result = urem i64 %a, %unsigned.safe
  ret i64 %unsigned.result
""",
    "div": """\
  %unsigned.safe = call i64 @llvm.umax.i64(i64 %b, i64 1)
  %unsigned.quotient = udiv i64 %a, %unsigned.safe
  %unsigned.is_zero = icmp eq i64 %b, 0
  %unsigned.result = select i1 %unsigned.is_zero, i64 0, i64 %unsigned.quotient
  ret i64 %unsigned.result
""",
}
_SIGNED = """\
  %is_zero = icmp eq i64 %b, 0
  %is_least = icmp eq i64 %a, -9223372036854775808
  %is_minus_one = icmp eq i64 %b, -1
  %is_beyond = and i1 %is_least, %is_minus_one
  %has_none = or i1 %is_zero, %is_beyond
  %safe = select i1 %has_none, i64 1, i64 %b
  %rest = srem i64 %a, %safe
  %is_rest = icmp ne i64 %rest, 0
  %signs = xor i64 %rest, %safe
  %is_other = icmp slt i64 %signs, 0
  %is_down = and i1 %is_rest, %is_other
"""
_ROUNDED_DOWN = {
    "rem": """\
  %moved = add i64 %rest, %safe
  %result = select i1 %is_down, i64 %moved, i64 %rest
  ret i64 %result
""",
    "div": """\
  %quotient = sdiv i64 %a, %safe
  %moved = sub i64 %quotient, 1
  %down = select i1 %is_down, i64 %moved, i64 %quotient
  %result = select i1 %has_none, i64 0, i64 %down
  ret i64 %result
""",
}


def call_division(
    operation: str, general: Any, context: Any, builder: ir.IRBuilder, signature: Any, args: Any
) -> Any:
    """Lower a quotient (`operation` "div") or a remainder ("rem") of integers by Numba's rules.

    What 32 bits do not make faster is left to a general lowering: fewer bits, constants that are
    powers of two, negative or large.
    """
    kind = signature.return_type
    if not (isinstance(kind, types.Integer) and kind.bitwidth == _BITS):
        return general(context, builder, signature, args)
    values = [
        context.cast(builder, arg, given, kind)
        for arg, given in zip(args, signature.args, strict=True)
    ]
    divisor = values[1].constant if isinstance(values[1], ir.Constant) else None
    form = "_by" if isinstance(divisor, int) else ""
    if isinstance(divisor, int) and (not 0 < divisor < _WIDE or divisor & (divisor - 1) == 0):
        return general(context, builder, signature, args)
    symbol = f"kerneldsl.{operation}{form}.{'s' if kind.signed else 'u'}64"
    function = ir.FunctionType(values[0].type, [values[0].type] * 2)
    return builder.call(cgutils.get_or_insert_function(builder.module, function, symbol), values)


def division_definitions(symbols: Iterable[str]) -> list[str]:
    """Return the modules that define the divisions among some symbols, in their general form."""
    matches = [_SYMBOL.fullmatch(each) for each in symbols]
    return [_definition(match) for match in matches if match]


def count_divisions(modules: Iterable[str]) -> Counter[str]:
    """Return how often modules call each symbol of a division."""
    return Counter(found[1] for text in modules for found in _CALL.finditer(text))


def simplify_divisions(
    definitions: Iterable[str], calls: Mapping[str, int], report: Report = ignore_remark
) -> list[str]:
    """Return the same modules, with the cases that take fewer instructions tested first.

    `calls` are the numbers of calls of their symbols.
    """
    for symbol, count in calls.items():
        found = _SYMBOL.fullmatch(symbol)
        if found is not None and found["sign"] == "s":
            done = "in 32 bits if the dividend fits" if found["by"] else "without signs if possible"
            report("division", f"computed {done}", count)
    return [_ENTRANCE.sub(_simplified, each, count=1) for each in definitions]


def _definition(match: re.Match[str]) -> str:
    operation = match["operation"]
    is_unsigned = match["sign"] == "u"
    body = _UNSIGNED[operation] if is_unsigned else _SIGNED + _ROUNDED_DOWN[operation]
    return _FUNCTION.format(symbol=match[0], body=body)


def _simplified(entrance: re.Match[str]) -> str:
    operation = entrance["operation"]
    if entrance["sign"] == "u":
        return entrance[0]
    first = _IF_SHORT if entrance["by"] else _IF_UNSIGNED + _UNSIGNED[operation] + "signed:\n"
    return entrance[0] + first.format(operation=operation)
