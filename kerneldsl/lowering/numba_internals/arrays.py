"""Numba's structure of an array, made from an address and extents, and its functions of arrays.

Numba's own helper uses a stack slot and a pointer for each field, which is slow to write, print,
parse and optimize. Here, fields are inserted into a value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.debuginfo import suspend_emission
from numba.np.arrayobj import basic_indexing, make_array

from kerneldsl.lowering.calls import Call

__all__ = [
    "array_value",
    "contiguous_strides",
    "element_pointer",
    "import_array_functions",
    "index_array",
    "make_array",
    "suspend_emission",
]

_i64 = ir.IntType(64)


def array_value(
    context: Any,
    builder: ir.IRBuilder,
    kind: Any,
    data: ir.Value,
    shape: Sequence[ir.Value],
    *,
    strides: Sequence[ir.Value] | None = None,
) -> ir.Value:
    """Make Numba's structure of an array that owns nothing.

    `data` is the address of the first element, a pointer to anything; extents are i64, and strides
    bytes, computed where the array is contiguous.
    """
    element = context.get_data_type(kind.dtype)
    itemsize = _i64(context.get_abi_sizeof(element))
    if strides is None:
        strides = contiguous_strides(builder, shape, itemsize, kind.layout)
    count: ir.Value = _i64(1)
    for extent in shape:
        count = builder.mul(count, extent, flags=["nsw"])
    fields = {
        "nitems": count,
        "itemsize": itemsize,
        "data": builder.bitcast(data, element.as_pointer()),
        "shape": _packed(builder, shape),
        "strides": _packed(builder, strides),
    }
    model = context.data_model_manager[kind]
    value = ir.Constant(model.get_value_type(), None)  # no owner, no parent
    for name, field in fields.items():
        value = builder.insert_value(value, field, model.get_field_position(name))
    return value


def contiguous_strides(
    builder: ir.IRBuilder, shape: Sequence[ir.Value], itemsize: ir.Value, layout: str
) -> list[ir.Value]:
    """Return bytes along each axis of an array without gaps; "F" has its first axis contiguous."""
    order = range(len(shape)) if layout == "F" else range(len(shape) - 1, -1, -1)
    strides = [itemsize] * len(shape)
    running = itemsize
    for axis in order:
        strides[axis] = running
        if axis != order[-1]:
            running = builder.mul(running, shape[axis], flags=["nsw"])
    return strides


def element_pointer(call: Call) -> ir.Value:
    """Return the address of the element that the first two arguments of a call name.

    A negative index counts from the end, unless its type is unsigned.
    """
    context, builder, args = call.context, call.builder, call.args
    kind, index_kind = call.signature.args[:2]
    array = make_array(kind)(context, builder, args[0])
    if isinstance(index_kind, types.BaseTuple):
        kinds, values = tuple(index_kind.types), cgutils.unpack_tuple(builder, args[1])
    else:
        kinds, values = (index_kind,), [args[1]]
    extents = cgutils.unpack_tuple(builder, array.shape, count=kind.ndim)
    indices = []
    for part, value, extent in zip(kinds, values, extents, strict=True):
        index = context.cast(builder, value, part, types.intp)
        if part.signed:
            wrapped = builder.add(index, extent)
            index = builder.select(builder.icmp_signed("<", index, index.type(0)), wrapped, index)
        indices.append(index)
    return cgutils.get_item_pointer(context, builder, kind, array, indices)


def index_array(
    context: Any,
    builder: ir.IRBuilder,
    kind: Any,
    parts: tuple[ir.Value, Sequence[ir.Value], Sequence[ir.Value]],
    index_kinds: Sequence[Any],
    indices: Sequence[ir.Value],
) -> tuple[ir.Value, list[ir.Value], list[ir.Value]]:
    """Index an array by integers, slices, ``None`` and ``...``.

    `parts`, and what is returned, are the address, the extents, and the strides in bytes.
    """
    data, shape, strides = parts
    fields = {"shape": _packed(builder, shape), "strides": _packed(builder, strides)}
    array = SimpleNamespace(data=data, **fields)
    found = basic_indexing(context, builder, kind, array, index_kinds, indices)
    return found[0], list(found[1]), list(found[2])


def _packed(builder: ir.IRBuilder, values: Sequence[ir.Value]) -> ir.Value:
    array: ir.Value = ir.Constant(ir.ArrayType(_i64, len(values)), ir.Undefined)
    for position, value in enumerate(values):
        array = builder.insert_value(array, value, position)
    return array


class _Found:
    """A BLAS library that is looked for when it matters."""

    def __init__(self, check: Callable[[], bool]) -> None:
        self._check = cache(check)

    def __bool__(self) -> bool:
        return self._check()


def import_array_functions() -> None:
    """Import NumPy's functions of whole arrays without SciPy. The caller holds the compiler lock.

    Numba's module of them looks for a BLAS library when it is imported, and so imports SciPy's
    linear algebra. That took a fifth of a first launch, and few kernels multiply matrices by them.
    """
    if "numba.np.arraymath" in sys.modules:
        return
    from numba.np import linalg

    ensure_blas = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        from numba.np import arraymath
    finally:
        linalg.ensure_blas = ensure_blas
    arraymath.ensure_blas = ensure_blas
    arraymath._HAVE_BLAS = _Found(arraymath._check_blas)
