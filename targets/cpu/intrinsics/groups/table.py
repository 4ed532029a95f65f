"""List the operations of warps and blocks that exchange values; post and take single values."""

from __future__ import annotations

from functools import partial

from llvmlite import ir

from kerneldsl.language.intrinsics.intrinsic import Scope
from kerneldsl.lowering.calls import Call
from kerneldsl.lowering.groups import (
    behind_initial,
    combination,
    fenced,
)
from targets.cpu.intrinsics.groups.buffer import (
    I1,
    I32,
    I64,
    GroupBuffer,
    exchange,
    is_any,
)
from targets.cpu.intrinsics.groups.combine import reduce_values, scan_before, scan_values
from targets.cpu.intrinsics.groups.sort import SORT_WORDS, post_pairs, sort_pairs, take_pair
from targets.cpu.intrinsics.warp import WARP_SIZE, Exchange

__all__ = ["GROUPS"]


def _groups() -> dict[str, Exchange]:
    """Return what exchanges values; the votes of a block are barriers (``intrinsics.table``)."""
    exchanges = {
        f"warp.{vote}": exchange(_post_predicate, take)
        for vote, take in (("any", _take_any), ("all", _take_all), ("count", _take_count))
    }
    for scope in (Scope.WARP, Scope.BLOCK):
        group = scope.name.lower()
        for operation in ("sum", "max", "min", "reduce"):
            name = f"{group}.{operation}"
            take = partial(_take_common, name, scope)
            exchanges[name] = exchange(_post_value, take, partial(reduce_values, name, scope))
        name = f"{group}.inclusive_scan"
        combine = partial(scan_values, name, scope)
        exchanges[name] = exchange(_post_value, partial(_take_own, name), combine)
        name = f"{group}.exclusive_scan"
        combine = partial(scan_before, name, scope)
        exchanges[name] = exchange(_post_value, partial(_take_before, name), combine)
        exchanges[f"{group}.broadcast"] = exchange(
            partial(_post_source, scope),
            partial(_take_common, f"{group}.broadcast", scope),
        )
        exchanges[f"{group}.exchange"] = exchange(_post_value, partial(_take_source, scope))
        exchanges[f"{group}.sort"] = exchange(
            post_pairs, take_pair, partial(sort_pairs, scope), words=SORT_WORDS
        )
    return exchanges


def _post_value(room: GroupBuffer, call: Call) -> ir.Value:
    value = fenced(call, call.args[0])
    room.builder.store(value, room.builder.gep(room.values(value.type), [room.number]))
    return call.context.get_dummy_value()


def _post_source(scope: Scope, room: GroupBuffer, call: Call) -> ir.Value:
    """Write the value of the thread that the others name, where they will look for it."""
    builder, (value, source) = room.builder, call.args
    own, first = room.number, I64(0)
    if scope is Scope.WARP:
        own, first = room.lane, builder.sub(room.number, room.lane)
    with builder.if_then(builder.icmp_signed("==", own, builder.sext(source, I64))):
        builder.store(value, builder.gep(room.values(value.type), [first]))
    return call.context.get_dummy_value()


def _take_source(scope: Scope, room: GroupBuffer, call: Call) -> ir.Value:
    builder, (value, source) = room.builder, call.args
    wanted = builder.sext(source, I64)
    count = builder.mul(room.warps, I64(WARP_SIZE))
    if scope is Scope.WARP:
        is_lane = builder.icmp_unsigned("<", wanted, I64(WARP_SIZE))
        wanted = builder.add(builder.sub(room.number, room.lane), wanted)
        wanted = builder.select(is_lane, wanted, room.number)
    is_thread = builder.icmp_unsigned("<", wanted, count)
    wanted = builder.select(is_thread, wanted, room.number)
    present = room.present(builder.udiv(wanted, I64(WARP_SIZE)))
    lane = builder.trunc(builder.urem(wanted, I64(WARP_SIZE)), I32)
    takes_part = builder.trunc(builder.lshr(present, lane), I1)
    wanted = builder.select(takes_part, wanted, room.number)
    return builder.load(builder.gep(room.values(value.type), [wanted]))


def _take_own(name: str, room: GroupBuffer, call: Call) -> ir.Value:
    found = combination(name, call)
    place = room.builder.gep(room.values(found.value_type), [room.number])
    return found.finish(room.builder, room.builder.load(place))


def _take_common(name: str, scope: Scope, room: GroupBuffer, call: Call) -> ir.Value:
    """Return the result of the warp or of the block, which is in its first thread's place."""
    builder, found = room.builder, combination(name, call)
    first = I64(0) if scope is Scope.BLOCK else builder.sub(room.number, room.lane)
    return found.finish(builder, builder.load(builder.gep(room.values(found.value_type), [first])))


def _take_before(name: str, room: GroupBuffer, call: Call) -> ir.Value:
    builder, found = room.builder, combination(name, call)
    has_any = builder.trunc(builder.lshr(room.bits(), builder.trunc(room.lane, I32)), I1)
    before = builder.load(builder.gep(room.values(found.value_type), [room.number]))
    return found.finish(builder, behind_initial(call, found, has_any, before))


def _post_predicate(room: GroupBuffer, call: Call) -> ir.Value:
    builder = room.builder
    is_true = call.context.is_true(builder, call.signature.args[0], call.args[0])
    with builder.if_then(is_true):
        room.set_bit(room.warp, room.lane)
    return call.context.get_dummy_value()


def _take_any(room: GroupBuffer, call: Call) -> ir.Value:
    return is_any(room.builder, room.bits())


def _take_all(room: GroupBuffer, call: Call) -> ir.Value:
    return room.builder.icmp_unsigned("==", room.bits(), room.present(room.warp))


def _take_count(room: GroupBuffer, call: Call) -> ir.Value:
    return room.builder.ctpop(room.bits())


GROUPS: dict[str, Exchange] = _groups()
