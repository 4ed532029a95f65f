"""Compute the two halves of a word together, in the LLVM IR of a kernel.

Tensor cores multiply pairs of 16-bit numbers. If these are made of packed numbers, bits of two
words are shifted and masked, and something is added to each. Half as many instructions do this with
both numbers in one word. The bits that are taken must lie in the same half of both words.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

from kerneldsl.contract import Report

__all__ = ["pack_halves"]

_NAME = r'%[-\w.$]+|%"[^"]+"'
_FLAGS = r"(?: [a-z]+)*"
_STEP = re.compile(
    rf"^  ({_NAME}) = (?:(?P<step>shl|lshr|and|or|xor){_FLAGS} "
    rf"i(?P<bits>16|32) (?P<value>{_NAME}), (?P<number>-?\d+)"
    rf"|trunc{_FLAGS} i32 (?P<word>{_NAME}) to i16"
    rf"|zext{_FLAGS} i16 (?P<half>{_NAME}) to i32"
    rf"|bitcast (?:half|bfloat|float|i16|i32) (?P<same>{_NAME}) to (?:half|bfloat|float|i16|i32)"
    rf"|fptrunc{_FLAGS} float (?P<rounded>{_NAME}) to bfloat"
    rf"|fpext{_FLAGS} bfloat (?P<extended>{_NAME}) to float"
    rf"|f(?P<sum>add|sub){_FLAGS} (?P<kind>float|half) (?P<left>{_NAME}), (?P<right>[^\s,]+)"
    r")(?=,|$)",
    re.MULTILINE,
)
#: A choice of numbers, by the block that control comes from.
_PHI = re.compile(rf"^  ({_NAME}) = phi{_FLAGS} float ((?:\[ [^\n]+ \],? ?)+)$", re.MULTILINE)
_PAIR = re.compile(
    rf"^  ({_NAME}) = insertelement <2 x (?P<kind>i16|half|bfloat)> (?:poison|undef), "
    rf"(?P=kind) (?P<low>{_NAME}), i(?:32|64) 0\n"
    rf"((?:  .*\n)*?)"
    rf"  (?P<name>{_NAME}) = insertelement <2 x (?P=kind)> \1, (?P=kind) (?P<high>{_NAME}), "
    r"i(?:32|64) 1$",
    re.MULTILINE,
)
_HALF, _WORD = 0xFFFF, 0xFFFFFFFF
_ONES = {"bfloat": "0xR3F80", "half": "0xH3C00"}
_MULTIPLY_ADD = {"bfloat": "llvm.fma.v2bf16", "half": "llvm.fma.v2f16"}


class _Bits(NamedTuple):
    """Bits of a word: those of `mask` of the word shifted to the right, others than `flipped`."""

    word: str
    shift: int
    mask: int
    flipped: int


class _Number(NamedTuple):
    """A number of 16 bits, and the one that is added to it."""

    bits: _Bits
    kind: str
    #: An operand of LLVM's, whether it is of float32, and whether its sign changes.
    added: str
    is_wide: bool
    is_negated: bool


_Steps = dict[str, "re.Match[str]"]
#: Choices that one choice may depend on.
_MOST_CHOICES = 8


def pack_halves(text: str, report: Report) -> str:
    """Return a module in which the halves of words are computed together."""
    if not _PAIR.search(text):
        return text
    parts = re.split(r"(?m)(?=^define )", text)
    found = "".join(_packed(part, report) if part.startswith("define ") else part for part in parts)
    for kind, name in _MULTIPLY_ADD.items():
        if f"@{name}(" in found and f"declare <2 x {kind}> @{name}(" not in found:
            found += f"\ndeclare <2 x {kind}> @{name}({', '.join([f'<2 x {kind}>'] * 3)})\n"
    return found


def _packed(function: str, report: Report) -> str:
    steps = {found[1]: found for each in (_STEP, _PHI) for found in each.finditer(function)}
    count = 0

    def rewritten(pair: re.Match[str]) -> str:
        nonlocal count
        low, high = (_number_of(pair[each], pair["kind"], steps) for each in ("low", "high"))
        if low is None or high is None:
            return pair[0]
        is_alike = low.bits[1:] == high.bits[1:] and low[1:] == high[1:]
        lines = _written(pair["name"], pair["kind"], low, high.bits.word) if is_alike else ""
        count += bool(lines)
        return pair[4] + lines if lines else pair[0]

    function = _PAIR.sub(rewritten, function)
    report("word", "with two halves computed together", count)
    return function


def _number_of(name: str, kind: str, steps: _Steps) -> _Number | None:
    """Return what bits a number has, and what is added to them; ``None`` if that is another."""
    found = steps.get(name)
    while found is not None and found.re is _STEP and found["same"]:
        name, found = found["same"], steps.get(found["same"])
    if found is None or found.re is _PHI:
        return None
    if found["rounded"]:
        # Numbers of 8 binary digits, which float32 adds without a second rounding.
        found = steps.get(found["rounded"])
        if found is None or found.re is _PHI or found["sum"] is None:
            return None
        bits, added = _bits_of(found["left"], steps, is_upper=True), _added(found["right"], steps)
        kind = "bfloat"
    elif found["sum"] and found["kind"] == "half":
        bits, added, kind = _bits_of(found["left"], steps), found["right"], "half"
    else:
        bits = _bits_of(name, steps)
        return None if bits is None else _Number(bits, kind, "", False, False)
    if bits is None or added is None:
        return None
    is_wide = kind == "bfloat" and added == found["right"]
    return _Number(bits, kind, added, is_wide, found["sum"] == "sub")


def _added(value: str, steps: _Steps) -> str | None:
    """Return an operand of bfloat for one of float32, ``None`` if that may have more digits.

    A name of float32 is returned if it has no more.
    """
    if not value.startswith("%"):
        word = _word_of(value)
        return None if word & _HALF else f"0xR{word >> 16:04X}"
    found = steps.get(value)
    if found is not None and found.re is _STEP and found["extended"]:
        return found["extended"]
    return value if _is_narrow(value, steps, set()) else None


def _is_narrow(value: str, steps: _Steps, choices: set[str]) -> bool:
    """Return whether a float32 has no more digits than a bfloat."""
    if not value.startswith("%"):
        return value != "poison" and not _word_of(value) & _HALF
    found = steps.get(value)
    if found is None or value in choices:
        return found is not None
    if found.re is _STEP:
        return bool(found["extended"]) or _bits_of(value, steps, is_upper=True) is not None
    choices.add(value)
    taken = re.findall(r"\[ ([^\s,]+),", found[2])
    return len(choices) <= _MOST_CHOICES and all(_is_narrow(v, steps, choices) for v in taken)


def _word_of(number: str) -> int:
    """Return the bits of a float32 as LLVM writes it."""
    if number.startswith("0x"):
        value = struct.unpack(">d", bytes.fromhex(number[2:].rjust(16, "0")))[0]
    else:
        value = float(number)
    (word,) = struct.unpack(">I", struct.pack(">f", value))
    return int(word)


def _bits_of(name: str, steps: _Steps, *, is_upper: bool = False) -> _Bits | None:
    """Return what bits a number of 16 bits has, ``None`` if they are not of one word.

    With `is_upper` it is a float32 with a lower half of 0.
    """
    chain = []
    while (found := steps.get(name)) is not None and found.re is _STEP:
        following = found["value"] or found["word"] or found["half"] or found["same"]
        if following is None:
            break
        chain.append(found)
        name = following
    shift, mask, flipped, width = 0, _WORD, 0, _WORD
    for found in reversed(chain):
        number = int(found["number"] or 0)
        match found["step"]:
            case "lshr":
                shift, mask, flipped = shift + number, mask >> number, flipped >> number
            case "shl":
                shift, mask, flipped = shift - number, mask << number, flipped << number
            case "and":
                mask, flipped = mask & number, flipped & number
            case "xor":
                flipped ^= number
            case "or":
                mask, flipped = mask & ~number, flipped | number
            case _ if found["word"] or found["half"]:
                width = _HALF if found["word"] else _WORD
        mask, flipped = mask & width, flipped & width
    if is_upper and not (mask | flipped) & _HALF and width == _WORD:
        return _Bits(name, shift + 16, mask >> 16, flipped >> 16)
    return _Bits(name, shift, mask, flipped) if width == _HALF and not is_upper else None


def _written(name: str, kind: str, low: _Number, high: str) -> str:
    """Return lines that make a pair of numbers, none if their bits are in both halves of a word."""
    word, shift, mask, flipped = low.bits
    taken = mask << shift if shift >= 0 else mask >> -shift
    if not taken or taken >> 32 or (taken & _HALF and taken >> 16):
        return ""
    base, lines = name.strip('%"'), []

    def add(what: str, value: str) -> str:
        made = f'%"{base}.{what}"'
        lines.append(f"  {made} = {value}\n")
        return made

    halves = []
    for which, own in (("low", word), ("high", high)):
        if taken >> 16:
            own = add(f"{which}.above", f"lshr i32 {own}, 16")
        halves.append(add(which, f"trunc i32 {own} to i16"))
    shift -= 16 if taken >> 16 else 0
    pair = add("first", f"insertelement <2 x i16> poison, i16 {halves[0]}, i32 0")
    pair = add("both", f"insertelement <2 x i16> {pair}, i16 {halves[1]}, i32 1")
    word = add("word", f"bitcast <2 x i16> {pair} to i32")
    if shift:
        step = "lshr" if shift > 0 else "shl"
        word = add("moved", f"{step} i32 {word}, {abs(shift)}")
    numbers = f"i32 {word}, i32 {mask | mask << 16}, i32 {flipped | flipped << 16}"
    # LLVM takes two instructions for this one, 0x6A: (a & b) ^ c.
    lop = 'call i32 asm "lop3.b32 $0, $1, $2, $3, 0x6A;", "=r,r,r,r"'
    word = add("flipped", f"{lop}({numbers})")
    if not low.added:
        return "".join(lines) + f"  {name} = bitcast i32 {word} to <2 x {kind}>"
    vector = f"<2 x {low.kind}>"
    value = add("value", f"bitcast i32 {word} to {vector}")
    added = low.added
    if low.is_wide:
        added = add("rounded", f"fptrunc float {added} to bfloat")
    if low.is_negated:
        added = add("negated", f"fneg {low.kind} {added}")
    one, other = (f"<{low.kind} {v}, {low.kind} {v}>" for v in (_ONES[low.kind], added))
    if added.startswith("%"):
        part = add("part", f"insertelement {vector} poison, {low.kind} {added}, i32 0")
        other = add("other", f"insertelement {vector} {part}, {low.kind} {added}, i32 1")
    given = ", ".join(f"{vector} {each}" for each in (value, one, other))
    call = f"call {vector} @{_MULTIPLY_ADD[low.kind]}({given})"
    if low.kind == kind:
        return "".join(lines) + f"  {name} = {call}"
    return "".join(lines) + f"  {name} = bitcast {vector} {add('sum', call)} to <2 x {kind}>"
