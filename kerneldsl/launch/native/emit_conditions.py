"""Native code that looks whether packed arguments fulfil the conditions of a table."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from kerneldsl.launch.native.builder import I8, I16, I32, I64, POINTER, Function
from kerneldsl.launch.native.conditions import CONDITION_WORDS, ConditionKind

__all__ = ["emit_conditions"]


def emit_conditions(module: ir.Module) -> Any:
    """Emit ``i32 conditions(ptr words, i64 count, ptr buffer)``: 1 where every condition holds."""
    bounds, few = _emit_bounds(module), _emit_few(module)
    f = Function(module, "conditions", I32, [POINTER, I64, POINTER], is_internal=True)
    words, count, buffer = f.args
    bad = f.block("bad")
    room = [(f.b.alloca(I64), f.b.alloca(I64)) for _ in range(2)]
    with f.loop(count) as i:
        condition = f.at(words, f.b.mul(i, I64(8 * CONDITION_WORDS)))
        step = f.block("step")
        switch = f.b.switch(f.load(condition), bad)
        for kind in ConditionKind:
            f.case(switch, kind, kind.name.lower())
            if kind is ConditionKind.ALIGNED:
                rest = f.b.and_(_parameter(f, buffer, condition, 0), f.load(condition, 16))
                holds = f.equal(rest, f.load(condition, 24))
            elif kind is ConditionKind.SAME:
                first, second = (_parameter(f, buffer, condition, which) for which in range(2))
                holds = f.equal(first, second)
            elif kind is ConditionKind.FEW:
                holds = f.equal(f.b.call(few, [condition, buffer]), I32(1))
            elif kind is ConditionKind.WITHIN:
                holds = _is_within(f, buffer, condition, bad)
            else:
                holds = _are_distinct(f, buffer, condition, bounds, room)
            f.b.cbranch(holds, step, bad)
        f.b.position_at_end(step)
    return f.accept(bad)


def _parameter(f: Function, buffer: Any, condition: Any, which: int, kind: Any = I64) -> Any:
    """Return the first or second parameter of a condition."""
    return f.load(f.at(buffer, f.load(condition, 8 + 8 * which)), 0, kind)


def _is_within(f: Function, buffer: Any, condition: Any, bad: Any) -> Any:
    known = f.block("known")
    switch = f.b.switch(f.load(condition, 16), bad)
    loaded = []
    for kind in (I8, I16, I32, I64):
        for is_signed in (False, True):
            block = f.case(switch, kind.width // 8 + 256 * is_signed, "integer")
            number = _parameter(f, buffer, condition, 0, kind)
            if kind is not I64:
                number = f.b.sext(number, I64) if is_signed else f.b.zext(number, I64)
            loaded.append((number, block))
            f.b.branch(known)
    f.b.position_at_end(known)
    value = f.b.phi(I64)
    for number, block in loaded:
        value.add_incoming(number, block)
    is_enough = f.b.icmp_signed(">=", value, f.load(condition, 24))
    return f.b.and_(is_enough, f.b.icmp_signed("<=", value, f.load(condition, 32)))


def _are_distinct(f: Function, buffer: Any, condition: Any, bounds: Any, room: Any) -> Any:
    for which, (low, high) in enumerate(room):
        start = f.at(buffer, f.load(condition, 8 + 8 * which))
        rank, item_bytes = (f.load(condition, 24 + 16 * which + 8 * j) for j in range(2))
        f.b.call(bounds, [start, rank, item_bytes, low, high])
    (low_a, high_a), (low_b, high_b) = ((f.load(low), f.load(high)) for low, high in room)
    before = f.b.icmp_unsigned("<=", high_a, low_b)
    after = f.b.icmp_unsigned("<=", high_b, low_a)
    is_one_empty = f.b.or_(f.equal(low_a, high_a), f.equal(low_b, high_b))
    return f.b.or_(f.b.or_(before, after), is_one_empty)


def _emit_few(module: ir.Module) -> Any:
    """Emit ``i32 few(ptr condition, ptr buffer)``: 1 where extents and their product are small."""
    f = Function(module, "few", I32, [POINTER, POINTER], is_internal=True)
    condition, buffer = f.args
    bad = f.block("bad")
    extents = f.at(buffer, f.load(condition, 8))
    high = f.load(condition, 24)
    product, has_none = f.b.alloca(I64), f.b.alloca(ir.IntType(1))
    f.store(I64(1), product)
    f.store(ir.Constant(ir.IntType(1), 0), has_none)
    is_many = f.b.alloca(ir.IntType(1))
    f.store(ir.Constant(ir.IntType(1), 0), is_many)
    with f.loop(f.load(condition, 16)) as i:
        extent = f.load(extents, f.b.mul(i, I64(8)))
        f.require(f.b.icmp_signed("<=", extent, high), bad)
        with f.b.if_then(f.equal(extent, I64(0))):
            f.store(ir.Constant(ir.IntType(1), 1), has_none)
        found = f.b.mul(f.load(product), extent)  # of two numbers below 2**32
        is_more = f.b.icmp_unsigned(">", found, high)
        f.store(f.b.or_(is_more, f.load(is_many, 0, ir.IntType(1))), is_many)
        f.store(f.b.select(is_more, I64(1), found), product)
    is_few = f.b.not_(f.load(is_many, 0, ir.IntType(1)))
    f.b.ret(f.b.zext(f.b.or_(is_few, f.load(has_none, 0, ir.IntType(1))), I32))
    return f.refuse(bad)


def _emit_bounds(module: ir.Module) -> Any:
    """Emit ``void bounds(ptr array, i64 rank, i64 item_bytes, ptr low, ptr high)``.

    First and past-the-last address of an array, whose pointer, extents and, for a rank of 256 and
    more, strides begin at `array`; two equal ones where an extent is 0.
    """
    f = Function(
        module, "bounds", ir.VoidType(), [POINTER, I64, I64, POINTER, POINTER], is_internal=True
    )
    array, coded_rank, item_bytes, low, high = f.args
    rank = f.b.and_(coded_rank, I64(255))
    has_strides = f.b.icmp_signed(">=", coded_rank, I64(256))
    count = f.b.alloca(I64)
    f.store(I64(1), count)
    pointer = f.load(array)
    f.store(pointer, low)
    f.store(f.b.add(pointer, item_bytes), high)
    extents = f.at(array, 8)
    strides = f.at(extents, f.b.mul(rank, I64(8)))
    with f.loop(rank) as i:
        at = f.b.mul(i, I64(8))
        extent = f.load(extents, at)
        f.store(f.b.mul(f.load(count), extent), count)
        with f.b.if_then(has_strides):
            reach = f.b.mul(f.b.sub(extent, I64(1)), f.load(strides, at))
            end = f.b.select(f.b.icmp_signed("<", reach, I64(0)), low, high)
            f.store(f.b.add(f.load(end), reach), end)
    with f.b.if_then(f.b.not_(has_strides)):
        f.store(f.b.add(pointer, f.b.mul(f.load(count), item_bytes)), high)
    with f.b.if_then(f.equal(f.load(count), I64(0))):
        f.store(pointer, low)
        f.store(pointer, high)
    f.b.ret_void()
    return f.function
