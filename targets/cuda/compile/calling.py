"""State of the entry that a kernel's body is written into: where threads end, and their faults.

In debug mode the first fault of a launch fills a record. The entry's last parameter is its address.
A thread that finds ``state`` 0 and makes it 1 writes the rest, then makes it 2, and ends.
"""

from __future__ import annotations

from enum import Enum

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.lowering.faults import FAULT_FIELDS
from targets.cuda.intrinsics.ids import read_register
from targets.cuda.intrinsics.memory import DEVICE_ORDER

__all__ = [
    "GuardAction",
    "begin_body",
    "end_body",
    "end_thread_early",
    "fault_record",
    "has_failed",
    "is_entry",
    "set_fault_record",
    "write_check",
    "write_fault",
]


class GuardAction(Enum):
    """Actions at a kernel's guard."""

    TEST = "test"
    """Test it."""
    PASS = "pass"
    """Go on, as it is known to be passed."""
    ASK = "ask"
    """Return whether it is passed, and do nothing else."""


_I1, _I8, _I32, _I64 = (ir.IntType(width) for width in (1, 8, 32, 64))
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


_OFFSETS = {name: offset for name, _, offset in FAULT_FIELDS}
_RECORDED = 2


def _record(
    builder: ir.IRBuilder, site: ir.Value, axis: ir.Value, index: ir.Value, bound: ir.Value
) -> None:
    """Fill the record unless another thread has, and end this function's thread."""
    global_space = 1
    base = builder.addrspacecast(fault_record(builder), _I8.as_pointer(global_space), name="record")

    def field(name: str, kind: ir.Type) -> ir.Value:
        address = builder.gep(base, [_I64(_OFFSETS[name])])
        return builder.bitcast(address, kind.as_pointer(global_space))

    state = field("state", _I32)
    first = builder.extract_value(
        builder.cmpxchg(state, _I32(0), _I32(1), DEVICE_ORDER, "monotonic"), 1
    )
    with builder.if_then(first):
        builder.store(site, field("site", _I32))
        builder.store(axis, field("axis", _I32))
        builder.store(index, field("index", _I64))
        builder.store(bound, field("bound", _I64))
        for group, register in (("thread", "tid"), ("block", "ctaid")):
            for letter in "xyz":
                value = read_register(builder, f"{register}.{letter}")
                builder.store(builder.trunc(value, _I32), field(f"{group}_{letter}", _I32))
        builder.store(_I32(_RECORDED), state)
    end_thread_early(builder)


def write_fault(builder: ir.IRBuilder, site: int) -> None:
    """Record that a thread raised, and end it."""
    _record(builder, _I32(site), _I32(-1), _I64(0), _I64(0))
    _begin_unreachable(builder)


def write_check(
    builder: ir.IRBuilder, fault: tuple[int, int], index: ir.Value, bound: ir.Value, *, wraps: bool
) -> None:
    """Record a fault and end the thread if an index of 64 bits is not in its bounds.

    `fault` is the site and the axis. With `wraps` a negative index counts from the end.
    """
    site, axis = fault
    outside = builder.icmp_unsigned(">=", index, bound)
    if wraps:
        # An index from -bound on counts from the end.
        wrapped = builder.icmp_unsigned(">=", builder.add(index, bound), bound)
        outside = builder.and_(outside, wrapped)
    with builder.if_then(outside, likely=False):
        _record(builder, _I32(site), _I32(axis), index, bound)
        _begin_unreachable(builder)


def _begin_unreachable(builder: ir.IRBuilder) -> None:
    """Begin a block for what is written next, after a return."""
    builder.position_at_end(builder.append_basic_block("after_fault"))


def has_failed(builder: ir.IRBuilder) -> ir.Value:
    """Return whether a thread of the launch has failed, for which others may wait permanently.

    Only debug mode has a record, in which a failure is noted.
    """
    record = fault_record(builder)
    result = cgutils.alloca_once_value(builder, _I1(0))
    with builder.if_then(builder.icmp_unsigned("!=", record, record.type(None))):
        place = builder.gep(record, [_I64(_OFFSETS["state"])])
        state = builder.load_atomic(builder.bitcast(place, _I32.as_pointer()), DEVICE_ORDER, 4)
        builder.store(builder.icmp_unsigned("!=", state, _I32(0)), result)
    return builder.load(result)
