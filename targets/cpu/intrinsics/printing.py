"""``print`` in a kernel that runs on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.lowering.printing import format_value
from targets.cpu.intrinsics.float_text import python_text

__all__ = ["write_print"]

_BYTE = ir.IntType(8)
_I32 = ir.IntType(32)


def write_print(
    context: Any, builder: Any, kinds: Sequence[Any] = (), values: Sequence[Any] = ()
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
        form, numbers = format_value(context, builder, kind, value, format_float)
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
