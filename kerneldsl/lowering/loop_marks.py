"""Tell LLVM what to do with a loop, by a mark that generated code leaves as its last statement.

The mark becomes metadata of the loop's back edge when the module is written.

References
----------
LLVM Language Reference, "llvm.loop" metadata.
"""

from __future__ import annotations

import re
from typing import Any

from llvmlite import ir

__all__ = ["FULLY_UNROLLED", "NOT_UNROLLED", "mark_loop", "with_loop_marks"]

FULLY_UNROLLED = "llvm.loop.unroll.full"
NOT_UNROLLED = "llvm.loop.unroll.disable"

_MARK = "kerneldsl.loop"
_MARKED = re.compile(r'^!(\d+) = !{ !"kerneldsl\.loop", i32 \d+, !"([a-z.]+)" }$', re.MULTILINE)


def mark_loop(builder: ir.IRBuilder, wish: str) -> None:
    """Mark the loop whose body ends where a builder stands."""
    _marks(builder.module).append((builder.block, wish))


def _marks(module: Any) -> list[Any]:
    marks: list[Any] = module.__dict__.setdefault("_kerneldsl_loops", [])
    return marks


def with_loop_marks(module: ir.Module, text_of: Any) -> str:
    """Return the text of a module, written by a function, with its marks turned into metadata."""
    marks = _marks(module)
    for number, (block, wish) in enumerate(marks):
        mark = module.add_metadata([_MARK, ir.IntType(32)(number), wish])
        block.terminator.set_metadata("llvm.loop", mark)
    text: str = text_of(module)
    if not marks:
        return text
    # llvmlite cannot write a node that names itself, as a loop's identity must.
    return _MARKED.sub(r'!\1 = distinct !{ !\1, !{!"\2"} }', text)
