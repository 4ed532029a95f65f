"""A body for ``numba_cpow`` and ``numba_cpowf``, which Numba expects of its C library."""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

__all__ = ["define_complex_power"]

_SYMBOLS = {"numba_cpow": types.complex128, "numba_cpowf": types.complex64}


def _power(a: complex, b: complex) -> complex:
    """Compute ``a ** b`` in polar form; 0 ** b is 0, and anything ** 0 is 1."""
    if b.real == 0 and b.imag == 0:
        return complex(1.0, 0.0)
    if a.real == 0 and a.imag == 0:
        return complex(0.0, 0.0)
    modulus = math.hypot(a.real, a.imag)
    angle = math.atan2(a.imag, a.real)
    length = math.pow(modulus, b.real)
    phase = angle * b.real
    if b.imag != 0:
        length *= math.exp(-angle * b.imag)
        phase += b.imag * math.log(modulus)
    return complex(length * math.cos(phase), length * math.sin(phase))


def define_complex_power(context: Any, module: ir.Module) -> None:
    """Define the functions that a module declares."""
    for symbol, complex_type in _SYMBOLS.items():
        function = module.globals.get(symbol)
        if not isinstance(function, ir.Function) or not function.is_declaration:
            continue
        function.linkage = "linkonce_odr"
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        context.call_conv.init_call_helper(builder)
        signature = complex_type(complex_type, complex_type)
        result = context.compile_subroutine(builder, _power, signature)
        callee = context.declare_function(module, result.fndesc)
        values = [builder.load(argument) for argument in function.args[:2]]
        hidden = [cgutils.get_null_value(kind) for _, kind in context.call_conv.hidden]
        _, value = context.call_conv.call_with(
            builder, callee, complex_type, signature.args, values, hidden=hidden
        )
        builder.store(value, function.args[2])
        builder.ret_void()
