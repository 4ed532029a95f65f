"""Constants as memory of a module: captured arrays, which are read through ``ld.global.nc``."""

from __future__ import annotations

import hashlib
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.lowering.numba_internals.arrays import array_value, contiguous_strides

__all__ = ["constant_array", "constant_string"]

_i64 = ir.IntType(64)


def constant_array(context: Any, builder: ir.IRBuilder, kind: Any, values: Any) -> ir.Value:
    """Reify a read-only NumPy array as constant global memory of the module."""
    order = "F" if kind.layout == "F" else "C"
    content = cgutils.make_bytearray(values.tobytes(order=order))
    data = _constant(builder.module, "constant_array", content)
    shape = [ir.Constant(_i64, extent) for extent in values.shape]
    itemsize = ir.Constant(_i64, values.itemsize)
    strides = contiguous_strides(builder, shape, itemsize, order)
    return array_value(context, builder, kind, data, shape, strides=strides)


def constant_string(module: ir.Module, text: str) -> ir.Value:
    """Put a text into a module, with a zero at its end; returns its generic address."""
    return _constant(module, "text", cgutils.make_bytearray(text.encode() + b"\0"))


def _constant(module: ir.Module, kind: str, content: ir.Constant) -> ir.Value:
    """Return the address of constant memory, aligned for every dtype, one for equal contents."""
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
