"""Type calls of what threads of a warp or a block compute together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numba import errors, types

from kerneldsl.language.intrinsics.intrinsic import Intrinsic, Typing

__all__ = ["GROUP_RULES"]


def _sum(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    (value,) = args
    _check_dtype(intrinsic, value)
    if isinstance(value, types.Boolean):
        value = types.int32
    elif isinstance(value, types.Integer) and value.bitwidth < 32:
        value = types.int32 if value.signed else types.uint32
    return value(value)


def _extreme(intrinsic: Intrinsic, args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    (value,) = args
    _check_dtype(intrinsic, value)
    return value(value)


def _check_dtype(intrinsic: Intrinsic, value: Any) -> None:
    if str(value) not in intrinsic.dtypes:
        raise errors.TypingError(
            f"{intrinsic!r}: {intrinsic.parameters[0]} must be one of "
            f"{', '.join(intrinsic.dtypes)}, and is {value}"
        )


GROUP_RULES = {Typing.SUM: _sum, Typing.EXTREME: _extreme}
