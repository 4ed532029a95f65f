"""Debug mode: index checks and recorded faults; and the promise that an index is not negative.

The first fault of a launch fills the record whose address is the entry's last parameter: a thread
that finds ``state`` 0 and makes it 1 writes the rest, then makes it 2. Its thread ends through the
status that every function returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llvmlite import ir
from numba import errors, types

from kerneldsl.lowering.calls import Call
from kerneldsl.lowering.checked_indices import checked_index, index_parts
from kerneldsl.lowering.faults import FAULT_FIELDS
from kerneldsl.lowering.numba_internals.bound import BoundIntrinsic
from kerneldsl.lowering.numba_internals.calling import STATUS_FAULT
from targets.cuda.compile.calling import end_thread_early, fault_record
from targets.cuda.intrinsics.ids import read_register

__all__ = ["emit_checked", "emit_fault", "helpers"]

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
    end_thread_early(builder, STATUS_FAULT)


def _type_checked(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    index, indexed, _, axis = args
    checked = checked_index(index, indexed, axis)
    return None if checked is None else checked(checked, indexed, types.int32, axis)


def emit_checked(call: Call) -> ir.Value:
    """Write the check of an index."""
    builder = call.builder
    index, indexed, _, axis = call.signature.args
    value, array, site, _ = call.args
    for part in index_parts(
        call.context, builder, (index, indexed), (value, array), axis.literal_value
    ):
        outside = builder.icmp_unsigned(">=", part.value, part.bound)
        if part.is_signed and call.static["wraparound"]:
            # An index from -bound on counts from the end.
            wrapped = builder.icmp_unsigned(">=", builder.add(part.value, part.bound), part.bound)
            outside = builder.and_(outside, wrapped)
        with builder.if_then(outside, likely=False):
            _record(builder, site, _i32(part.axis), part.value, part.bound)
            _begin_unreachable(builder)
    return value


def _type_fault(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    if len(args) != 1:
        raise errors.TypingError("kd_fault takes one argument")
    return types.void(types.int32)


def emit_fault(call: Call) -> ir.Value:
    """Write a fault."""
    _record(call.builder, call.args[0], _i32(-1), _i64(0), _i64(0))
    _begin_unreachable(call.builder)
    return call.context.get_dummy_value()


def _begin_unreachable(builder: ir.IRBuilder) -> None:
    """Begin a block for what Numba lowers next, after a return."""
    builder.position_at_end(builder.append_basic_block("after_fault"))


def _type_unsigned(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    value = types.unliteral(args[0])
    if isinstance(value, types.Integer):
        return types.uintp(types.uintp)
    return value(value)


def _emit_same(call: Call) -> ir.Value:
    return call.args[0]


_FAULT = BoundIntrinsic("kd_fault", _type_fault, emit_fault, {})
_UNSIGNED = BoundIntrinsic("kd_unsigned", _type_unsigned, _emit_same, {})
_CHECKED = {
    wraparound: BoundIntrinsic(
        "kd_checked",
        _type_checked,
        emit_checked,
        {"wraparound": wraparound},
        prefers_literals=True,
    )
    for wraparound in (False, True)
}


def helpers(*, wraparound: bool) -> dict[str, BoundIntrinsic]:
    """Return what the shared passes put into a kernel, by reserved name.

    With `wraparound` an index from -bound on counts from the end; else it is a fault.
    """
    return {"kd_checked": _CHECKED[wraparound], "kd_fault": _FAULT, "kd_unsigned": _UNSIGNED}
