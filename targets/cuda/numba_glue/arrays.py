"""Array values: from a captured constant, from a pointer and extents."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.np.arrayobj import make_array, populate_array

__all__ = ["array_value", "constant_array", "constant_string"]

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
    """Make Numba's structure of an array.

    Parameters
    ----------
    context : KernelTargetContext
        Where types have sizes.
    builder : ir.IRBuilder
        Where to put the instructions.
    kind : numba.types.Array
        Type of the array.
    data : ir.Value
        Address of the first element, generic.
    shape : sequence of ir.Value
        Extent along each axis, i64.
    strides : sequence of ir.Value, optional
        Bytes along each axis; computed where the array is contiguous.

    Returns
    -------
    ir.Value
    """
    element = context.get_data_type(kind.dtype)
    itemsize = ir.Constant(_i64, context.get_abi_sizeof(element))
    if strides is None:
        strides = _contiguous_strides(builder, shape, itemsize, kind.layout)
    array = make_array(kind)(context, builder)
    populate_array(
        array,
        data=builder.bitcast(data, element.as_pointer()),
        shape=cgutils.pack_array(builder, shape, ty=_i64),
        strides=cgutils.pack_array(builder, strides, ty=_i64),
        itemsize=itemsize,
        meminfo=None,
    )
    return array._getvalue()


def _contiguous_strides(
    builder: ir.IRBuilder, shape: Sequence[ir.Value], itemsize: ir.Value, layout: str
) -> list[ir.Value]:
    order = range(len(shape)) if layout == "F" else range(len(shape) - 1, -1, -1)
    strides = [itemsize] * len(shape)
    running = itemsize
    for axis in order:
        strides[axis] = running
        running = builder.mul(running, shape[axis], flags=["nsw"])
    return strides


def constant_array(context: Any, builder: ir.IRBuilder, kind: Any, values: Any) -> ir.Value:
    """Reify a read-only NumPy array as constant global memory of the module."""
    order = "F" if kind.layout == "F" else "C"
    content = cgutils.make_bytearray(values.tobytes(order=order))
    data = _constant(builder.module, "constant_array", content)
    shape = [ir.Constant(_i64, extent) for extent in values.shape]
    itemsize = ir.Constant(_i64, values.itemsize)
    strides = _contiguous_strides(builder, shape, itemsize, order)
    return array_value(context, builder, kind, data, shape, strides=strides)


def constant_string(module: ir.Module, text: str) -> ir.Value:
    """Put a text into a module, with a zero at its end; returns its generic address."""
    return _constant(module, "text", cgutils.make_bytearray(text.encode() + b"\0"))


def _constant(module: ir.Module, kind: str, content: ir.Constant) -> ir.Value:
    """Constant global memory, aligned for every dtype, one for equal contents; its address."""
    digest = hashlib.sha256(bytes(content.constant)).hexdigest()[:8]
    name = f"{kind}_{digest}"
    memory = module.globals.get(name)
    if memory is None:
        memory = cgutils.add_global_variable(module, content.type, name, addrspace=1)
        memory.linkage = "internal"
        memory.global_constant = True
        memory.initializer = content
        memory.align = 16
        memory.unnamed_addr = True  # equal constants of other modules may become one with it
    generic = ir.IntType(8).as_pointer()
    cast = f"addrspacecast ({memory.type} {memory.get_reference()} to {generic})"
    return ir.FormattedConstant(generic, cast)
