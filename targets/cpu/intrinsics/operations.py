"""An intrinsic that LLVM's instructions perform, as Numba meets it in generated code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from kerneldsl.language.intrinsics.table import INTRINSICS
from kerneldsl.lowering.calls import Call, Emitter
from kerneldsl.lowering.typing_rules import typing_rule

__all__ = ["operation"]


def operation(name: str, emitter: Emitter) -> Callable[..., Any]:
    """Make the function that generated code calls.

    The intrinsic's typing rule types the calls.
    """
    rule = typing_rule(INTRINSICS[name])

    @intrinsic
    def call(typingctx: Any, *args: Any) -> Any:
        typed = rule(args, {})

        def generate(context: Any, builder: Any, packed: Any, values: Any) -> Any:
            members = tuple(cgutils.unpack_tuple(builder, values[0], len(typed.args)))
            return emitter(Call(context, builder, typed, members, {}))

        return typed.return_type(types.StarArgTuple(typed.args)), generate

    return call  # type: ignore[no-any-return]
