"""An intrinsic that LLVM's instructions perform, as Numba meets it in generated code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from kerneldsl.ir.rules.calls import typing_rule
from kerneldsl.language.intrinsics.table import find_intrinsic
from kerneldsl.lowering.calls import Call, Emitter

__all__ = ["operation"]


def operation(
    name: str, emitter: Emitter, static: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Make the function that generated code calls.

    The intrinsic's typing rule types the calls, which share the constant parameters `static`.
    """
    rule, constants = typing_rule(find_intrinsic(name)), static or {}

    @intrinsic
    def call(typingctx: Any, *args: Any) -> Any:
        typed = rule(args, constants)

        def generate(context: Any, builder: Any, packed: Any, values: Any) -> Any:
            members = tuple(cgutils.unpack_tuple(builder, values[0], len(typed.args)))
            return emitter(Call(context, builder, typed, members, constants))

        return typed.return_type(types.StarArgTuple(typed.args)), generate

    return call  # type: ignore[no-any-return]
