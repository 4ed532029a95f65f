"""Operations on two elements of a tile, as generated code calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.extending import intrinsic

from kerneldsl.lowering.tile_folds import COMBINATIONS, Combine

__all__ = ["FOLDS"]


def _operation(combine: Combine) -> Callable[..., Any]:
    @intrinsic
    def call(typingctx: Any, one: Any, two: Any) -> Any:
        if one != two:
            return None

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return combine(context, builder, one, *args)

        return one(one, two), generate

    return call  # type: ignore[no-any-return]


#: Name of a combination to what generated code calls.
FOLDS: dict[str, Callable[..., Any]] = {
    name: _operation(combine) for name, combine in COMBINATIONS.items()
}
