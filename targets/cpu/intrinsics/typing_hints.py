"""Operations that compute nothing: they tell Numba of what type a value is."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["UnknownType", "always", "unknown", "unsigned"]


@intrinsic
def unsigned(typingctx: Any, value: Any) -> Any:
    """Take an index that is known not to be negative as unsigned: no wraparound is compiled."""
    if not isinstance(value, types.Integer) or isinstance(value, types.Boolean):
        return value(value), lambda context, builder, signature, args: args[0]

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.cast(builder, args[0], value, types.uintp)

    return types.uintp(value), generate


@intrinsic
def always(typingctx: Any) -> Any:
    """Return True to Numba, which types both branches; LLVM keeps the first."""
    return types.boolean(), lambda context, builder, signature, args: cgutils.true_bit


class UnknownType(types.Type):
    """The type of a variable that has no value yet; it yields to any other."""

    def __init__(self) -> None:
        super().__init__(name="Unknown")

    def unify(self, typingctx: Any, other: Any) -> Any:
        """Return where two ways meet, the other's type is the variable's."""
        return other


@intrinsic
def unknown(typingctx: Any) -> Any:
    """Return a value of unknown type, for inference alone."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        raise AssertionError("a function made for inference alone was lowered")

    return UnknownType()(), generate
