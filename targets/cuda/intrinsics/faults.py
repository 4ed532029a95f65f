"""Debug mode: index checks and recorded faults; and the promise that an index is not negative.

The first fault of a launch fills the record whose address is the entry's last parameter: a thread
that finds ``state`` 0 and makes it 1 writes the rest, then makes it 2. Its thread ends through the
status that every function returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llvmlite import ir
from numba.core import errors, types
from numba.core.typing import signature

from targets.cuda.intrinsics.bound import BoundIntrinsic
from targets.cuda.intrinsics.ids import read_register
from targets.cuda.numba_glue.callconv import FAULT, STATUS_FAULT

__all__ = ["HELPERS", "RECORD_FIELDS"]

_i8 = ir.IntType(8)
_i32 = ir.IntType(32)
_i64 = ir.IntType(64)

#: Fields of the record with their byte offsets; `kerneldsl.lowering.faults` reads them back.
RECORD_FIELDS = {
    "state": 0,
    "site": 4,
    "axis": 8,
    "index": 16,
    "bound": 24,
    "thread.x": 32,
    "thread.y": 36,
    "thread.z": 40,
    "block.x": 44,
    "block.y": 48,
    "block.z": 52,
}
_RECORDED = 2


def _record(
    builder: ir.IRBuilder, site: ir.Value, axis: ir.Value, index: ir.Value, bound: ir.Value
) -> None:
    """Fill the record unless another thread has, and end this function's thread."""
    global_space = 1
    base = builder.addrspacecast(
        builder.function.args[FAULT], _i8.as_pointer(global_space), name="record"
    )

    def field(name: str, kind: ir.Type) -> ir.Value:
        address = builder.gep(base, [_i64(RECORD_FIELDS[name])])
        return builder.bitcast(address, kind.as_pointer(global_space))

    order = 'syncscope("device") monotonic'
    state = field("state", _i32)
    first = builder.extract_value(
        builder.cmpxchg(state, _i32(0), _i32(1), order, "monotonic"), 1
    )
    with builder.if_then(first):
        builder.store(site, field("site", _i32))
        builder.store(axis, field("axis", _i32))
        builder.store(index, field("index", _i64))
        builder.store(bound, field("bound", _i64))
        for group, register in (("thread", "tid"), ("block", "ctaid")):
            for letter in "xyz":
                value = read_register(builder, f"{register}.{letter}")
                builder.store(builder.trunc(value, _i32), field(f"{group}.{letter}", _i32))
        builder.store(_i32(_RECORDED), state)
    builder.ret(_i32(STATUS_FAULT))


def _type_checked(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    index, bound, site, axis = args
    index = types.unliteral(index)
    if not isinstance(index, types.Integer):
        # A slice or a tuple: Numba's own indexing deals with it.
        return signature(index, index, types.unliteral(bound), types.int32, types.int32)
    return signature(index, index, types.int64, types.int32, types.int32)


def _emit_checked(
    context: Any,
    builder: ir.IRBuilder,
    sig: Any,
    args: tuple[ir.Value, ...],
    static: Mapping[str, Any],
) -> ir.Value:
    kind = sig.args[0]
    value, bound, site, axis = args
    if not isinstance(kind, types.Integer):
        return value
    wide = context.cast(builder, value, kind, types.int64 if kind.signed else types.uint64)
    outside = builder.icmp_unsigned(">=", wide, bound)
    if kind.signed:  # an index from -bound on counts from the end
        wrapped = builder.icmp_unsigned(">=", builder.add(wide, bound), bound)
        outside = builder.and_(outside, wrapped)
    with builder.if_then(outside, likely=False):
        _record(builder, site, axis, wide, bound)
        _begin_unreachable(builder)
    return value


def _type_fault(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    if len(args) != 1:
        raise errors.TypingError("kd_fault takes one argument")
    return signature(types.void, types.int32)


def _emit_fault(
    context: Any,
    builder: ir.IRBuilder,
    sig: Any,
    args: tuple[ir.Value, ...],
    static: Mapping[str, Any],
) -> ir.Value:
    _record(builder, args[0], _i32(-1), _i64(0), _i64(0))
    _begin_unreachable(builder)
    return context.get_dummy_value()


def _begin_unreachable(builder: ir.IRBuilder) -> None:
    """Whatever Numba lowers next stands after a return, and goes into a block of its own."""
    builder.position_at_end(builder.append_basic_block("after_fault"))


def _type_unsigned(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    value = types.unliteral(args[0])
    if isinstance(value, types.Integer):
        return signature(types.uintp, types.uintp)
    return signature(value, value)


def _emit_same(
    context: Any,
    builder: ir.IRBuilder,
    sig: Any,
    args: tuple[ir.Value, ...],
    static: Mapping[str, Any],
) -> ir.Value:
    return args[0]


#: What the shared passes put into a kernel, by reserved name.
HELPERS: dict[str, BoundIntrinsic] = {
    "kd_checked": BoundIntrinsic("kd_checked", _type_checked, _emit_checked, {}),
    "kd_fault": BoundIntrinsic("kd_fault", _type_fault, _emit_fault, {}),
    "kd_unsigned": BoundIntrinsic("kd_unsigned", _type_unsigned, _emit_same, {}),
}
