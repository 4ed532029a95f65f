"""Accesses by which threads wait for others, and see that one of these has failed."""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.lowering.faults import FAULT_FIELDS
from targets.cuda.compile.calling import fault_record

__all__ = ["DEVICE_ORDER", "has_failed"]

_I1, _I32, _I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
#: Of accesses that threads of all blocks may make at a time, and that order no other memory.
DEVICE_ORDER = 'syncscope("device") monotonic'
_STATE_OFFSET = next(offset for name, _, offset in FAULT_FIELDS if name == "state")


def has_failed(builder: ir.IRBuilder) -> ir.Value:
    """Return whether a thread of the launch has failed, for which others may wait permanently.

    Only in debug mode is there a record that says so.
    """
    record = fault_record(builder)
    result = cgutils.alloca_once_value(builder, _I1(0))
    with builder.if_then(builder.icmp_unsigned("!=", record, record.type(None))):
        place = builder.gep(record, [_I64(_STATE_OFFSET)])
        state = builder.load_atomic(builder.bitcast(place, _I32.as_pointer()), DEVICE_ORDER, 4)
        builder.store(builder.icmp_unsigned("!=", state, _I32(0)), result)
    return builder.load(result)
