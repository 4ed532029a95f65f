"""C's format for what a kernel prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import errors, types

__all__ = ["FormatFloat", "format_value"]

#: Says how C's ``printf`` shows a double that was a number of so many bits.
FormatFloat = Callable[[ir.Value, int], tuple[str, list[ir.Value]]]


def format_value(
    context: Any, builder: ir.IRBuilder, kind: Any, value: ir.Value, format_float: FormatFloat
) -> tuple[str, list[ir.Value]]:
    """Say how C's ``printf`` shows one value.

    The value is a number, a bool, a constant string, or a tuple of those. The result is a format,
    such as ``%lld``, and the values that it takes.

    Raises `numba.core.errors.TypingError` for anything else.
    """
    if isinstance(kind, types.StringLiteral):
        return str(kind.literal_value).replace("%", "%%"), []
    if isinstance(kind, types.Literal):
        plain = types.unliteral(kind)
        kind, value = plain, context.cast(builder, value, kind, plain)
    if isinstance(kind, types.Boolean):
        words = [context.insert_const_string(builder.module, word) for word in ("True", "False")]
        return "%s", [builder.select(value, *words)]
    if isinstance(kind, types.Integer):
        wide = types.int64 if kind.signed else types.uint64
        return "%lld" if kind.signed else "%llu", [context.cast(builder, value, kind, wide)]
    if isinstance(kind, types.Float):
        wide = context.cast(builder, value, kind, types.float64)
        return format_float(wide, kind.bitwidth)
    if isinstance(kind, types.Complex):
        parts = context.make_complex(builder, kind, value)
        real, one = format_value(context, builder, kind.underlying_float, parts.real, format_float)
        imag, two = format_value(context, builder, kind.underlying_float, parts.imag, format_float)
        return f"({real},{imag})", one + two
    if isinstance(kind, types.BaseTuple):
        found = [
            format_value(context, builder, each, builder.extract_value(value, n), format_float)
            for n, each in enumerate(kind.types)
        ]
        texts = [text for text, _ in found]
        inside = f"{texts[0]}," if len(texts) == 1 else ", ".join(texts)
        return f"({inside})", [value for _, values in found for value in values]
    raise errors.TypingError(
        f"print of {kind} in a kernel; it takes numbers, tuples of numbers, and constant strings"
    )
