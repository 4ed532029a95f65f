"""Shifts, which have a value for every count.

LLVM's own instructions give no value (poison) if the count is negative or not less than the
integer's bits. In NumPy and PTX every bit is then moved out. The result is 0, or -1 for a shift of
a negative number to the right. So each shift of a kernel is a call of a function with that result.
LLVM removes the call if it knows the count, and most of it if the machine has such an instruction.
A target that lowers Numba's operations itself calls it there (:func:`call_shift`), any other target
in the text of modules (:func:`define_shifts`).

References
----------
LLVM Language Reference, instructions "shl", "lshr" and "ashr". PTX ISA, instructions "shl" and
"shr": counts above the register's width are clamped to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from llvmlite import ir
from numba.core import cgutils

__all__ = ["call_shift", "define_shifts", "shift_definitions"]

_SHIFT = re.compile(
    r"= (?P<operation>shl|lshr|ashr) i(?P<bits>8|16|32|64) (?P<value>\S+), "
    r'(?P<count>%"[^"]*"|[^,\s]+)(?=,|$)',
    re.MULTILINE,
)
_SYMBOL = re.compile(r"kerneldsl\.(shl|lshr|ashr)\.i(8|16|32|64)")
_BEGINNING = """
define linkonce_odr {kind} @{symbol}({kind} %value, {kind} %count) alwaysinline nofree norecurse \
nosync nounwind willreturn memory(none) {{
  %is_less = icmp ult {kind} %count, {bits}
"""
_SHIFTED = """\
  %shifted = {operation} {kind} %value, %count
  %result = select i1 %is_less, {kind} %shifted, {kind} 0
  ret {kind} %result
}}
"""
#: The sign is in every bit from the last one on.
_SHIFTED_WITH_SIGN = """\
  %limited = select i1 %is_less, {kind} %count, {kind} {last}
  %result = {operation} {kind} %value, %limited
  ret {kind} %result
}}
"""


def define_shifts(text: str) -> str:
    """Return a module's text with calls in place of shifts, and what is called.

    A constant count that is less than the integer's bits needs no call.

    Examples
    --------
    >>> define_shifts("%a = shl i64 %b, 3")
    '%a = shl i64 %b, 3'
    >>> define_shifts("%a = shl i64 %b, %c").splitlines()[0]
    '%a = call i64 @kerneldsl.shl.i64(i64 %b, i64 %c)'
    """
    found: set[tuple[str, int]] = set()

    def call(match: re.Match[str]) -> str:
        operation, kind, value, count = match.group("operation", "bits", "value", "count")
        bits = int(kind)
        if count.isdigit() and int(count) < bits:
            return match[0]
        found.add((operation, bits))
        return f"= call i{bits} @{_symbol(operation, bits)}(i{bits} {value}, i{bits} {count})"

    replaced = _SHIFT.sub(call, text)
    return replaced + "".join(_definition(*each) for each in sorted(found))


def call_shift(
    is_left: bool, context: Any, builder: ir.IRBuilder, signature: Any, args: Any
) -> ir.Value:
    """Lower Numba's shift of an integer by another one: as a call, unless the count is known."""
    kind = signature.return_type
    value, count = (
        context.cast(builder, arg, given, kind)
        for arg, given in zip(args, signature.args, strict=True)
    )
    operation = "shl" if is_left else "ashr" if kind.signed else "lshr"
    if isinstance(count, ir.Constant) and 0 <= count.constant < kind.bitwidth:
        shift: ir.Value = getattr(builder, operation)(value, count)
        return shift
    function = ir.FunctionType(value.type, [value.type] * 2)
    name = _symbol(operation, kind.bitwidth)
    return builder.call(
        cgutils.get_or_insert_function(builder.module, function, name), [value, count]
    )


def shift_definitions(symbols: Iterable[str]) -> list[str]:
    """Return the modules that define what is called of those symbols."""
    matches = (_SYMBOL.fullmatch(each) for each in symbols)
    return [_definition(match[1], int(match[2])) for match in matches if match]


def _symbol(operation: str, bits: int) -> str:
    return f"kerneldsl.{operation}.i{bits}"


def _definition(operation: str, bits: int) -> str:
    end = _SHIFTED_WITH_SIGN if operation == "ashr" else _SHIFTED
    return (_BEGINNING + end).format(
        operation=operation,
        symbol=_symbol(operation, bits),
        kind=f"i{bits}",
        bits=bits,
        last=bits - 1,
    )
