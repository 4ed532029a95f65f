"""Atomic operations on array elements, and fences."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import errors, types
from numba.core import cgutils
from numba.extending import intrinsic

from kerneldsl.language.intrinsics import INTRINSICS, Effect
from kerneldsl.lowering.numba_internals.arrays import basic_indexing, make_array, normalize_indices

__all__ = ["ATOMICS", "fence"]


@intrinsic
def fence(typingctx: Any) -> Any:
    """Order memory accesses between threads."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.none(), generate


def _atomic(name: str, *, private: bool) -> Callable[..., Any]:
    """Make the intrinsic of one atomic operation.

    Parameters
    ----------
    name : str
        The intrinsic's name, such as ``"atomic.add"``.
    private : bool
        Whether the array belongs to one block, and so to one worker: then an ordinary read,
        modify and write is indivisible already.
    """
    operation = INTRINSICS[name]
    short = name.removeprefix("atomic.")

    def signature_of(array: Any, index: Any, values: tuple[Any, ...]) -> Any:
        if not isinstance(array, types.Array):
            raise errors.TypingError(f"{name} takes an array, not {array}")
        if str(array.dtype) not in operation.dtypes:
            raise errors.TypingError(
                f"{name} takes arrays of {', '.join(operation.dtypes)}, not {array.dtype}"
            )
        if not array.mutable:
            raise errors.TypingError(f"{name} writes to a read-only array")
        indices = tuple(index) if isinstance(index, types.BaseTuple) else (index,)
        if not all(isinstance(types.unliteral(i), types.Integer) for i in indices):
            raise errors.TypingError(f"{name} takes integer indices, not {index}")
        count = len(indices)
        if count != array.ndim:
            raise errors.TypingError(
                f"{name} takes one index for each of {array.ndim} axes, not {count}"
            )
        converted = [array.dtype] * len(values)
        return array.dtype(array, index, *converted)

    def place_of(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array, index = signature.args[:2]
        if isinstance(index, types.BaseTuple):
            kinds: tuple[Any, ...] = tuple(index)
            values = cgutils.unpack_tuple(builder, args[1], len(index))
        else:
            kinds, values = (index,), [args[1]]
        kinds, values = normalize_indices(context, builder, kinds, values)
        structure = make_array(array)(context, builder, args[0])
        pointer, _, _ = basic_indexing(
            context, builder, array, structure, kinds, values, boundscheck=False
        )
        return pointer

    if short == "cas":

        @intrinsic
        def compare_and_swap(
            typingctx: Any, array: Any, index: Any, expected: Any, value: Any
        ) -> Any:
            def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                pointer = place_of(context, builder, signature, args)
                model = context.data_model_manager[signature.return_type]
                expected_bits, value_bits = (model.as_data(builder, arg) for arg in args[2:])
                old = _exchange_if_equal(
                    builder, pointer, signature.return_type, expected_bits, value_bits, private
                )
                return model.from_data(builder, old)

            return signature_of(array, index, (expected, value)), generate

        return compare_and_swap  # type: ignore[no-any-return]

    @intrinsic
    def apply(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = place_of(context, builder, signature, args)
            dtype = signature.args[0].dtype
            return _read_modify_write(context, builder, pointer, short, dtype, args[2], private)

        return signature_of(array, index, (value,)), generate

    return apply  # type: ignore[no-any-return]


_NATIVE_INTEGER = {
    "add": "add",
    "sub": "sub",
    "exch": "xchg",
    "and_": "and",
    "or_": "or",
    "xor": "xor",
}


def _read_modify_write(
    context: Any, builder: Any, pointer: Any, short: str, dtype: Any, value: Any, private: bool
) -> Any:
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
    """The element's new value."""
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


def _exchange_if_equal(
    builder: Any, pointer: Any, dtype: Any, expected: Any, value: Any, private: bool
) -> Any:
    kind, bits = value.type, ir.IntType(dtype.bitwidth)
    as_bits = builder.bitcast(pointer, bits.as_pointer())
    wanted, new = builder.bitcast(expected, bits), builder.bitcast(value, bits)
    if private:
        old = builder.load(as_bits)
        equal = builder.icmp_unsigned("==", old, wanted)
        builder.store(builder.select(equal, new, old), as_bits)
    else:
        pair = builder.cmpxchg(as_bits, wanted, new, "seq_cst", "seq_cst")
        old = builder.extract_value(pair, 0)
    return builder.bitcast(old, kind)


#: Name of each operation to what performs it on memory of all blocks, and on memory of one block.
ATOMICS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    name: (_atomic(name, private=False), _atomic(name, private=True))
    for name, known in INTRINSICS.items()
    if known.effect & Effect.ATOMIC
}
