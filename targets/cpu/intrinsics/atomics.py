"""Atomic operations on array elements, and fences."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from kerneldsl.language.intrinsics.intrinsic import Effect
from kerneldsl.language.intrinsics.table import INTRINSICS
from kerneldsl.lowering.calls import Call, Emitter
from kerneldsl.lowering.numba_internals.arrays import element_pointer
from kerneldsl.lowering.vectors import VectorType

__all__ = ["ATOMICS", "fence"]


def fence(call: Call) -> None:
    """Order memory accesses between threads."""
    call.builder.fence("seq_cst")


_NATIVE_INTEGER = {
    "add": "add",
    "sub": "sub",
    "exch": "xchg",
    "and_": "and",
    "or_": "or",
    "xor": "xor",
}


def _read_modify_write(short: str, private: bool, call: Call) -> ir.Value:
    """Perform an operation on an element; on memory of one block, an ordinary one is atomic."""
    builder, dtype = call.builder, call.signature.return_type
    pointer, value = element_pointer(call), call.args[2]
    if not isinstance(dtype, VectorType):
        return _update(call, short, dtype, pointer, value, private=private)
    parts = []
    for number in range(len(dtype.fields)):
        place = cgutils.gep_inbounds(builder, pointer, 0, number)
        part = builder.extract_value(value, number)
        parts.append(_update(call, short, dtype.item, place, part, private=private))
    return cgutils.pack_struct(builder, parts)


def _update(
    call: Call, short: str, dtype: Any, pointer: ir.Value, value: ir.Value, *, private: bool
) -> ir.Value:
    """Perform it on one number at an address."""
    context, builder = call.context, call.builder
    if private:
        model = context.data_model_manager[dtype]
        old = model.from_data(builder, builder.load(pointer))
        new = _combine(context, builder, short, dtype, old, value)
        builder.store(model.as_data(builder, new), pointer)
        return old
    if isinstance(dtype, types.Integer):
        native = _NATIVE_INTEGER.get(short)
        if short in ("max", "min"):
            native = short if dtype.signed else "u" + short
        if native is not None:
            return builder.atomic_rmw(native, pointer, value, "seq_cst")
    return _compare_and_swap_loop(context, builder, pointer, short, dtype, value)


def _combine(context: Any, builder: Any, short: str, dtype: Any, old: Any, value: Any) -> Any:
    """Return the element's new value."""
    is_float = isinstance(dtype, types.Float)
    if short == "exch":
        return value
    if short in ("add", "sub"):
        if is_float:  # the element type's own arithmetic
            add = context.get_function(getattr(operator, short), dtype(dtype, dtype))
            return add(builder, (old, value))
        return getattr(builder, short)(old, value)
    if short in ("max", "min"):
        relation = ">" if short == "max" else "<"
        if is_float:
            # A NaN yields to a number: replace when the old one is NaN or loses.
            loses = builder.fcmp_ordered(relation, value, old)
            old_is_nan = builder.fcmp_unordered("uno", old, old)
            return builder.select(builder.or_(loses, old_is_nan), value, old)
        compare = builder.icmp_signed if dtype.signed else builder.icmp_unsigned
        return builder.select(compare(relation, value, old), value, old)
    if short in ("and_", "or_", "xor"):
        return {"and_": builder.and_, "or_": builder.or_, "xor": builder.xor}[short](old, value)
    one, zero = old.type(1), old.type(0)
    if short == "inc":
        wraps = builder.icmp_unsigned(">=", old, value)
        return builder.select(wraps, zero, builder.add(old, one))
    wraps = builder.or_(
        builder.icmp_unsigned("==", old, zero), builder.icmp_unsigned(">", old, value)
    )
    return builder.select(wraps, value, builder.sub(old, one))


def _compare_and_swap_loop(
    context: Any, builder: Any, pointer: Any, short: str, dtype: Any, value: Any
) -> Any:
    model = context.data_model_manager[dtype]
    bits = ir.IntType(dtype.bitwidth)
    as_bits = builder.bitcast(pointer, bits.as_pointer())
    first = builder.load(as_bits)
    start = builder.block
    loop = builder.append_basic_block("atomic.loop")
    done = builder.append_basic_block("atomic.done")
    builder.branch(loop)
    builder.position_at_end(loop)
    seen = builder.phi(bits)
    seen.add_incoming(first, start)
    old = model.from_data(builder, builder.bitcast(seen, model.get_data_type()))
    new = _combine(context, builder, short, dtype, old, value)
    new = builder.bitcast(model.as_data(builder, new), bits)
    pair = builder.cmpxchg(as_bits, seen, new, "seq_cst", "seq_cst")
    seen.add_incoming(builder.extract_value(pair, 0), builder.block)
    builder.cbranch(builder.extract_value(pair, 1), done, loop)
    builder.position_at_end(done)
    return old


def _compare_and_swap(private: bool, call: Call) -> ir.Value:
    builder, dtype = call.builder, call.signature.return_type
    model, bits = call.context.data_model_manager[dtype], ir.IntType(dtype.bitwidth)
    place = builder.bitcast(element_pointer(call), bits.as_pointer())
    stored = [model.as_data(builder, each) for each in call.args[2:]]
    expected, value = (builder.bitcast(each, bits) for each in stored)
    if private:
        old = builder.load(place)
        equal = builder.icmp_unsigned("==", old, expected)
        builder.store(builder.select(equal, value, old), place)
    else:
        pair = builder.cmpxchg(place, expected, value, "seq_cst", "seq_cst")
        old = builder.extract_value(pair, 0)
    return model.from_data(builder, builder.bitcast(old, stored[0].type))


#: LLVM's name of each order; every other thread is of the same machine, whatever the scope is.
_ORDERS = {
    "relaxed": "monotonic",
    "acquire": "acquire",
    "release": "release",
    "seq_cst": "seq_cst",
}


def _load(private: bool, call: Call) -> ir.Value:
    builder, dtype = call.builder, call.signature.return_type
    model, bits = call.context.data_model_manager[dtype], ir.IntType(dtype.bitwidth)
    place = builder.bitcast(element_pointer(call), bits.as_pointer())
    if private:
        found = builder.load(place)
    else:
        found = builder.load_atomic(place, _ORDERS[call.static["order"]], dtype.bitwidth // 8)
    return model.from_data(builder, builder.bitcast(found, model.get_data_type()))


def _store(private: bool, call: Call) -> None:
    builder, dtype = call.builder, call.signature.args[0].dtype
    bits = ir.IntType(dtype.bitwidth)
    stored = call.context.data_model_manager[dtype].as_data(builder, call.args[2])
    place = builder.bitcast(element_pointer(call), bits.as_pointer())
    word = builder.bitcast(stored, bits)
    if private:
        builder.store(word, place)
    else:
        order = _ORDERS[call.static["order"]]
        builder.store_atomic(word, place, order, dtype.bitwidth // 8)


def _emitter(name: str, *, private: bool) -> Emitter:
    short = name.removeprefix("atomic.")
    if short in ("load", "store"):
        return partial({"load": _load, "store": _store}[short], private)
    if short == "cas":
        return partial(_compare_and_swap, private)
    return partial(_read_modify_write, short, private)


#: Name of each operation to what performs it on memory of all blocks, and on memory of one block,
#: and so of one worker.
ATOMICS: dict[str, tuple[Emitter, Emitter]] = {
    name: (_emitter(name, private=False), _emitter(name, private=True))
    for name, known in INTRINSICS.items()
    if known.effect & Effect.ATOMIC
}
