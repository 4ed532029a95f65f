"""Perform what the elements of tiles need beside the language's own operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llvmlite import ir
from numba import errors, types

from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.intrinsics.intrinsic import Typing
from kerneldsl.language.intrinsics.table import INTRINSICS
from kerneldsl.lowering.calls import Call, Emitter
from kerneldsl.lowering.numba_internals.bound import BoundIntrinsic
from kerneldsl.lowering.tile_folds import COMBINATIONS, Combine
from kerneldsl.lowering.tile_places import tile_place
from kerneldsl.lowering.tile_plan import TilePlan
from kerneldsl.lowering.types import element_type
from targets.cuda.intrinsics.tile_folds import fold_operations
from targets.cuda.intrinsics.tile_memory import memory_operations
from targets.cuda.intrinsics.tile_sorts import SORTING
from targets.cuda.intrinsics.unroll import UNROLL, UNROLL_NAME

__all__ = ["EMITTERS", "tile_operations"]


def _combination(name: str, combine: Combine) -> BoundIntrinsic:
    def rule(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
        one, two = map(types.unliteral, args)
        if one != two:
            raise errors.TypingError(f"tile.{name}: {one} and {two} are combined")
        return one(one, two)

    def emit(call: Call) -> ir.Value:
        kind = call.signature.return_type
        return combine(call.context, call.builder, kind, *call.args)

    return BoundIntrinsic(f"tile.{name}", rule, emit, {})


def _place_rule(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    return types.int64(types.unliteral(args[0]))


def _place(call: Call) -> ir.Value:
    return tile_place(call.builder, call.signature.args[0], call.args[0])


_COMBINING = {f"kd_fold_{name}": _combination(name, each) for name, each in COMBINATIONS.items()}
_PLACE = BoundIntrinsic("tile.place", _place_rule, _place, {})


def _refuse(call: Call) -> ir.Value:
    raise AssertionError("tiles are spread over threads before a kernel is lowered")


#: Of the language's operations on tiles.
EMITTERS: dict[str, Emitter] = {
    name: _refuse for name, row in INTRINSICS.items() if row.typing is Typing.TILE
}


def tile_operations(plan: TilePlan) -> dict[str, Any]:
    """Return what the statements of a kernel's tile operations call, by name."""
    found: dict[str, Any] = {
        "kd_range": range,
        "kd_min": min,
        "kd_max": max,
        "kd_complex": complex,
        **_COMBINING,
        **memory_operations(plan.moved),
        **fold_operations(plan),
        UNROLL_NAME: UNROLL,
        "kd_place": _PLACE,
        **SORTING,
    }
    for name, row in ELEMENT_TYPES.items():
        if name in plan.all_dtypes or (row.package == "numpy" and not row.is_narrow):
            found[f"kd_as_{name}"] = bool if name == "bool" else element_type(name)
    return found
