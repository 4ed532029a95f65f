"""Keep the tests of the counts of shifts, which LLVM's back end for PTX leaves out.

LLVM 22 takes ``select (icmp ult %n, 64), (shl %x, %n), 0`` for PTX's own shift, which is 0 where
the count is not less than the bits. But PTX reads 32 bits of a count. The test is of all bits:
without it, a shift by 2**32 moves nothing. LLVM keeps the test if it does not know that the other
value is 0.

References
----------
PTX ISA, "shl" and "shr". LLVM, pull requests 172431 (the rewrite) and 201165 (its correction).
"""

from __future__ import annotations

import re

__all__ = ["keep_guards"]

_FUNCTION = re.compile(r"^define .*?^}", re.MULTILINE | re.DOTALL)
_NAME = r'(%(?:"[^"]*"|[\w.$-]+))'
#: A shift by a count that is not a number: its name, its bits and its count.
_SHIFT = re.compile(
    rf"^  {_NAME} = (?:shl|lshr) (?:nuw |nsw |exact )*i(16|32|64) [^,\n]+, {_NAME}", re.MULTILINE
)
#: A count that was extended is less than the bits if its lower half is.
_EXTENDED = re.compile(
    rf"^  {_NAME} = (?:sext|zext)(?: nneg)? i(?:1|8|16|32) \S+ to i64", re.MULTILINE
)
#: What the test is of may be wider.
_TRUNCATED = re.compile(rf"^  {_NAME} = trunc (?:nuw |nsw )*i\d+ \S+ to i(?:16|32)", re.MULTILINE)
_CHOICE = re.compile(
    rf"^  {_NAME} = select i1 [^,\n]+, (i(\d+)) ({_NAME}, i\3 0|0, i\3 {_NAME})(?=[,\n])",
    re.MULTILINE,
)
_REGISTERS = {"16": "h", "32": "r", "64": "l"}


def keep_guards(text: str) -> str:
    """Return a module with zeros that LLVM does not know, so that its PTX has all tests."""
    if not _SHIFT.search(text):
        return text
    return _FUNCTION.sub(lambda function: _keep_guards(function[0]), text)


def _keep_guards(function: str) -> str:
    extended = {found[1] for found in _EXTENDED.finditer(function)}
    truncated = {found[1] for found in _TRUNCATED.finditer(function)}
    shifts = {
        found[1]
        for found in _SHIFT.finditer(function)
        if (found[3] not in extended if found[2] == "64" else found[3] in truncated)
    }

    def hide_zero(choice: re.Match[str]) -> str:
        name, kind, bits, arms, first, second = choice.groups()
        if (first or second) not in shifts:
            return choice[0]
        zero = f'%"{name[1:].strip(chr(34))}.zero"'
        shown = f'  {zero} = call {kind} asm "mov.b{bits} $0, 0;", "={_REGISTERS[bits]}"()\n'
        hidden = f"{first}, {kind} {zero}" if first else f"{zero}, {kind} {second}"
        return shown + choice[0].removesuffix(arms) + hidden

    return _CHOICE.sub(hide_zero, function) if shifts else function
