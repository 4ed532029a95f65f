"""Refuse expressions with tiles that have no meaning."""

from __future__ import annotations

import ast
from typing import Any, NoReturn

from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.expressions import written
from kerneldsl.frontend.parts import Part
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.tiles import TILE_ATTRIBUTES, TILE_METHODS
from kerneldsl.language.other_names import closest_name
from kerneldsl.language.types import TileType

__all__ = [
    "fail",
    "refuse_at",
    "refuse_attribute",
    "refuse_conditional",
    "refuse_nothing",
    "refuse_number",
    "refuse_tile",
    "refuse_two_tiles",
]

#: What a tile has, by the names that follow it in a kernel.
_MEMBERS = tuple(sorted((*TILE_METHODS, *TILE_ATTRIBUTES, "map")))


def fail(
    source: Part,
    what: str,
    remedy: str,
    *,
    limit: str | None = None,
    value: object = None,
) -> NoReturn:
    """Raise `UnsupportedConstructError` at an expression or statement."""
    raise UnsupportedConstructError(
        what, where=source.where, value=value, limit=limit, remedy=remedy
    )


def refuse_at(unit: FunctionUnit, at: ast.expr, count: int, rank: int) -> NoReturn:
    """Raise: the index of a tile's first element has not one part for each axis of the tile."""
    indices = "1 index" if count == 1 else f"{count} indices"
    fail(
        Part(unit, at),
        f"at has {indices}, and the tile {rank} axes",
        "Give one index for each axis; of an array of more axes take a part: a[i]. What "
        "t.sum(axis=1) gives keeps the axis, with an extent of 1",
    )


def refuse_tile(unit: FunctionUnit, node: ast.expr) -> NoReturn:
    """Raise: a tile is used in the place of a number."""
    fail(
        Part(unit, node),
        f"{written(node, unit)} is a tile, and a number is needed here",
        "Reduce it, as in t.sum() or t.any(), take the thread's own element, t.own, or those at "
        "some places, t.take(places); its shape is the constants that it was made with",
        limit="Tiles can be computed with, stored, reduced, and given to device functions, and a "
        f"tile has {', '.join(_MEMBERS)}",
    )


def refuse_number(unit: FunctionUnit, node: ast.expr, *, is_stored: bool = False) -> NoReturn:
    """Raise: a number is stored as a tile, or used in the place of one."""
    remedy = "Make a tile of the numbers of all threads: kd.tile.of(…)"
    if is_stored:
        remedy = (
            "Store one thread's number with array[i] = …, or make a tile of every thread's: "
            "kd.tile.of(…)"
        )
    fail(Part(unit, node), f"{written(node, unit)} is not a tile", remedy)


def refuse_attribute(unit: FunctionUnit, node: ast.Attribute) -> NoReturn:
    """Raise: a tile has no such attribute or method."""
    near, tile = closest_name(node.attr, _MEMBERS), written(node.value, unit)
    fail(
        Part(unit, node),
        f"the tile {tile} has no {node.attr!r}",
        f"Write {tile}.{near}" if near else "Write one of those",
        limit=f"A tile has {', '.join(_MEMBERS)}",
    )


def refuse_conditional(unit: FunctionUnit, node: ast.expr) -> NoReturn:
    """Raise: a tile operation is after ``and`` or ``or``, or in a conditional."""
    fail(
        Part(unit, node),
        f"{written(node, unit)} is evaluated conditionally, and works on a tile",
        "Assign its result to a variable in a separate statement",
        limit="Every thread of the block has to reach a tile operation",
    )


def refuse_nothing(unit: FunctionUnit, node: ast.expr) -> NoReturn:
    """Raise: a store is used as a value."""
    fail(Part(unit, node), "kd.tile.store(…) gives nothing", "Write it as a separate statement")


def refuse_two_tiles(unit: FunctionUnit, name: str, one: Any, two: Any) -> None:
    """Raise if the types of two tiles that a variable holds differ."""
    if one == two:
        return
    stores = (
        node
        for node in walk_here(unit.tree)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    )
    where = next(stores, unit.tree)
    if one.shape != two.shape:
        fail(
            Part(unit, where),
            f"{name} holds tiles of shapes {one.shape} and {two.shape}",
            "Give each of them its own variable",
            limit="A variable holds tiles of one shape",
        )
    found = [TileType(each.shape, str(each.dtype)) for each in (one, two)]
    fail(
        Part(unit, where),
        f"{name} holds {' and '.join(map(str, found))}",
        "Give each of them its own variable, or convert: t.astype(kd.float32)",
        limit="A variable that holds a tile holds tiles of one dtype",
    )
