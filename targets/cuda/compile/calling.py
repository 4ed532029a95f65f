"""State of the entry that a kernel's body is written into: the fault record, where threads end."""

from __future__ import annotations

from enum import Enum

from llvmlite import ir

__all__ = [
    "GuardAction",
    "begin_body",
    "end_body",
    "end_thread_early",
    "fault_record",
    "is_entry",
    "set_fault_record",
]


class GuardAction(Enum):
    """Actions at a kernel's guard."""

    TEST = "test"
    """Test it."""
    PASS = "pass"
    """Go on, as it is known to be passed."""
    ASK = "ask"
    """Return whether it is passed, and do nothing else."""


_I8 = ir.IntType(8)
#: Attributes of an entry that a kernel's body is written into.
_RECORD = "kerneldsl_fault_record"
_ENDED = "kerneldsl_ended"


def set_fault_record(builder: ir.IRBuilder, record: ir.Value | None) -> None:
    """Say where the fault record of an entry is, into which a kernel's body is written."""
    found: ir.Value = ir.Constant(_I8.as_pointer(), None)
    if record is not None:
        found = builder.addrspacecast(record, _I8.as_pointer())
    setattr(builder.function, _RECORD, found)


def is_entry(builder: ir.IRBuilder) -> bool:
    """Return whether a kernel's body is written into this function."""
    return hasattr(builder.function, _RECORD)


def fault_record(builder: ir.IRBuilder) -> ir.Value:
    """Return the generic address of the fault record; it is null if there is none."""
    found: ir.Value = getattr(builder.function, _RECORD)
    return found


def begin_body(builder: ir.IRBuilder) -> None:
    """Begin a body that is written into an entry."""
    setattr(builder.function, _ENDED, [])


def end_body(builder: ir.IRBuilder) -> None:
    """End a body that is written into an entry. Threads that left it early go on here."""
    for block in getattr(builder.function, _ENDED):
        if not builder.block.is_terminated:
            builder.branch(block)
        builder.position_at_end(block)


def end_thread_early(builder: ir.IRBuilder) -> None:
    """End the body that is written into an entry."""
    ended = getattr(builder.function, _ENDED)
    if not ended:
        ended.append(builder.append_basic_block("ended"))
    builder.branch(ended[0])
