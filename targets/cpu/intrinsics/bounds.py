"""Arithmetic of loop bounds, which stops at the ends of int64."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["saturating_add", "saturating_sub"]

_I64 = ir.IntType(64)


def _saturating(name: str) -> Any:
    """Lower to one of LLVM's saturating operations.

    References
    ----------
    LLVM Language Reference, "Saturation Arithmetic Intrinsics".
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_I64, [_I64, _I64])
        operation = builder.module.declare_intrinsic(f"llvm.{name}", [_I64], kind)
        return builder.call(operation, args)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def saturating_add(typingctx: Any, left: Any, right: Any) -> Any:
    """Add int64, and stop at its ends."""
    return _saturating("sadd.sat")


@intrinsic
def saturating_sub(typingctx: Any, left: Any, right: Any) -> Any:
    """Subtract int64, and stop at its ends."""
    return _saturating("ssub.sat")
