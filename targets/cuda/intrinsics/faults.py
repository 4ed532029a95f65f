"""Debug mode: index checks and recorded faults.

The first fault of a launch fills the record. The entry's last parameter is its address. A thread
that finds ``state`` 0 and makes it 1 writes the rest, then makes it 2, and ends.
"""

from __future__ import annotations

from llvmlite import ir

from kerneldsl.lowering.faults import FAULT_FIELDS
from targets.cuda.compile.calling import end_thread_early, fault_record
from targets.cuda.intrinsics.ids import read_register

__all__ = ["write_check", "write_fault"]

_i8 = ir.IntType(8)
_i32 = ir.IntType(32)
_i64 = ir.IntType(64)

_OFFSETS = {name: offset for name, _, offset in FAULT_FIELDS}
_RECORDED = 2


def _record(
    builder: ir.IRBuilder, site: ir.Value, axis: ir.Value, index: ir.Value, bound: ir.Value
) -> None:
    """Fill the record unless another thread has, and end this function's thread."""
    global_space = 1
    base = builder.addrspacecast(fault_record(builder), _i8.as_pointer(global_space), name="record")

    def field(name: str, kind: ir.Type) -> ir.Value:
        address = builder.gep(base, [_i64(_OFFSETS[name])])
        return builder.bitcast(address, kind.as_pointer(global_space))

    order = 'syncscope("device") monotonic'
    state = field("state", _i32)
    first = builder.extract_value(builder.cmpxchg(state, _i32(0), _i32(1), order, "monotonic"), 1)
    with builder.if_then(first):
        builder.store(site, field("site", _i32))
        builder.store(axis, field("axis", _i32))
        builder.store(index, field("index", _i64))
        builder.store(bound, field("bound", _i64))
        for group, register in (("thread", "tid"), ("block", "ctaid")):
            for letter in "xyz":
                value = read_register(builder, f"{register}.{letter}")
                builder.store(builder.trunc(value, _i32), field(f"{group}_{letter}", _i32))
        builder.store(_i32(_RECORDED), state)
    end_thread_early(builder)


def write_fault(builder: ir.IRBuilder, site: int) -> None:
    """Record that a thread raised, and end it."""
    _record(builder, _i32(site), _i32(-1), _i64(0), _i64(0))
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
        _record(builder, _i32(site), _i32(axis), index, bound)
        _begin_unreachable(builder)


def _begin_unreachable(builder: ir.IRBuilder) -> None:
    """Begin a block for what is written next, after a return."""
    builder.position_at_end(builder.append_basic_block("after_fault"))
