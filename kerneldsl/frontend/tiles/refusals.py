"""Refuse expressions with tiles in places that have no meaning."""

from __future__ import annotations

import ast
from typing import NoReturn

from kerneldsl.frontend.expressions import sometimes_evaluated, written
from kerneldsl.frontend.library_names import outside_value
from kerneldsl.frontend.statics import dtype_name
from kerneldsl.frontend.tiles.shapes import TILE_MEMBERS, Shape, TileShapes
from kerneldsl.frontend.trees import walk_here
from kerneldsl.language.other_names import closest_name

__all__ = [
    "dtype_of",
    "has_tiles",
    "refuse_at",
    "refuse_attribute",
    "refuse_conditional",
    "refuse_tile",
    "shape_of_own",
    "shape_of_tile",
]


def refuse_at(shapes: TileShapes, at: ast.expr, count: int, rank: int) -> NoReturn:
    """Raise: the index of a tile's first element has not one part for each axis of the tile."""
    indices = "1 index" if count == 1 else f"{count} indices"
    shapes.fail(
        at,
        f"at has {indices}, and the tile {rank} axes",
        "Give one index for each axis; of an array of more axes take a part: a[i]. What "
        "t.sum(axis=1) gives keeps the axis, with an extent of 1",
    )


def has_tiles(shapes: TileShapes, node: ast.expr) -> bool:
    """Return whether an expression works on tiles anywhere."""
    return any(
        shapes.operation(inner) is not None
        or (isinstance(inner, ast.Name) and inner.id in shapes.variables)
        for inner in walk_here(node)
    )


def shape_of_tile(shapes: TileShapes, node: ast.expr, *, is_stored: bool = False) -> Shape:
    """Return the shape of a tile, which is stored or computed with; raise for anything else."""
    shape = shapes.of(node)
    if shape is None and shapes.operation(node) == "take":
        return shape_of_tile(shapes, shapes.arguments(node)["places"])
    if shape is None and shapes.operation(node) == "mma":
        given = shapes.arguments(node)
        for factor in (given["a"], given["b"]):
            shape_of_tile(shapes, factor)
    method = node.func if isinstance(node, ast.Call) else node
    is_unknown = shape is None and shapes.operation(node) is None
    if is_unknown and isinstance(method, ast.Attribute) and shapes.of(method.value) is not None:
        refuse_attribute(shapes, method)
    if shape is None and is_stored:
        shapes.fail(
            node,
            f"{written(node, shapes.unit)} is not a tile",
            "Store one thread's number with array[i] = …, or make a tile of every thread's: "
            "kd.tile.of(…)",
        )
    if shape is None:
        shapes.fail(
            node,
            f"{written(node, shapes.unit)} is not a tile",
            "Make a tile of the numbers of all threads: kd.tile.of(…)",
        )
    return shape


def shape_of_own(shapes: TileShapes, node: ast.expr, shape: Shape) -> Shape:
    """Return the shape of a tile with an element for each thread; raise for two axes."""
    if len(shape) > 1:
        shapes.fail(
            node,
            f"{written(node, shapes.unit)}: the tile has the shape {shape}",
            "Use tiles of one axis, one for each row",
            limit="It takes a tile of one axis",
        )
    return shape


def refuse_tile(shapes: TileShapes, node: ast.expr) -> NoReturn:
    """Raise: a tile is used in the place of a number."""
    shapes.fail(
        node,
        f"{written(node, shapes.unit)} is a tile, and a number is needed here",
        "Reduce it, as in t.sum() or t.any(), take the thread's own element, t.own, or those at "
        "some places, t.take(places); its shape is the constants that it was made with",
        limit="Tiles can be computed with, stored, reduced, and given to device functions, and a "
        f"tile has {', '.join(TILE_MEMBERS)}",
    )


def refuse_attribute(shapes: TileShapes, node: ast.Attribute) -> NoReturn:
    """Raise: a tile has no such attribute or method."""
    near = closest_name(node.attr, TILE_MEMBERS)
    shapes.fail(
        node,
        f"the tile {written(node.value, shapes.unit)} has no {node.attr!r}",
        f"Write {written(node.value, shapes.unit)}.{near}" if near else "Write one of those",
        limit=f"A tile has {', '.join(TILE_MEMBERS)}",
    )


def refuse_conditional(shapes: TileShapes, node: ast.expr) -> None:
    """Raise where a tile operation is after ``and``, ``or``, or in a conditional."""
    for part in sometimes_evaluated(node):
        if has_tiles(shapes, part):
            shapes.fail(
                part,
                f"{written(part, shapes.unit)} is evaluated conditionally, and works on a tile",
                "Assign its result to a variable in a separate statement",
                limit="Every thread of the block has to reach a tile operation",
            )


def dtype_of(shapes: TileShapes, node: ast.expr) -> str:
    """Return the dtype that an expression names; raise if it names none."""
    unit = shapes.unit
    name = dtype_name(outside_value(node, unit.namespace))
    if isinstance(node, ast.Name) and node.id in unit.constants:
        name = dtype_name(unit.constants[node.id].value)
    if name is None:
        shapes.fail(
            node,
            f"{written(node, shapes.unit)} is not a dtype that is known when the kernel is "
            "compiled",
            "Name the dtype, as kd.float32",
        )
    return name
