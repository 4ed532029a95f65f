"""``array.reshape``: strides of another shape, which Numba's runtime computes on a host.

Numba types it for arrays of layout C alone. Their elements lie side by side.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils

__all__ = ["RESHAPE", "reshape_definition"]

#: Numba's function.
RESHAPE = "numba_attempt_nocopy_reshape"
_I32, _I64 = ir.IntType(32), ir.IntType(64)
_NUMBERS = _I64.as_pointer()


def reshape_definition() -> str:
    """Return the module that defines it: 0 if the numbers of elements differ, else 1."""
    module = ir.Module()
    kinds = [_I64, _NUMBERS, _NUMBERS, _I64, _NUMBERS, _NUMBERS, _I64, _I32]
    function = ir.Function(module, ir.FunctionType(_I32, kinds), RESHAPE)
    axes, shape, _, new_axes, new_shape, strides, itemsize, _ = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    size = cgutils.alloca_once_value(builder, itemsize)
    with cgutils.for_range(builder, axes) as loop:
        extent = builder.load(builder.gep(shape, [loop.index]))
        builder.store(builder.mul(builder.load(size), extent), size)
    stride = cgutils.alloca_once_value(builder, itemsize)
    with cgutils.for_range(builder, new_axes) as loop:
        axis = builder.sub(builder.sub(new_axes, loop.index), _I64(1))
        builder.store(builder.load(stride), builder.gep(strides, [axis]))
        extent = builder.load(builder.gep(new_shape, [axis]))
        builder.store(builder.mul(builder.load(stride), extent), stride)
    is_same = builder.icmp_signed("==", builder.load(size), builder.load(stride))
    builder.ret(builder.zext(is_same, _I32))
    return str(module)
