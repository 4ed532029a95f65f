"""Shifts, which have a value for every count.

LLVM's own instructions give no value (poison) where the count is negative or not less than the
integer's bits. NumPy, and PTX, then move every bit out: what is left is 0, or of a shift to the
right of a negative number -1. Each shift of a kernel's becomes a call of a function that says so;
LLVM leaves nothing of it where it knows the count, and little where the machine has such an
instruction. A target whose Numba's lowering is its own calls it there (:func:`call_shift`), any
other in the text of modules (:func:`define_shifts`).

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
_SYMBOL = re.compile(r"kerneldsl\.(shl|lshr|ashr)\.i(8|16|32|64)(\.extended)?")
#: Ends the symbols of shifts by counts that were extended to 64 bits.
_EXTENDED = ".extended"
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
#: Of 64 bits on a GPU. PTX reads 32 bits of a count, and LLVM's NVPTX takes the test above for what
#: the instruction does, so that a count of 2**32 would shift by nothing. A count that was
#: extended from fewer bits is less than 64 if its lower half is.
_SHIFTED_WIDE = """\
  %limited = select i1 %is_less, {kind} %count, {kind} {last}
  %kept = select i1 %is_less, {kind} %value, {kind} 0
  %result = {operation} {kind} %kept, %limited
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

    A count that stands there as a number of the integer's bits needs no call.

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
    if kind.bitwidth == 64 and isinstance(count, ir.CastInstr) and count.opname in ("sext", "zext"):
        name += _EXTENDED
    return builder.call(
        cgutils.get_or_insert_function(builder.module, function, name), [value, count]
    )


def shift_definitions(symbols: Iterable[str]) -> list[str]:
    """Return the modules that define what is called of those symbols, for NVPTX."""
    matches = [_SYMBOL.fullmatch(each) for each in symbols]
    return [
        _definition(match[1], int(match[2]), match[3] or "", is_ptx=True)
        for match in matches
        if match
    ]


def _symbol(operation: str, bits: int) -> str:
    return f"kerneldsl.{operation}.i{bits}"


def _definition(operation: str, bits: int, suffix: str = "", *, is_ptx: bool = False) -> str:
    end = _SHIFTED_WIDE if is_ptx and bits == 64 and not suffix else _SHIFTED
    return (_BEGINNING + (_SHIFTED_WITH_SIGN if operation == "ashr" else end)).format(
        operation=operation,
        symbol=_symbol(operation, bits) + suffix,
        kind=f"i{bits}",
        bits=bits,
        last=bits - 1,
    )
