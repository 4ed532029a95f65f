"""Typing of instructions that a kernel writes out itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numba import errors, types

from kerneldsl.language.intrinsics.intrinsic import Intrinsic
from kerneldsl.lowering.types import element_type

__all__ = ["inline_rule"]


def inline_rule(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    """Type a call: the results are what the user says, and the values keep their types."""
    for number, arg in enumerate(args, len(static["out"])):
        if not isinstance(arg, types.Integer | types.Float | types.Boolean) or _width(arg) > 64:
            raise errors.TypingError(
                f"{intrinsic!r}: ${number} must be a real number of 8 to 64 bits, and is {arg}; of "
                "an array give an element"
            )
    results = [element_type(dtype) for dtype in static["out"]]
    for number, kind in enumerate(results):
        if not isinstance(kind, types.Integer | types.Float):
            raise errors.TypingError(
                f"{intrinsic!r}: ${number} must be an integer or a float, and is {kind}"
            )
    if not results:
        return types.void(*args)
    return (results[0] if len(results) == 1 else types.Tuple(results))(*args)


def _width(kind: Any) -> int:
    return 1 if isinstance(kind, types.Boolean) else int(kind.bitwidth)
