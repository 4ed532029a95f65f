"""Exchanges in which every lane's value counts: matches and reductions.

A lane of a reduction finds the result in the word of the lowest lane that takes part, which
computes it: threads take their results in the order of their lanes.

References
----------
CUDA C++ Programming Guide, sections "Warp Match Functions" and "Warp Reduce Functions".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from llvmlite import ir
from numba import types
from numba.core import cgutils

from kerneldsl.lowering.calls import Call
from kerneldsl.lowering.scalars import call_llvm
from targets.cpu.intrinsics.warp import WARP_SIZE, Exchange, WarpBuffer, exchange, post_value

__all__ = ["EXCHANGES"]

_I1, _I32, _I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)


# -- matches ----------------------------------------------------------------------------------


def _same_lanes(room: WarpBuffer, call: Call) -> ir.Value:
    """Return the lanes of the mask with this thread's word, as bits."""
    builder = call.builder
    mine = builder.load(room.value_of(room.thread))
    found = cgutils.alloca_once_value(builder, _I64(0))
    builder.store(_I64(0), found)
    with cgutils.for_range(builder, _I64(WARP_SIZE)) as loop:
        word = builder.load(room.value_of(builder.add(room.first, loop.index)))
        is_same = builder.zext(builder.icmp_unsigned("==", word, mine), _I64)
        bits = builder.or_(builder.load(found), builder.shl(is_same, loop.index))
        builder.store(bits, found)
    return builder.and_(builder.load(found), room.named(call.args[0]))


def _take_match_any(room: WarpBuffer, call: Call) -> ir.Value:
    return call.builder.trunc(_same_lanes(room, call), _I32)


def _take_match_all(room: WarpBuffer, call: Call) -> ir.Value:
    builder, named = call.builder, room.named(call.args[0])
    is_same = builder.icmp_unsigned("==", _same_lanes(room, call), named)
    lanes = builder.select(is_same, builder.trunc(named, _I32), _I32(0))
    truth = call.context.get_value_type(types.boolean)
    is_true = builder.zext(is_same, truth) if truth != _I1 else is_same
    return call.context.make_tuple(builder, call.signature.return_type, (lanes, is_true))


# -- reductions -------------------------------------------------------------------------------

#: Combines two values of a type.
_Combine = Callable[[ir.IRBuilder, types.Type, ir.Value, ir.Value], ir.Value]


def _sum(builder: ir.IRBuilder, kind: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    if isinstance(kind, types.Float):
        # A flag that means nothing for a sum: Numba gives what has none its own, by which LLVM
        # might contract a lane's product into the sum.
        return builder.fadd(a, b, flags=("arcp",))
    return builder.add(a, b)


def _extremum(
    name: str, builder: ir.IRBuilder, kind: types.Type, a: ir.Value, b: ir.Value
) -> ir.Value:
    if isinstance(kind, types.Float):
        return call_llvm(builder, f"llvm.{name}imumnum.f{kind.bitwidth}", a.type, [a, b])
    compare = builder.icmp_signed if kind.signed else builder.icmp_unsigned
    return builder.select(compare("<" if name == "min" else ">", a, b), a, b)


def _bitwise(
    name: str, builder: ir.IRBuilder, kind: types.Type, a: ir.Value, b: ir.Value
) -> ir.Value:
    combined: ir.Value = getattr(builder, name)(a, b)
    return combined


def _take_reduction(
    combine: _Combine, *, is_idempotent: bool, room: WarpBuffer, call: Call
) -> ir.Value:
    builder, kind = call.builder, call.signature.return_type
    mask, kind_of_value = call.args[0], call.args[1].type
    bits = ir.IntType(kind.bitwidth)
    named = room.named(mask)
    leader = builder.cttz(named, _I1(0))
    place = room.value_of(builder.add(room.first, builder.and_(leader, _I64(WARP_SIZE - 1))))
    with builder.if_then(builder.icmp_unsigned("==", leader, room.lane)):
        # In place of a lane that takes no part, a value that changes nothing.
        own = _value_of(builder, builder.load(room.value_of(room.thread)), kind_of_value)
        nothing = own if is_idempotent else ir.Constant(kind_of_value, _zero(kind))
        nodes = []
        for lane in range(WARP_SIZE):
            word = builder.load(room.value_of(builder.add(room.first, _I64(lane))))
            given = _value_of(builder, word, kind_of_value)
            takes_part = builder.trunc(builder.lshr(named, _I64(lane)), _I1)
            nodes.append(builder.select(takes_part, given, nothing))
        while len(nodes) > 1:
            half = len(nodes) // 2
            pairs = zip(nodes[:half], nodes[half:], strict=True)
            nodes = [combine(builder, kind, one, other) for one, other in pairs]
        result = builder.bitcast(nodes[0], bits)
        builder.store(builder.zext(result, _I64) if bits != _I64 else result, place)
    return _value_of(builder, builder.load(place), kind_of_value)


def _value_of(builder: ir.IRBuilder, word: ir.Value, kind: ir.Type) -> ir.Value:
    """Return the value that the lowest bits of a word are."""
    width = 64 if isinstance(kind, ir.DoubleType) else getattr(kind, "width", 32)
    bits = ir.IntType(width)
    return builder.bitcast(word if width == 64 else builder.trunc(word, bits), kind)


def _zero(kind: types.Type) -> float | int:
    return -0.0 if isinstance(kind, types.Float) else 0


def _reduction(
    combine: _Combine, *, is_idempotent: bool = True
) -> Callable[[WarpBuffer, Call], ir.Value]:
    def take(room: WarpBuffer, call: Call) -> ir.Value:
        return _take_reduction(combine, is_idempotent=is_idempotent, room=room, call=call)

    return take


EXCHANGES: dict[str, Exchange] = {
    name: exchange(post_value, take)
    for name, take in (
        ("match_any_sync", _take_match_any),
        ("match_all_sync", _take_match_all),
        ("reduce_add_sync", _reduction(_sum, is_idempotent=False)),
        ("reduce_min_sync", _reduction(partial(_extremum, "min"))),
        ("reduce_max_sync", _reduction(partial(_extremum, "max"))),
        ("reduce_and_sync", _reduction(partial(_bitwise, "and_"))),
        ("reduce_or_sync", _reduction(partial(_bitwise, "or_"))),
        ("reduce_xor_sync", _reduction(partial(_bitwise, "xor"), is_idempotent=False)),
    )
}
