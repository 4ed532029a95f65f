"""Find registers that PTX reads and no instruction writes: ptxas accepts them without a warning."""

from __future__ import annotations

import re

from targets.cuda.compile.ptx_lines import results_of

__all__ = ["unwritten_registers"]

_REGISTER = re.compile(r"%[\w.]+")
_DECLARATION = re.compile(r"^\s*\.reg\b")
_FUNCTION = re.compile(r"^[^\n]*\.(?:entry|func)\b", re.MULTILINE)
#: Several instructions in one line, with a register of their own.
_BLOCK = re.compile(r"\{ \.reg \.b\d+ %?\w+; (.*;) \}")
#: LLVM packs elements of a tile that a thread does not have into words, and never stores them.
_PACKING = re.compile(r"\s*(?:prmt\.|mov\.b\d+\s[^;]*\{)")
_COMMENT = re.compile(r"//[^\n]*")
#: Special registers (PTX ISA, "Special Registers"), and those of parameters and of the stack.
_SPECIAL = re.compile(
    r"%(?:n?tid|n?ctaid|laneid|n?warpid|n?smid|gridid|lanemask_\w+|clock\w*|globaltimer\w*|envreg\d+"
    r"|dynamic_smem_size|total_smem_size|aggr_smem_size|(?:cluster|is_explicit)\w*|pm\d+\w*"
    r"|current_graph_exec)(?:\.[xyz])?"
)


def unwritten_registers(ptx: str) -> set[str]:
    """Return the registers that a function of a module reads and does not write.

    Examples
    --------
    >>> unwritten_registers('''.entry e()
    ... {
    ... .reg .b32 %r<4>;
    ... mov.u32 %r1, %tid.x;
    ... add.s32 %r2, %r1, %r3;
    ... }''')
    {'%r3'}
    """
    text = _BLOCK.sub(lambda block: block[1].replace("; ", ";\n"), _COMMENT.sub("", ptx))
    starts = [match.start() for match in _FUNCTION.finditer(text)]
    found: set[str] = set()
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        lines = [line for line in text[start:end].splitlines() if not _DECLARATION.match(line)]
        written = {name for line in lines for name in results_of(line)}
        reading = [line for line in lines if not _PACKING.match(line)]
        read = {name for line in reading for name in _REGISTER.findall(line)}
        found |= {name for name in read - written if not _SPECIAL.fullmatch(name)}
    return found
