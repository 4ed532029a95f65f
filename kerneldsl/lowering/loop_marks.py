"""Write loops, and mark them for LLVM: what it does with them.

A mark becomes metadata of the loop's back edge when the module is written. If a loop is marked as
parallel, the accesses to arrays in its function are a group, which LLVM may reorder between
iterations. Accesses to the function's stack are not in the group.

References
----------
LLVM Language Reference: the metadata "llvm.loop", "llvm.access.group" and
"llvm.loop.parallel_accesses".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions

__all__ = [
    "FULLY_UNROLLED",
    "IN_SHORT_VECTORS",
    "ITS_OWN",
    "NOT_INTERLEAVED",
    "NOT_UNROLLED",
    "NOT_VECTORIZED",
    "PARALLEL",
    "UNROLLED_AS_VECTORS",
    "UNROLLED_BY_FOUR",
    "has_marked_loops",
    "has_vectors_to_unroll",
    "leave_as_it_is",
    "mark_loop",
    "repeat",
    "unroll_in_full",
    "with_loop_marks",
]

FULLY_UNROLLED = "llvm.loop.unroll.full"
NOT_UNROLLED = "llvm.loop.unroll.disable"
UNROLLED_BY_FOUR = "llvm.loop.unroll.count"
#: Identity of a loop, without a meaning for LLVM. SimplifyCFG may move the metadata of an unrolled
#: loop to a loop around it without any. LLVM then warns on standard error that it cannot unroll the
#: outer loop.
ITS_OWN = "kerneldsl.its_own"
#: Vectors of one loop are not computed several at a time.
NOT_INTERLEAVED = "llvm.loop.interleave.count"
#: Vectors of a loop have four elements.
IN_SHORT_VECTORS = "llvm.loop.vectorize.width"
NOT_VECTORIZED = "llvm.loop.vectorize.enable"
#: The vectorized loop is unrolled, in the end by :func:`unroll_in_full`.
UNROLLED_AS_VECTORS = "llvm.loop.vectorize.followup_all"
#: Iterations may run in any order, and overlap.
PARALLEL = "llvm.loop.parallel_accesses"
#: Mark that the vectorizer writes at such a loop. LLVM does not know the name: it warns on standard
#: error of a loop that it must unroll and cannot.
_OF_VECTORS = "kerneldsl.vectors"

_MARK, _GROUP = "kerneldsl.loop", "kerneldsl.accesses"
_MARKED = re.compile(r'^!(\d+) = !{ !"kerneldsl\.loop", i32 \d+, !"([a-z._ ]*)" }$', re.MULTILINE)
_GROUPED = re.compile(r'^!(\d+) = !{ !"kerneldsl\.accesses" }$', re.MULTILINE)


def mark_loop(builder: ir.IRBuilder, *wishes: str) -> None:
    """Mark the loop with a body that ends at a builder's place."""
    _marks(builder.module).append((builder.block, wishes))


@contextmanager
def repeat(
    builder: ir.IRBuilder, count: int, *wishes: str, first: Sequence[ir.Value] = ()
) -> Iterator[tuple[ir.Value, list[ir.Value], list[ir.Value]]]:
    """Repeat what is written inside for each number below a count, in a loop tested at its end.

    `wishes` mark the loop. The code gets the number, values that are `first` in the first
    iteration, and a list to which it adds those of the next one.
    """
    before = builder.block
    body, end = (builder.append_basic_block(f"repeat.{each}") for each in ("body", "end"))
    builder.branch(body)
    builder.position_at_end(body)
    zero = ir.IntType(64)(0)
    number, *carried = (builder.phi(each.type) for each in (zero, *first))
    following: list[ir.Value] = []
    yield number, carried, following
    after = builder.add(number, number.type(1), flags=("nuw", "nsw"))
    for phi, one, two in zip((number, *carried), (zero, *first), (after, *following), strict=True):
        phi.add_incoming(one, before)
        phi.add_incoming(two, builder.block)
    if wishes:
        mark_loop(builder, *wishes)
    builder.cbranch(builder.icmp_unsigned("<", after, number.type(count)), body, end)
    builder.position_at_end(end)


def has_marked_loops(module: ir.Module) -> bool:
    return bool(_marks(module))


def _marks(module: Any) -> list[Any]:
    marks: list[Any] = module.__dict__.setdefault("_kerneldsl_loops", [])
    return marks


def with_loop_marks(module: ir.Module, text_of: Any) -> str:
    """Return the text of a module, written by a function, with its marks turned into metadata."""
    marks = _marks(module)
    for number, (block, wishes) in enumerate(marks):
        mark = module.add_metadata([_MARK, ir.IntType(32)(number), " ".join(wishes)])
        block.terminator.set_metadata("llvm.loop", mark)
    parallel = {block.function for block, wishes in marks if PARALLEL in wishes}
    for function in parallel:
        _group_accesses(function)
    text: str = text_of(module)
    if not marks:
        return _GROUPED.sub(r"!\1 = distinct !{}", text)
    group = _GROUPED.search(text)
    accesses = group[1] if group else None
    # llvmlite cannot write a node that names itself, as a loop's identity must, or a distinct one.
    text = _MARKED.sub(lambda mark: _metadata(mark[1], mark[2].split(), accesses), text)
    return _GROUPED.sub(r"!\1 = distinct !{}", text)


def has_vectors_to_unroll(text: str) -> bool:
    """Return whether the text of a module has loops that must be unrolled as vectors."""
    return _OF_VECTORS in text


def unroll_in_full(text: str) -> str:
    """Return the text of a module in which LLVM must unroll what the vectorizer has made."""
    return text.replace(_OF_VECTORS, FULLY_UNROLLED)


def leave_as_it_is(text: str) -> str:
    """Return the text of a module in which LLVM need not unroll what it could not."""
    return text.replace(FULLY_UNROLLED, _OF_VECTORS)


def _metadata(number: str, wishes: list[str], accesses: str | None) -> str:
    parts = [f"!{number}"]
    for wish in wishes:
        if wish == UNROLLED_AS_VECTORS:
            parts.append(f'!{{!"{wish}", !{{!"{_OF_VECTORS}"}}}}')
        elif wish == NOT_VECTORIZED:
            parts.append(f'!{{!"{wish}", i1 false}}')
        elif wish == NOT_INTERLEAVED:
            parts.append(f'!{{!"{wish}", i32 1}}')
        elif wish in (UNROLLED_BY_FOUR, IN_SHORT_VECTORS):
            parts.append(f'!{{!"{wish}", i32 4}}')
        elif wish != PARALLEL:
            parts.append(f'!{{!"{wish}"}}')
        elif accesses is not None:
            parts.append(f'!{{!"{wish}", !{accesses}}}')
    return f"!{number} = distinct !{{ {', '.join(parts)} }}"


def _group_accesses(function: Any) -> None:
    group = function.module.add_metadata([_GROUP])
    for block in function.blocks:
        for instruction in block.instructions:
            match instruction:
                case instructions.LoadInstr(operands=[place]):
                    pass
                case instructions.StoreInstr(operands=[_, place]):
                    pass
                case _:
                    continue
            if not _may_be_on_stack(place):
                instruction.set_metadata("llvm.access.group", group)


def _may_be_on_stack(place: Any) -> bool:
    """Return whether an address may be of a variable of the function itself."""
    while isinstance(place, instructions.GEPInstr | instructions.CastInstr):
        place = place.operands[0]
    return not isinstance(place, instructions.LoadInstr | instructions.ExtractValue | ir.Argument)
