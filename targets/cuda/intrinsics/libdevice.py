"""Calls of NVIDIA's libdevice by its own names, which is linked in when PTX is written.

References
----------
NVIDIA, "libdevice User's Guide", section "Function Reference".
"""

from __future__ import annotations

from functools import partial

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.lowering.calls import Call, Emitter
from kerneldsl.lowering.scalars import call_llvm

__all__ = ["libdevice_emitter"]


#: LLVM asks libdevice's ``sqrtf`` for the approximate square root, ``prec-sqrt=false``.
_OF_LLVM = {"sqrtf": "llvm.sqrt.f32"}


def libdevice_emitter(name: str) -> Emitter:
    """Return what writes a call of a function, such as ``"libdevice.frexp"``."""
    return partial(_call, name.removeprefix("libdevice."))


def _call(name: str, call: Call) -> ir.Value:
    """Call a function; all but its result it writes through pointers after the arguments."""
    builder, context, signature = call.builder, call.context, call.signature
    results = getattr(signature.return_type, "types", (signature.return_type,))
    kinds = [context.get_value_type(each) for each in results]
    written = kinds if "sincos" in name else kinds[1:]
    places = [cgutils.alloca_once(builder, kind) for kind in written]
    returned = ir.VoidType() if len(written) == len(kinds) else kinds[0]
    value = call_llvm(builder, _OF_LLVM.get(name, f"__nv_{name}"), returned, [*call.args, *places])
    values = [*([] if len(written) == len(kinds) else [value]), *map(builder.load, places)]
    if len(values) == 1:
        return values[0]
    return context.make_tuple(builder, signature.return_type, values)
