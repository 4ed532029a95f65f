"""Read arguments of tile operations; refuse expressions with tiles that have no meaning."""

from __future__ import annotations

import ast
from typing import Any, NoReturn

from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.expressions import written
from kerneldsl.frontend.library_names import outside_value
from kerneldsl.frontend.parts import Part
from kerneldsl.frontend.statics import dtype_name
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.language.intrinsics.intrinsic import Intrinsic
from kerneldsl.language.intrinsics.tiles import TILE_ATTRIBUTES, TILE_METHODS
from kerneldsl.language.other_names import closest_name
from kerneldsl.language.types import TileType
from kerneldsl.utilities.formatting import format_count

__all__ = [
    "dtype_of",
    "fail",
    "given_to",
    "given_to_method",
    "named_dtypes",
    "refuse_at",
    "refuse_attribute",
    "refuse_conditional",
    "refuse_nothing",
    "refuse_number",
    "refuse_tile",
    "refuse_two_tiles",
]


#: Names of the methods and attributes of tiles.
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
    fail(
        Part(unit, at),
        f"at= has {format_count(count, 'index', 'indices')}, and the tile has "
        f"{format_count(rank, 'axis', 'axes')}",
        "Give one index for each axis of the tile. Of an array with more axes pass a part: a[i]. "
        "The result of t.sum(axis=1) keeps the axis, with an extent of 1",
    )


def refuse_tile(unit: FunctionUnit, node: ast.expr) -> NoReturn:
    """Raise: a tile is used in the place of a number."""
    fail(
        Part(unit, node),
        f"{written(node, unit)} is a tile, and a number is needed here",
        "Reduce it, as in t.sum() or t.any(). The thread's own element is t.own, elements at "
        "places are t.take(places). The shape is the constants that it was made with",
        limit="Tiles can be computed with, stored, reduced and passed to device functions. A "
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


#: Permitted values of the constant parameters of methods.
_CONSTANTS = {"axis": "0 or 1", "exclusive": "True or False"}


def given_to(node: ast.Call, use: IntrinsicUse) -> dict[str, Any]:
    """Return what an operation is given, by parameter: nodes, and constants as their values."""
    dynamic = [each for each in use.intrinsic.parameters if each not in use.static]
    return {**dict(zip(dynamic, node.args, strict=False)), **use.static}


def given_to_method(
    unit: FunctionUnit, node: ast.Call, row: Intrinsic, owner: Any
) -> dict[str, Any]:
    """Return what a method of a tile is given."""
    parameters = row.parameters[1:]
    given: dict[str, Any] = {"tile": owner, **row.defaults}
    given.update(zip(parameters, node.args, strict=False))
    given.update({each.arg: each.value for each in node.keywords if each.arg})
    unknown = [each for each in given if each not in ("tile", *parameters)]
    missing = [each for each in parameters if each not in given]
    if len(node.args) > len(parameters) or unknown or missing:
        signature = f"t.{row.name.rpartition('.')[2]}({', '.join(parameters)})"
        fail(
            Part(unit, node),
            f"{written(node, unit)} has wrong arguments",
            f"Call it as {signature}",
        )
    for parameter, example in _CONSTANTS.items():
        if isinstance(given.get(parameter), ast.expr):
            given[parameter] = _constant(unit, given[parameter], parameter, example)
    return given


def _constant(unit: FunctionUnit, node: ast.expr, parameter: str, example: str) -> object:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in unit.constants:
            return unit.constants[name].value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
            return -value
    fail(
        Part(unit, node),
        f"{parameter} is {written(node, unit)}, which is not a constant",
        f"Write {example}, or capture it from a global or a closure",
        limit="It must be known when the kernel is compiled",
    )


def dtype_of(unit: FunctionUnit, node: ast.expr) -> str:
    """Return the dtype that an expression names; raise if it names none."""
    name = _named_dtype(unit, node)
    if name is None:
        fail(
            Part(unit, node),
            f"{written(node, unit)} is not a dtype that is known when the kernel is compiled",
            "Name the dtype, as kd.float32",
        )
    return name


def _named_dtype(unit: FunctionUnit, node: ast.expr) -> str | None:
    if isinstance(node, ast.Name) and node.id in unit.constants:
        return dtype_name(unit.constants[node.id].value)
    return dtype_name(outside_value(node, unit.namespace))


def named_dtypes(unit: FunctionUnit) -> set[str | None]:
    """Return the dtypes that methods of tiles are given, in a kernel and what it calls."""
    return {
        _named_dtype(each, argument)
        for each in unit.reachable()
        for node in walk_here(each.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "astype"
        for argument in (*node.args, *(keyword.value for keyword in node.keywords))
    }
