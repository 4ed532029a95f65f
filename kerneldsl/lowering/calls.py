"""One call of an intrinsic as a target that compiles with Numba types and writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from llvmlite import ir

from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["Call", "Emitter"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an intrinsic that is to be written."""

    #: The target's, where types have a representation.
    context: Any
    #: Where the instructions go.
    builder: ir.IRBuilder
    #: Types of the arguments and the result.
    signature: Any
    #: The arguments, converted to those types.
    args: tuple[ir.Value, ...]
    #: Constant parameters.
    static: Mapping[str, Any]


#: Writes the instructions of one call and returns its value.
Emitter: TypeAlias = Callable[[Call], ir.Value]
