"""``print`` in a kernel that runs on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from kerneldsl.lowering.printing import format_value
from targets.cpu.intrinsics.float_text import python_text

__all__ = ["printer", "write_print"]

_BYTE = ir.IntType(8)
_I32 = ir.IntType(32)


@cache  # Numba keeps every intrinsic to the end of the process
def printer(texts: tuple[str | None, ...]) -> Callable[..., Any]:
    """Make the intrinsic of one ``print``: C's ``printf``, and its buffer emptied.

    Numba's own goes through Python, whose lock a kernel does not hold.

    `texts` are the constant strings among the arguments, ``None`` for each value.
    """

    @intrinsic
    def show(typingctx: Any, *values: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            members = iter(cgutils.unpack_tuple(builder, args[0], len(values)))
            kinds = iter(values)
            nothing = context.get_dummy_value()
            pairs = [
                (next(kinds), next(members)) if text is None else (types.literal(text), nothing)
                for text in texts
            ]
            write_print(context, builder, *zip(*pairs, strict=True))
            return context.get_dummy_value()

        return types.none(types.StarArgTuple(values)), generate

    return show  # type: ignore[no-any-return]


def write_print(
    context: Any, builder: Any, kinds: Sequence[Any] = (), values: Sequence[Any] = ()
) -> None:
    """Print values on a line, and empty the buffer of C's ``printf``.

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
