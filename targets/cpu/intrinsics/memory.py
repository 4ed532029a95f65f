"""Arrays of a block's storage: shared and local ones, and the memory of exchanges.

The storage is on the stack of the worker that runs the block, or, if it is large, in scratch
memory that the native entry allocates for each call. :mod:`targets.cpu.codegen.storage` decides
which.

Numba keeps every intrinsic to the end of the process, so kernels share those that are alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from kerneldsl.lowering.numba_internals.arrays import array_value, make_array, suspend_emission
from kerneldsl.lowering.numba_internals.told_numbers import return_number
from kerneldsl.lowering.types import element_type
from targets.cpu.codegen.code import MAX_DYNAMIC_BYTES, MAX_DYNAMIC_LINE, dynamic_failure

__all__ = [
    "array_maker",
    "array_view",
    "dynamic_bound",
    "part_maker",
    "reserve_or_place",
    "words_maker",
    "write_dynamic_bound",
]

_I32, _I64 = ir.IntType(32), ir.IntType(64)
#: Vector loads of any width the host has may start at this alignment.
_ALIGNMENT = 64


def _reserve(builder: Any, storage: Any) -> Any:
    """Take memory from the stack, once for a call of the function, and leave it as it is.

    Numba's own helper fills it with zeros by one store of the whole, which LLVM takes apart into
    a store for each element: a shared array of 32 KB would compile for a minute.
    """
    with suspend_emission(builder), builder.goto_entry_block():
        memory = builder.alloca(storage)
    memory.align = _ALIGNMENT
    return memory


def reserve_or_place(builder: Any, scratch: Any, storage: Any, offset: int | None) -> Any:
    """Return the address of memory of a type: on the stack, or at an offset into scratch memory."""
    if offset is None:
        return _reserve(builder, storage)
    return _in_scratch(builder, scratch, offset)


def _in_scratch(builder: Any, scratch: Any, offset: int) -> Any:
    # Computed as a number, an address could be of anything for LLVM's alias analysis.
    return builder.gep(scratch, [_I64(offset)], inbounds=True)


@cache
def part_maker(nbytes: int) -> Callable[..., Any]:
    """Make the intrinsic ``part(memory, block, dynamic_bytes) -> memory`` of the storage of blocks.

    Each block has so many bytes of it and the dynamic ones, rounded up to the alignment.
    """

    @intrinsic
    def part(typingctx: Any, memory: Any, block: Any, dynamic_bytes: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            whole = builder.add(args[2], _I64(nbytes + _ALIGNMENT - 1))
            each = builder.and_(whole, _I64(-_ALIGNMENT))
            return builder.gep(args[0], [builder.mul(args[1], each)], inbounds=True)

        return types.voidptr(types.voidptr, types.int64, types.int64), generate

    return part  # type: ignore[no-any-return]


# -- arrays of a block or a thread ------------------------------------------------------------


@cache
def array_maker(
    dtype: str, shape: tuple[int, ...], copies: int = 1, offset: int | None = None
) -> Callable[..., Any]:
    """Make the intrinsic that gives a static array.

    A shape of ``(0,)`` is dynamic shared memory, whose bytes the intrinsic takes as argument.
    `copies` of an array are reserved one after the other: one for each thread, for a private array
    that outlives a barrier. Without an offset into scratch memory they are on the stack. The
    intrinsic is ``make(scratch, dynamic_bytes) -> array``: the address of the scratch memory, which
    goes unused for the stack, and an int64 that goes unused where the shape is known.
    """
    element = element_type(dtype)
    array_type = types.Array(element, len(shape), "C")

    @intrinsic
    def make(typingctx: Any, scratch: Any, dynamic_bytes: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            stored = context.get_data_type(element)
            if offset is None:
                storage = ir.ArrayType(stored, max(1, math.prod(shape) * copies))
                data = _reserve(builder, storage)
            else:
                data = _in_scratch(builder, args[0], offset)
            if shape == (0,):
                item = context.get_abi_sizeof(stored)
                extents: tuple[Any, ...] = (builder.udiv(args[1], _I64(item)),)
            else:
                extents = tuple(_I64(n) for n in shape)
            return array_value(context, builder, array_type, data, extents)

        return array_type(types.voidptr, types.int64), generate

    return make  # type: ignore[no-any-return]


class WordsType(types.Type):
    """The address of so many int64 of the block.

    Numba's structure of an array has seven fields, which each call of an exchange would take.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__(name=f"Words({count})")


@register_model(WordsType)
class _WordsModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _I64.as_pointer())


@cache
def words_maker(count: int, offset: int | None) -> Callable[..., Any]:
    """Make the intrinsic that gives so many int64, as :func:`array_maker` gives an array."""
    words = WordsType(count)

    @intrinsic
    def make(typingctx: Any, scratch: Any, dynamic_bytes: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = reserve_or_place(builder, args[0], ir.ArrayType(_I64, count), offset)
            return builder.bitcast(data, _I64.as_pointer())

        return words(types.voidptr, types.int64), generate

    return make  # type: ignore[no-any-return]


@intrinsic
def array_view(typingctx: Any, array: Any, index: Any) -> Any:
    """Return the `index`-th array of those that ``array_maker(copies=…)`` reserved."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        first = make_array(array)(context, builder, args[0])
        count: Any = _I64(1)
        extents = tuple(cgutils.unpack_tuple(builder, first.shape, array.ndim))
        for extent in extents:
            count = builder.mul(count, extent)
        data = builder.gep(first.data, [builder.mul(count, args[1])])
        return array_value(context, builder, array, data, extents)

    return array(array, types.int64), generate


def write_dynamic_bound(
    context: Any, builder: Any, end: Any, count: Any, item: int, line: int
) -> None:
    """Leave the function if a slice ends beyond so many items of dynamic shared memory.

    `item` is the size of an item, and `line` that of the slice. What is reported of a failure is in
    :mod:`targets.cpu.codegen.code`.
    """
    with builder.if_then(builder.icmp_signed(">", end, count), likely=False):
        most = _I64(MAX_DYNAMIC_BYTES // item)
        end = builder.select(builder.icmp_signed("<", end, most), end, most)
        told = dynamic_failure(min(line, MAX_DYNAMIC_LINE))
        return_number(context, builder, builder.add(builder.mul(end, _I64(item)), _I64(told)))


@intrinsic
def dynamic_bound(typingctx: Any, bound: Any, array: Any, line: Any) -> Any:
    """Return an end of a slice of dynamic shared memory; leave the function if it is beyond it.

    `line` is that of the slice, a literal.
    """
    if not (isinstance(bound, types.Integer) and isinstance(line, types.IntegerLiteral)):
        return None

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        count = builder.extract_value(make_array(array)(context, builder, args[1]).shape, 0)
        end = context.cast(builder, args[0], bound, types.int64)
        item = context.get_abi_sizeof(context.get_data_type(array.dtype))
        write_dynamic_bound(context, builder, end, count, item, line.literal_value)
        return args[0]

    return bound(bound, array, line), generate
