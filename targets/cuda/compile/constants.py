"""Constants as memory of a module: captured arrays, which are read through ``ld.global.nc``.

Of large ones code has the room alone (:mod:`kerneldsl.lowering.captured_arrays`).
"""

from __future__ import annotations

import hashlib
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.lowering.captured_arrays import symbol_of
from kerneldsl.lowering.numba_internals.arrays import array_value, contiguous_strides

__all__ = ["constant_array", "constant_string"]

_i64 = ir.IntType(64)
_i8 = ir.IntType(8)


def constant_array(context: Any, builder: ir.IRBuilder, kind: Any, values: Any) -> ir.Value:
    """Reify a read-only NumPy array as constant global memory of the module."""
    order = "F" if kind.layout == "F" else "C"
    symbol = symbol_of(values)
    if symbol is not None:
        data = _room(builder.module, symbol, values.nbytes)
    else:
        content = cgutils.make_bytearray(values.tobytes(order=order))
        data = _constant(builder.module, "constant_array", content)
    shape = [ir.Constant(_i64, extent) for extent in values.shape]
    itemsize = ir.Constant(_i64, values.itemsize)
    strides = contiguous_strides(builder, shape, itemsize, order)
    return array_value(context, builder, kind, data, shape, strides=strides)


class _Filled(ir.GlobalVariable):  # type: ignore[misc]
    """Constant memory that LLVM knows no contents of."""

    def descr(self, buf: list[str]) -> None:
        """Write the definition."""
        kind = f"linkonce_odr unnamed_addr addrspace({self.addrspace})"
        room = f"externally_initialized constant {self.value_type} zeroinitializer"
        buf.append(f"{kind} {room}, align {self.align}\n")


def _room(module: ir.Module, name: str, nbytes: int) -> ir.Value:
    """Return the address of constant memory that is filled when the module is loaded."""
    memory = module.globals.get(name)
    if memory is None:
        memory = _Filled(module, ir.ArrayType(_i8, nbytes), name, addrspace=1)
        memory.align = 16
    return _generic(memory)


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
    return _generic(memory)


def _generic(memory: Any) -> ir.Value:
    generic = _i8.as_pointer()
    cast = f"addrspacecast ({memory.type} {memory.get_reference()} to {generic})"
    return ir.FormattedConstant(generic, cast)
