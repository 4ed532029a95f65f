"""Hidden arguments by which every function of a kernel knows the launch.

The fault record, this thread's place in the grid (or in the extent), its size, and what to do at
the kernel's guard.
"""

from __future__ import annotations

from llvmlite import ir

from kerneldsl.lowering.numba_internals.calling import HiddenArgumentsCallConv

__all__ = [
    "FAULT",
    "GUARD",
    "GUARD_ASKED",
    "GUARD_PASSED",
    "GUARD_TESTED",
    "INDEX",
    "SIZE",
    "STATUS_PASSES",
    "KernelCallConv",
    "begin_body",
    "end_body",
    "end_thread_early",
    "fault_record",
    "set_fault_record",
]

#: Positions of the hidden arguments, after the pointer for the result.
FAULT = 1
INDEX = 2
SIZE = 5
GUARD = 8

#: The status of a kernel that was asked whether the index passes its guard, and does.
STATUS_PASSES = 2

#: What to do at the guard: test it; go on, as it is known to be passed; return whether it is.
GUARD_TESTED, GUARD_PASSED, GUARD_ASKED = 0, 1, 2

_COORDINATES = ("index0", "index1", "index2", "size0", "size1", "size2")


class KernelCallConv(HiddenArgumentsCallConv):
    """Status, result pointer, launch, arguments."""

    hidden = (
        ("fault", ir.IntType(8).as_pointer()),
        *((name, ir.IntType(64)) for name in _COORDINATES),
        ("guard", ir.IntType(32)),
    )


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


def fault_record(builder: ir.IRBuilder) -> ir.Value:
    """Return the generic address of the fault record; it is null if there is none."""
    function = builder.function
    return getattr(function, _RECORD, None) or function.args[FAULT]


def begin_body(builder: ir.IRBuilder) -> None:
    """Begin a body that is written into an entry."""
    setattr(builder.function, _ENDED, [])


def end_body(builder: ir.IRBuilder) -> None:
    """End a body that is written into an entry. Threads that left it early go on here."""
    for block in getattr(builder.function, _ENDED):
        if not builder.block.is_terminated:
            builder.branch(block)
        builder.position_at_end(block)


def end_thread_early(builder: ir.IRBuilder, status: int) -> None:
    """End a function with a status, or the body that is written into an entry."""
    ended = getattr(builder.function, _ENDED, None)
    if ended is None:
        builder.ret(ir.IntType(32)(status))
        return
    if not ended:
        ended.append(builder.append_basic_block("ended"))
    builder.branch(ended[0])
