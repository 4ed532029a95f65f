"""The operations that generated CPU code calls, as Numba intrinsics.

Each is an LLVM sequence of a few instructions. Storage of a block (shared arrays, private values
that outlive a barrier) lives on the stack of the worker that runs the block, or, where it is
large, in scratch memory that the native entry allocates for each call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import register_default
from numba.core.datamodel.models import OpaqueModel
from numba.core.errors import TypingError
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic
from numba.np.arrayobj import (
    basic_indexing,
    make_array,
    normalize_indices,
)
from numba.np.numpy_support import from_dtype

from kerneldsl.language.intrinsics import INTRINSICS
from kerneldsl.lowering.arrays import array_value
from kerneldsl.lowering.printing import format_value

__all__ = [
    "SlotType",
    "UnknownType",
    "array_maker",
    "array_view",
    "atomic",
    "checker",
    "faulter",
    "fence",
    "load_slot",
    "printer",
    "same",
    "slot_maker",
    "store_slot",
    "unknown",
    "unsigned",
]

_BYTE = ir.IntType(8)
_I32 = ir.IntType(32)
_I64 = ir.IntType(64)
#: Vector loads of any width the host has may start at this alignment.
_ALIGNMENT = 64


@intrinsic
def unsigned(typingctx: Any, value: Any) -> Any:
    """Take an index that is known not to be negative as unsigned: no wraparound is compiled."""
    if not isinstance(value, types.Integer) or isinstance(value, types.Boolean):
        return value(value), lambda context, builder, signature, args: args[0]

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.cast(builder, args[0], value, types.uintp)

    return types.uintp(value), generate


@intrinsic
def same(typingctx: Any, value: Any) -> Any:
    """Give the value back."""
    return value(value), lambda context, builder, signature, args: args[0]


class UnknownType(types.Type):
    """The type of a variable that has no value yet; it yields to any other."""

    def __init__(self) -> None:
        super().__init__(name="Unknown")

    def unify(self, typingctx: Any, other: Any) -> Any:
        """Where two ways meet, the other's type is the variable's."""
        return other


@intrinsic
def unknown(typingctx: Any) -> Any:
    """A value of unknown type, for inference alone."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        raise AssertionError("a function made for inference alone was lowered")

    return UnknownType()(), generate


def printer(texts: tuple[str | None, ...]) -> Callable[..., Any]:
    """Make the intrinsic of one ``print``: C's ``printf``, and its buffer emptied.

    Numba's own goes through Python, whose lock a kernel does not hold.

    Parameters
    ----------
    texts : tuple of str or None
        The constant strings among the arguments, ``None`` for each value.
    """

    @intrinsic
    def show(typingctx: Any, *values: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            members = iter(cgutils.unpack_tuple(builder, args[0], len(values)))
            kinds = iter(values)
            parts: list[str] = []
            flat: list[Any] = []
            for text in texts:
                if text is not None:
                    parts.append(text.replace("%", "%%"))
                    continue
                form, numbers = format_value(context, builder, next(kinds), next(members))
                parts.append(form)
                flat += numbers
            pointer = _BYTE.as_pointer()
            module = builder.module
            printf = cgutils.get_or_insert_function(
                module, ir.FunctionType(_I32, [pointer], var_arg=True), "printf"
            )
            flush = cgutils.get_or_insert_function(
                module, ir.FunctionType(_I32, [pointer]), "fflush"
            )
            line = context.insert_const_string(module, " ".join(parts) + "\n")
            builder.call(printf, [line, *flat])
            builder.call(flush, [ir.Constant(pointer, None)])
            return context.get_dummy_value()

        return types.none(types.StarArgTuple(values)), generate

    return show  # type: ignore[no-any-return]


@intrinsic
def fence(typingctx: Any) -> Any:
    """Order memory accesses between threads."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.none(), generate


# -- arrays of a block or a thread ------------------------------------------------------------


def array_maker(
    dtype: str, shape: tuple[int, ...], copies: int = 1, offset: int | None = None
) -> Callable[..., Any]:
    """Make the intrinsic that gives a static array.

    Parameters
    ----------
    dtype : str
        Element dtype.
    shape : tuple of int
        Extents; ``(0,)`` is dynamic shared memory, whose bytes the intrinsic takes as argument.
    copies : int
        How many such arrays to reserve, one after the other: one for each thread, for a private
        array that outlives a barrier.
    offset : int or None
        Bytes into the scratch memory; ``None`` for the stack.

    Returns
    -------
    callable
        ``make(scratch, dynamic_bytes) -> array``; both arguments are int64 and may go unused.
    """
    element = from_dtype(np.dtype(dtype))
    array_type = types.Array(element, len(shape), "C")

    @intrinsic
    def make(typingctx: Any, scratch: Any, dynamic_bytes: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            stored = context.get_data_type(element)
            if offset is None:
                storage = ir.ArrayType(stored, max(1, math.prod(shape) * copies))
                data = cgutils.alloca_once(builder, storage)
                data.align = _ALIGNMENT
            else:
                address = builder.add(args[0], _I64(offset))
                data = builder.inttoptr(address, stored.as_pointer())
            if shape == (0,):
                item = context.get_abi_sizeof(stored)
                extents: tuple[Any, ...] = (builder.udiv(args[1], _I64(item)),)
            else:
                extents = tuple(_I64(n) for n in shape)
            return array_value(context, builder, array_type, data, extents)

        return array_type(types.int64, types.int64), generate

    return make  # type: ignore[no-any-return]


@intrinsic
def array_view(typingctx: Any, array: Any, index: Any) -> Any:
    """The `index`-th of the arrays that ``array_maker(copies=…)`` reserved one after the other."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        first = make_array(array)(context, builder, args[0])
        count: Any = _I64(1)
        extents = tuple(cgutils.unpack_tuple(builder, first.shape, array.ndim))
        for extent in extents:
            count = builder.mul(count, extent)
        data = builder.gep(first.data, [builder.mul(count, args[1])])
        return array_value(context, builder, array, data, extents)

    return array(array, types.int64), generate


# -- private values that outlive a barrier ----------------------------------------------------


class SlotType(types.Type):
    """One value of a Numba type for each thread along the last 1, 2 or 3 axes of a block."""

    def __init__(self, element: Any, dims: tuple[int, ...]) -> None:
        self.element = element
        self.dims = dims
        super().__init__(name=f"Slot({element}, {dims})")


register_default(SlotType)(OpaqueModel)


def slot_maker(element: Any, dims: tuple[int, ...], offset: int | None) -> Callable[..., Any]:
    """Make the intrinsic ``make(scratch) -> slot`` that reserves one value a thread.

    Parameters
    ----------
    element : numba.types.Type
        Type of the value.
    dims : tuple of int
        Threads along z, y, x, or along x alone.
    offset : int or None
        Bytes into the scratch memory; ``None`` for the stack.
    """
    slot = SlotType(element, dims)

    @intrinsic
    def make(typingctx: Any, scratch: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            if offset is None:
                storage: Any = context.get_data_type(element)
                for n in reversed(dims):
                    storage = ir.ArrayType(storage, n)
                pointer = cgutils.alloca_once(builder, storage)
                pointer.align = _ALIGNMENT
                return builder.bitcast(pointer, cgutils.voidptr_t)
            return builder.inttoptr(builder.add(args[0], _I64(offset)), cgutils.voidptr_t)

        return slot(types.int64), generate

    return make  # type: ignore[no-any-return]


def _slot_place(context: Any, builder: Any, slot: SlotType, pointer: Any, indices: Any) -> Any:
    storage: Any = context.get_data_type(slot.element)
    for n in reversed(slot.dims):
        storage = ir.ArrayType(storage, n)
    typed = builder.bitcast(pointer, storage.as_pointer())
    return builder.gep(typed, [_I64(0), *indices], inbounds=True)


@intrinsic
def load_slot(typingctx: Any, slot: Any, index: Any) -> Any:
    """Read this thread's value; `index` is a tuple of int64, one for each axis of the slot."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        indices = cgutils.unpack_tuple(builder, args[1], len(index))
        place = _slot_place(context, builder, slot, args[0], indices)
        model = context.data_model_manager[slot.element]
        return model.from_data(builder, builder.load(place))

    return slot.element(slot, index), generate


@intrinsic
def store_slot(typingctx: Any, slot: Any, index: Any, value: Any) -> Any:
    """Write this thread's value, converted as Numba converts where two assignments meet.

    A value that cannot be converted is not written: it belongs to another version of the variable,
    of another type, which has a slot of its own.
    """
    convertible = typingctx.can_convert(value, slot.element) is not None

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if convertible:
            indices = cgutils.unpack_tuple(builder, args[1], len(index))
            place = _slot_place(context, builder, slot, args[0], indices)
            converted = context.cast(builder, args[2], value, slot.element)
            model = context.data_model_manager[slot.element]
            builder.store(model.as_data(builder, converted), place)
        return context.get_dummy_value()

    return types.none(slot, index, value), generate


# -- atomics ----------------------------------------------------------------------------------


def atomic(name: str, *, private: bool) -> Callable[..., Any]:
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
            raise TypingError(f"{name} takes an array, not {array}")
        if str(array.dtype) not in operation.dtypes:
            raise TypingError(
                f"{name} takes arrays of {', '.join(operation.dtypes)}, not {array.dtype}"
            )
        if not array.mutable:
            raise TypingError(f"{name} writes to a read-only array")
        indices = tuple(index) if isinstance(index, types.BaseTuple) else (index,)
        if not all(isinstance(types.unliteral(i), types.Integer) for i in indices):
            raise TypingError(f"{name} takes integer indices, not {index}")
        count = len(indices)
        if count != array.ndim:
            raise TypingError(f"{name} takes one index for each of {array.ndim} axes, not {count}")
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
                return _exchange_if_equal(builder, pointer, args[2], args[3], private)

            return signature_of(array, index, (expected, value)), generate

        return compare_and_swap  # type: ignore[no-any-return]

    @intrinsic
    def apply(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = place_of(context, builder, signature, args)
            dtype = signature.args[0].dtype
            old = _read_modify_write(builder, pointer, short, dtype, args[2], private)
            return impl_ret_borrowed(context, builder, dtype, old)

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
    builder: Any, pointer: Any, short: str, dtype: Any, value: Any, private: bool
) -> Any:
    is_float = isinstance(dtype, types.Float)
    signed = isinstance(dtype, types.Integer) and dtype.signed
    if private:
        old = builder.load(pointer)
        builder.store(_combine(builder, short, old, value, is_float, signed), pointer)
        return old
    if not is_float:
        native = _NATIVE_INTEGER.get(short)
        if short in ("max", "min"):
            native = short if signed else "u" + short
        if native is not None:
            return builder.atomic_rmw(native, pointer, value, "seq_cst")
    return _compare_and_swap_loop(builder, pointer, short, value, is_float, signed)


def _combine(builder: Any, short: str, old: Any, value: Any, is_float: bool, signed: bool) -> Any:
    """The element's new value."""
    if short == "exch":
        return value
    if short in ("add", "sub"):
        return getattr(builder, ("f" if is_float else "") + short)(old, value)
    if short in ("max", "min"):
        relation = ">" if short == "max" else "<"
        if is_float:
            # A NaN yields to a number: replace when the old one is NaN or loses.
            loses = builder.fcmp_ordered(relation, value, old)
            old_is_nan = builder.fcmp_unordered("uno", old, old)
            return builder.select(builder.or_(loses, old_is_nan), value, old)
        compare = builder.icmp_signed if signed else builder.icmp_unsigned
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
    builder: Any, pointer: Any, short: str, value: Any, is_float: bool, signed: bool
) -> Any:
    kind = value.type
    bits = ir.IntType(64 if str(kind) in ("double", "i64") else 32)
    as_bits = builder.bitcast(pointer, bits.as_pointer())
    first = builder.load(as_bits)
    start = builder.block
    loop = builder.append_basic_block("atomic.loop")
    done = builder.append_basic_block("atomic.done")
    builder.branch(loop)
    builder.position_at_end(loop)
    seen = builder.phi(bits)
    seen.add_incoming(first, start)
    old = builder.bitcast(seen, kind)
    new = builder.bitcast(_combine(builder, short, old, value, is_float, signed), bits)
    pair = builder.cmpxchg(as_bits, seen, new, "seq_cst", "seq_cst")
    seen.add_incoming(builder.extract_value(pair, 0), builder.block)
    builder.cbranch(builder.extract_value(pair, 1), done, loop)
    builder.position_at_end(done)
    return old


def _exchange_if_equal(builder: Any, pointer: Any, expected: Any, value: Any, private: bool) -> Any:
    kind = value.type
    bits = ir.IntType(64 if str(kind) in ("double", "i64") else 32)
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


# -- debug mode -------------------------------------------------------------------------------


def _record_fault(
    context: Any,
    builder: Any,
    record: Any,
    words: tuple[Any, Any],
    numbers: tuple[Any, Any],
    place: list[Any],
) -> None:
    """Claim the fault record if nobody has, fill it, and leave the compiled function.

    The record's layout is `kerneldsl.lowering.faults.FaultRecord`.
    """
    pointer = builder.inttoptr(record, _I32.as_pointer())
    claimed = builder.cmpxchg(pointer, _I32(0), _I32(1), "seq_cst", "seq_cst")
    with builder.if_then(builder.extract_value(claimed, 1)):
        for i, word in enumerate(words):
            builder.store(word, builder.gep(pointer, [_I32(1 + i)]))
        wide = builder.bitcast(pointer, _I64.as_pointer())
        for i, number in enumerate(numbers):
            builder.store(number, builder.gep(wide, [_I32(2 + i)]))
        for i, coordinate in enumerate(place):
            narrow = builder.trunc(coordinate, _I32)
            builder.store(narrow, builder.gep(pointer, [_I32(8 + i)]))
    context.call_conv.return_user_exc(builder, RuntimeError, ("kernel fault",))


@intrinsic
def checker(
    typingctx: Any,
    index: Any,
    bound: Any,
    site: Any,
    axis: Any,
    wraps: Any,
    record: Any,
    place: Any,
) -> Any:
    """Give `index` back if it lies in its bound; else record the fault and end the thread.

    `place` is the tuple (thread x, y, z, block x, y, z), `record` the address of the fault record,
    `wraps` whether a negative index counts from the end.
    """
    if not isinstance(index, types.Integer):
        return index(index, bound, site, axis, wraps, record, place), (
            lambda context, builder, signature, args: args[0]
        )

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = context.cast(builder, args[0], index, types.int64)
        limit = args[1]
        low = builder.select(args[4], builder.neg(limit), _I64(0))
        inside = builder.icmp_signed("<", value, limit)
        if index.signed:
            inside = builder.and_(inside, builder.icmp_signed(">=", value, low))
        else:
            inside = builder.icmp_unsigned("<", value, limit)
        with builder.if_then(builder.not_(inside), likely=False):
            words = (builder.trunc(args[2], _I32), builder.trunc(args[3], _I32))
            coordinates = cgutils.unpack_tuple(builder, args[6], 6)
            _record_fault(context, builder, args[5], words, (value, limit), coordinates)
        return args[0]

    signature = index(
        index, types.int64, types.int64, types.int64, types.boolean, types.int64, place
    )
    return signature, generate


@intrinsic
def faulter(typingctx: Any, site: Any, record: Any, place: Any) -> Any:
    """Record that the thread raised, and end it."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words = (builder.trunc(args[0], _I32), _I32(0))
        coordinates = cgutils.unpack_tuple(builder, args[2], 6)
        with builder.if_then(cgutils.true_bit):
            _record_fault(context, builder, args[1], words, (_I64(0), _I64(0)), coordinates)
        return context.get_dummy_value()

    return types.none(types.int64, types.int64, place), generate
