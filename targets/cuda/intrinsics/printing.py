"""``print`` of numbers and constant strings, through the driver's ``vprintf``.

References
----------
CUDA C++ Programming Guide, section "Formatted Output"; PTX Writer's Guide, "System Calls".
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import errors, types
from numba.core import cgutils

from kerneldsl.lowering.numba_internals.device_target import Registry
from kerneldsl.lowering.printing import format_value

__all__ = ["registry"]

registry = Registry("kerneldsl_cuda printing")

_i8p = ir.IntType(8).as_pointer()
#: The driver formats at most this many values in one call.
_LIMIT = 32


@registry.lower(print, types.VarArg(types.Any))
def _print(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> Any:
    formats: list[str] = []
    values: list[ir.Value] = []
    for kind, value in zip(sig.args, args, strict=True):
        text, flat = format_value(context, builder, kind, value)
        formats.append(text)
        values.extend(flat)
    if len(values) > _LIMIT:
        raise errors.TypingError(
            f"print of {len(values)} numbers; a kernel can print {_LIMIT} at a time"
        )
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(ir.IntType(32), [_i8p, _i8p]), "vprintf"
    )
    buffer = ir.Constant(_i8p, None)
    if values:
        packed = cgutils.make_anonymous_struct(builder, values)
        buffer = builder.bitcast(cgutils.alloca_once_value(builder, packed), _i8p)
    text_pointer = context.insert_const_string(builder.module, " ".join(formats) + "\n")
    builder.call(function, [text_pointer, buffer])
    return context.get_dummy_value()
