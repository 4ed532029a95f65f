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

from kerneldsl.lowering.numba_extremes import numba_print
from kerneldsl.lowering.numba_internals.device_target import Registry
from kerneldsl.lowering.printing import MOST_ON_GPU, count_values, format_value

__all__ = ["registry"]

registry = Registry("kerneldsl_cuda printing")

_i8p = ir.IntType(8).as_pointer()
#: Decimal digits of a floating-point number, by its bits; with more of them 0.1 would have a tail.
_DIGITS = {16: 4, 32: 7, 64: 15}


@registry.lower(print, types.VarArg(types.Any))
def _print(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> Any:
    count = count_values(sig.args)
    if count > MOST_ON_GPU:
        raise errors.TypingError(
            f"print of {count} values, of which a GPU formats at most {MOST_ON_GPU} in one call. "
            "Print them in several calls"
        )
    return _write(context, builder, *_formatted(context, builder, sig.args, args))


@registry.lower(numba_print, types.VarArg(types.Any))
def _numba_print(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> Any:
    formats, values = _formatted(context, builder, sig.args, args, of_numba=True)
    if len(values) > MOST_ON_GPU:
        formats, values = [each.replace("%", "%%") for each in formats], []
    return _write(context, builder, formats, values)


def _write(context: Any, builder: ir.IRBuilder, formats: list[str], values: list[ir.Value]) -> Any:
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


def _formatted(
    context: Any,
    builder: ir.IRBuilder,
    kinds: Any,
    args: Any,
    *,
    of_numba: bool = False,
    marks_whole: bool = True,
) -> tuple[list[str], list[ir.Value]]:
    """Make formats and values of a line, with ``.0`` after whole numbers if there is room."""

    def format_float(value: ir.Value, bits: int) -> tuple[str, list[ir.Value]]:
        form = f"%.{_DIGITS[bits]}g"
        if not marks_whole:
            return form, [value]
        return f"{form}%s", [value, _mark(context, builder, value, _DIGITS[bits])]

    formats: list[str] = []
    values: list[ir.Value] = []
    for kind, value in zip(kinds, args, strict=True):
        text, flat = format_value(context, builder, kind, value, format_float, of_numba=of_numba)
        formats.append(text)
        values.extend(flat)
    if marks_whole and len(values) > MOST_ON_GPU:  # a mark is a value, too
        options = {"of_numba": of_numba, "marks_whole": False}
        return _formatted(context, builder, kinds, args, **options)
    return formats, values


def _mark(context: Any, builder: ir.IRBuilder, value: ir.Value, digits: int) -> ir.Value:
    """Return ``.0`` for a number that would be shown as an integer, else nothing."""
    kind = ir.FunctionType(value.type, [value.type])

    def call(name: str) -> ir.Value:
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.f64")
        return builder.call(function, [value])

    is_whole = builder.fcmp_ordered("==", call("trunc"), value)
    is_short = builder.fcmp_ordered("<", call("fabs"), value.type(10.0**digits))
    words = [context.insert_const_string(builder.module, word) for word in (".0", "")]
    return builder.select(builder.and_(is_whole, is_short), *words)
