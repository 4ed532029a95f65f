"""Debug mode in a kernel: tests of indices, and the end of a thread that failed.

The host reads what is recorded here in :mod:`targets.cpu.runtime.faults`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.lowering.checked_indices import index_parts

__all__ = ["Fault", "write_check", "write_fault"]

_I32 = ir.IntType(32)
_I64 = ir.IntType(64)


class Fault(NamedTuple):
    """Values that a fault records beside the index."""

    #: Address of the record, an i64.
    record: Any
    #: Number of the place that can fail, an i32.
    site: Any
    #: Indices of the thread along x, y and z, then those of its block.
    place: Sequence[Any]


def _record_fault(
    context: Any, builder: Any, fault: Fault, axis: int, numbers: tuple[Any, Any]
) -> None:
    """Claim the fault record if no thread has, fill it, and leave the compiled function.

    The record's layout is `kerneldsl.lowering.faults.FaultRecord`.
    """
    pointer = builder.inttoptr(fault.record, _I32.as_pointer())
    claimed = builder.cmpxchg(pointer, _I32(0), _I32(1), "seq_cst", "seq_cst")
    with builder.if_then(builder.extract_value(claimed, 1)):
        for i, word in enumerate((fault.site, _I32(axis))):
            builder.store(word, builder.gep(pointer, [_I32(1 + i)]))
        wide = builder.bitcast(pointer, _I64.as_pointer())
        for i, number in enumerate(numbers):
            builder.store(number, builder.gep(wide, [_I32(2 + i)]))
        for i, coordinate in enumerate(fault.place):
            narrow = builder.trunc(coordinate, _I32)
            builder.store(narrow, builder.gep(pointer, [_I32(8 + i)]))
    context.call_conv.return_user_exc(builder, RuntimeError, ("kernel fault",))


def write_fault(context: Any, builder: Any, fault: Fault) -> None:
    """Record that a thread raised, and end it."""
    with builder.if_then(cgutils.true_bit):
        _record_fault(context, builder, fault, 0, (_I64(0), _I64(0)))


def write_check(
    context: Any,
    builder: Any,
    kinds: tuple[Any, Any],
    values: tuple[Any, Any],
    axis: int,
    wraps: Any,
    fault: Fault,
) -> None:
    """Record a fault and end the thread if an index is not in the bounds of what it indexes.

    `kinds` and `values` are of the two. `axis` is that of the index, or of its first part, and
    `wraps` says whether a negative index counts from the end.
    """
    for part in index_parts(context, builder, kinds, values, axis):
        low = builder.select(wraps, builder.neg(part.bound), _I64(0))
        if part.is_signed:
            inside = builder.icmp_signed("<", part.value, part.bound)
            inside = builder.and_(inside, builder.icmp_signed(">=", part.value, low))
        else:
            inside = builder.icmp_unsigned("<", part.value, part.bound)
        with builder.if_then(builder.not_(inside), likely=False):
            _record_fault(context, builder, fault, part.axis, (part.value, part.bound))
