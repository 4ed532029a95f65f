"""One call of an intrinsic as a target that compiles with Numba types and writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from llvmlite import ir

__all__ = ["Call", "Emitter", "TypingRule"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an intrinsic that is to be written.

    Parameters
    ----------
    context : numba.core.base.BaseContext
        The target's, where types have a representation.
    builder : ir.IRBuilder
        Where the instructions go.
    signature : numba Signature
        Types of the arguments and the result.
    args : tuple of ir.Value
        The arguments, converted to those types.
    static : mapping
        Constant parameters.
    """

    context: Any
    builder: ir.IRBuilder
    signature: Any
    args: tuple[ir.Value, ...]
    static: Mapping[str, Any]


#: Writes the instructions of one call and returns its value.
Emitter: TypeAlias = Callable[[Call], ir.Value]
#: Types one call: (argument types, static) -> signature; raises ``TypingError``.
TypingRule: TypeAlias = Callable[[tuple[Any, ...], Mapping[str, Any]], Any]
