"""``print`` in a kernel that runs on the CPU.

C's functions write a floating-point number as Python's ``repr`` does. The shortest digits that give
the number back are found by trying: at most 17 for a ``float64``, 9 for a ``float32``. Numbers of
16 bits are shown with four.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.lowering.printing import format_value

__all__ = ["write_print"]

_BYTE, _I32, _DOUBLE = ir.IntType(8), ir.IntType(32), ir.DoubleType()
_TEXT = _BYTE.as_pointer()
#: More than the longest text, ``-1.2345678901234567e+308`` or 16 digits with ``.0``.
_TEXT_BYTES = 32
#: Most digits that are tried, by the number's bits.
_MOST_DIGITS = {32: 9, 64: 17}
_SHORT_DIGITS = 4


def python_text(context: Any, builder: ir.IRBuilder, value: ir.Value, bits: int) -> ir.Value:
    """Write a call that makes the text; returns the address of memory of this function's frame.

    - `context`: context that makes constant strings.
    - `builder`: builder at the place of the code.
    - `value`: a double.
    - `bits`: bits of the number that it was.
    """
    buffer = cgutils.alloca_once(builder, _BYTE, size=_TEXT_BYTES)
    builder.call(_writer(context, builder.module, bits), [buffer, value])
    return buffer


def _writer(context: Any, module: ir.Module, bits: int) -> ir.Function:
    """Return ``void(char *text, double value)`` of a module, written the first time."""
    name = f"kd_float{bits}_text"
    known = module.globals.get(name)
    if known is not None:
        return known
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [_TEXT, _DOUBLE]), name)
    function.linkage = "internal"
    text, value = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))

    def declared(name: str, result: Any, *kinds: Any, var_arg: bool = False) -> ir.Function:
        kind = ir.FunctionType(result, kinds, var_arg=var_arg)
        return cgutils.get_or_insert_function(module, kind, name)

    snprintf = declared("snprintf", _I32, _TEXT, ir.IntType(64), _TEXT, var_arg=True)
    fabs = declared("llvm.fabs.f64", _DOUBLE, _DOUBLE)
    trunc = declared("llvm.trunc.f64", _DOUBLE, _DOUBLE)

    def write(form: str, *values: ir.Value) -> None:
        size = ir.IntType(64)(_TEXT_BYTES)
        builder.call(snprintf, [text, size, context.insert_const_string(module, form), *values])

    size = builder.call(fabs, [value])
    is_small = builder.fcmp_ordered("<", size, _DOUBLE(1e16))
    is_whole = builder.fcmp_ordered("==", builder.call(trunc, [value]), value)
    with builder.if_then(builder.fcmp_unordered("uno", value, value)):
        write("nan")  # C may show a sign
        builder.ret_void()
    with builder.if_then(builder.and_(is_small, is_whole)):
        write("%.1f", value)
        builder.ret_void()
    most = _MOST_DIGITS.get(bits)
    if most is None:
        write(f"%.{_SHORT_DIGITS}g", value)
        builder.ret_void()
        return function
    head, done = (function.append_basic_block(each) for each in ("digits", "done"))
    before = builder.block
    builder.branch(head)
    builder.position_at_end(head)
    digits = builder.phi(_I32)
    digits.add_incoming(_I32(1), before)
    more = builder.add(digits, _I32(1))
    write("%.*g", digits, value)
    if bits == 64:
        reader = declared("strtod", _DOUBLE, _TEXT, _TEXT)
        found = builder.call(reader, [text, ir.Constant(_TEXT, None)])
    else:
        reader = declared("strtof", ir.FloatType(), _TEXT, _TEXT)
        found = builder.fpext(builder.call(reader, [text, ir.Constant(_TEXT, None)]), _DOUBLE)
    is_found = builder.fcmp_ordered("==", found, value)
    is_last = builder.icmp_signed("==", digits, _I32(most))
    digits.add_incoming(more, builder.block)
    builder.cbranch(builder.or_(is_found, is_last), done, head)
    builder.position_at_end(done)
    is_infinite = builder.fcmp_ordered("==", size, _DOUBLE(float("inf")))
    # C goes over to exponents at another size than Python, by the number of digits.
    with builder.if_then(builder.and_(builder.not_(is_small), builder.not_(is_infinite))):
        write("%.*e", builder.sub(digits, _I32(1)), value)
    builder.ret_void()
    return function


def write_print(
    context: Any, builder: Any, kinds: Sequence[Any], values: Sequence[Any], *, of_numba: bool
) -> None:
    """Print values on a line by C's ``printf``, and empty its buffer.

    Numba's own goes through Python. A kernel does not hold the lock of that.

    Raises `numba.core.errors.TypingError` for what is no number and no constant text.
    """

    def format_float(value: Any, bits: int) -> tuple[str, list[Any]]:
        return "%s", [python_text(context, builder, value, bits)]

    parts: list[str] = []
    flat: list[Any] = []
    for kind, value in zip(kinds, values, strict=True):
        form, numbers = format_value(context, builder, kind, value, format_float, of_numba=of_numba)
        parts.append(form)
        flat += numbers
    pointer, module = _BYTE.as_pointer(), builder.module
    printf = cgutils.get_or_insert_function(
        module, ir.FunctionType(_I32, [pointer], var_arg=True), "printf"
    )
    flush = cgutils.get_or_insert_function(module, ir.FunctionType(_I32, [pointer]), "fflush")
    line = context.insert_const_string(module, " ".join(parts) + "\n")
    builder.call(printf, [line, *flat])
    builder.call(flush, [ir.Constant(pointer, None)])
