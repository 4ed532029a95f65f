"""C's format for what a kernel prints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import errors, types

__all__ = ["MOST_ON_GPU", "FormatFloat", "count_values", "format_value"]

#: A GPU's driver formats at most this many values in one call.
MOST_ON_GPU = 32

#: Returns the format and arguments of C's ``printf`` for a double, converted from a float of some
#: bits.
FormatFloat = Callable[[ir.Value, int], tuple[str, list[ir.Value]]]


def count_values(kinds: Sequence[Any]) -> int:
    """Return how many values a print of these types formats; a constant string has none."""
    count = 0
    for kind in kinds:
        if isinstance(kind, types.BaseTuple):
            count += count_values(kind.types)
        elif not isinstance(kind, types.StringLiteral):
            count += 2 if isinstance(kind, types.Complex) else 1
    return count


def format_value(
    context: Any,
    builder: ir.IRBuilder,
    kind: Any,
    value: ir.Value,
    format_float: FormatFloat,
    *,
    of_numba: bool = False,
) -> tuple[str, list[ir.Value]]:
    """Say how C's ``printf`` shows one value.

    The value is a number, a bool, a constant string, or a tuple of those. The result is a format,
    such as ``%lld``, and the values that it takes. `of_numba` is for prints by numba.cuda's rules.

    Raises `numba.core.errors.TypingError` for anything else.
    """

    def of(kind: Any, value: ir.Value) -> tuple[str, list[ir.Value]]:
        return format_value(context, builder, kind, value, format_float, of_numba=of_numba)

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
        is_numba_form = of_numba and str(kind) == "bfloat16"
        return ("%f", [wide]) if is_numba_form else format_float(wide, kind.bitwidth)
    if isinstance(kind, types.Complex):
        parts = context.make_complex(builder, kind, value)
        real, one = of(kind.underlying_float, parts.real)
        imag, two = of(kind.underlying_float, parts.imag)
        return f"({real},{imag})", one + two
    if isinstance(kind, types.BaseTuple):
        found = [of(each, builder.extract_value(value, n)) for n, each in enumerate(kind.types)]
        texts = [text for text, _ in found]
        inside = f"{texts[0]}," if len(texts) == 1 else ", ".join(texts)
        return f"({inside})", [value for _, values in found for value in values]
    raise errors.TypingError(
        f"print of {kind} in a kernel; it takes numbers, tuples of numbers, and constant strings"
    )
