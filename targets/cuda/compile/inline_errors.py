"""Say of what an assembler refuses in a kernel's own PTX where the kernel has it.

LLVM writes ``// begin inline asm`` and ``// end inline asm`` around each text, and ptxas and the
driver name the line of what they refuse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from kerneldsl.contract import Specialization
from kerneldsl.errors import CompileError
from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["naming_inline_text"]

_COMPLAINT = re.compile(r"line (\d+)\s*[;,]\s*(?:error|fatal)\s*:\s*(.*)")
_BEGIN, _END = "// begin inline asm", "// end inline asm"
_OPERAND = re.compile(r"\$(\$|\d+)")


@contextmanager
def naming_inline_text(specialization: Specialization, ptx: str, arch: str) -> Iterator[None]:
    """Raise what an assembler says of a text of ``kd.ptx`` with the text and its line."""
    try:
        yield
    except CompileError as error:
        named = _named(error, specialization.unit, ptx, arch)
        if named is None:
            raise
        raise named from error


def _named(error: CompileError, unit: FunctionUnit, ptx: str, arch: str) -> CompileError | None:
    """Return an error about the first text that is refused; ``None`` where it is none."""
    lines = ptx.splitlines()
    refused: dict[str, list[str]] = {}
    for number, complaint in _COMPLAINT.findall(str(error)):
        block = _block_around(lines, int(number) - 1)
        if block is not None:
            refused.setdefault(block, []).append(complaint.strip())
    for block, complaints in refused.items():
        for each in unit.reachable():
            for name, use in each.uses.items():
                text = str(use.static.get("text", ""))
                if use.intrinsic.name == "ptx" and _pattern(text).fullmatch(block):
                    return CompileError(
                        f"{unit.qualname}: the PTX of {text!r} is refused for {arch}: "
                        + "; ".join(dict.fromkeys(complaints)),
                        where=each.locate_use(name),
                        value=text,
                        limit="kd.ptx hands its text to the assembler as it is",
                        remedy="Look the instruction up in the PTX ISA: its types, its operands, "
                        "and the architectures that have it",
                    )
    return None


def _block_around(lines: list[str], at: int) -> str | None:
    """Return the inline text that a line of PTX stands in."""
    first = at
    while first >= 0 and lines[first].strip() != _BEGIN:
        if first < at and lines[first].strip() == _END:
            return None
        first -= 1
    last = at
    while last < len(lines) and lines[last].strip() != _END:
        last += 1
    return _squeezed("\n".join(lines[first + 1 : last])) if first >= 0 else None


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _pattern(text: str) -> re.Pattern[str]:
    """Return what finds a text whose operands have become registers."""
    parts, end = [], 0
    squeezed = _squeezed(text)
    for found in _OPERAND.finditer(squeezed):
        parts.append(re.escape(squeezed[end : found.start()]))
        parts.append(r"\$" if found[1] == "$" else r"[^\s,;]+?")
        end = found.end()
    return re.compile("".join((*parts, re.escape(squeezed[end:]))))
