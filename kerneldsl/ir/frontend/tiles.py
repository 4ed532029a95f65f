"""Tile operations. An expression of elements is a region (``tile_expressions.py``).

An operation has these attributes:

* ``called``: the operation of the language;
* ``shape``: of the tile that it gives or stores; of a fold, a scan and a sort, of its elements;
* ``first``: number of operands before the tiles;
* ``transposed``: for each tile whether its axes are exchanged;
* ``axes``: the axes of the indices;
* ``is_guarded``: the region ends with a branch. Its condition holds for all elements if it holds
  for the first and the last one.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from numba import types

from kerneldsl.frontend.call_arguments import is_none
from kerneldsl.frontend.expressions import written
from kerneldsl.frontend.parts import Part
from kerneldsl.ir.frontend.arrays import load, packed_number
from kerneldsl.ir.frontend.attributes import attribute
from kerneldsl.ir.frontend.members import TileExpression, is_tile, packed
from kerneldsl.ir.frontend.reader import NotReadError, Reader
from kerneldsl.ir.frontend.tile_expressions import Elements, TileReader, shape_of
from kerneldsl.ir.frontend.tile_refusals import dtype_of, fail, refuse_at, refuse_number
from kerneldsl.ir.operations import Effect, Region, Value
from kerneldsl.ir.rules.calls import typing_rule
from kerneldsl.ir.tiles.folds import FOLDS
from kerneldsl.ir.tiles.shapes import OF_BLOCK, Shape
from kerneldsl.language.intrinsics.intrinsic import Intrinsic
from kerneldsl.language.intrinsics.tiles import MAX_TILE_RANK, ResultShape, element_words
from kerneldsl.lowering.types import NumbaTile, PackedView

__all__ = ["read_tile"]

#: Arguments of an operation: nodes, and constants as their values. A tile with the operation as a
#: method is read already.
_Given = dict[str, Any]


def read_tile(tiles: TileReader, node: ast.expr, intrinsic: Intrinsic, given: _Given) -> Any:
    """Read a tile operation; return ``None`` for a store."""
    name = intrinsic.name.rpartition(".")[2]
    read = _OPERATIONS.get(name, _fold if intrinsic.tile.fold else None)
    if read is None:
        raise NotReadError(intrinsic.name)
    return read(tiles, node, intrinsic, given)


def _read(tiles: TileReader, given: Any, *, is_stored: bool = False) -> Any:
    """Read a tile among the arguments; raise for anything else."""
    if not isinstance(given, ast.expr):
        return given
    found = tiles.expression(given)
    if not is_tile(found):
        refuse_number(tiles.reader.unit, given, is_stored=is_stored)
    return found


def _tile(tiles: TileReader, given: Any) -> Value:
    return tiles.tile(_read(tiles, given))


def _shape(found: Any) -> Shape:
    shape = shape_of(found)
    assert shape is not None
    return shape


def _about(intrinsic: Intrinsic, shape: Shape) -> dict[str, Any]:
    return {"shape": shape, "called": intrinsic}


def _add(
    tiles: TileReader,
    name: str,
    intrinsic: Intrinsic,
    operands: list[Value],
    static: dict[str, Any],
    effect: Effect = Effect.BLOCK,
    **attributes: Any,
) -> Value:
    """Add an operation without a region."""
    result = typing_rule(intrinsic)(tuple(v.type for v in operands), static).return_type
    about = {**_about(intrinsic, static["shape"]), **attributes}
    return tiles.reader.add(name, operands, (result,), about, effect=effect).result


# -- elements -------------------------------------------------------------------------------------


def _index(tiles: TileReader, node: ast.expr, intrinsic: Intrinsic, given: _Given) -> Value:
    assert tiles.elements is not None
    return tiles.elements.index(given["axis"])


def _transpose(tiles: TileReader, node: ast.expr, intrinsic: Intrinsic, given: _Given) -> Any:
    tile = _tile(tiles, given["tile"])
    shape = _shape(tile)

    def element() -> Value:
        assert tiles.elements is not None
        return tiles.elements.of(tile, transposed=len(shape) > 1)

    return TileExpression(node, shape[::-1], element, tile)


def _map(tiles: TileReader, node: ast.expr, intrinsic: Intrinsic, given: _Given) -> Any:
    call: ast.Call = given["value"]
    found = tiles.by_elements(call, call.args)
    if not is_tile(found):
        refuse_number(tiles.reader.unit, call)
    return found


def _made(tiles: TileReader, node: ast.expr, intrinsic: Intrinsic, given: _Given) -> Any:
    """Read an operation that makes a tile of numbers, or of numbers of another dtype."""
    reader, shape = tiles.reader, given.get("shape")
    element: Callable[[], Any] = partial(reader.constant, 0)
    if "tile" in given:
        tile = _read(tiles, given["tile"])
        shape, element = _shape(tile), partial(tiles.element, tile)
    elif "value" in given:
        element = tiles.plain(given["value"])
    elif intrinsic.name == "tile.arange":
        element = partial(_position, tiles, given["shape"])
    assert shape is not None
    _check_rank(tiles, node, shape)
    dtype = given["dtype"]
    if dtype is None:
        return TileExpression(node, shape, element)
    array: list[Value] = []
    if _is_of_value(tiles, dtype):
        array = [_with_dtype(tiles, dtype)]
    elif isinstance(dtype, ast.expr):
        dtype = dtype_of(reader.unit, dtype)

    def converted() -> Value:
        value, word = element(), element_words.cast
        kinds = tuple(each.type for each in (value, *array))
        signature = typing_rule(word)(kinds, {} if array else {"dtype": dtype})
        return reader.origins.typed(reader, reader.cast(value, signature.return_type))

    return TileExpression(node, shape, converted)


def _is_of_value(tiles: TileReader, dtype: Any) -> bool:
    """Return whether a dtype is that of a value: ``x.dtype``, or a variable that holds it."""
    if isinstance(dtype, ast.Name):
        return dtype.id in tiles.reader.variables
    return isinstance(dtype, ast.Attribute) and dtype.attr == "dtype"


def _with_dtype(tiles: TileReader, dtype: ast.expr) -> Value:
    """Return a value that has the dtype, or is it."""
    owner = tiles.value_or_tile(dtype.value) if isinstance(dtype, ast.Attribute) else None
    if isinstance(owner, Value) and hasattr(owner.type, "dtype"):
        return owner
    found = tiles.value(dtype)
    if not isinstance(found, Value) or not isinstance(found.type, types.DType):
        dtype_of(tiles.reader.unit, dtype)  # which refuses it
    assert isinstance(found, Value)
    return found


def _position(tiles: TileReader, shape: Shape) -> Value:
    """Read the index along the last axis: 0 if that has one element, which is repeated."""
    assert tiles.elements is not None
    index = tiles.elements.index(tiles.elements.rank - 1)
    return index if shape[-1] > 1 else tiles.reader.cast(tiles.reader.constant(0), index.type)


def _check_rank(tiles: TileReader, node: ast.expr, shape: Shape) -> None:
    if len(shape) > MAX_TILE_RANK:
        fail(
            Part(tiles.reader.unit, node),
            f"A tile of shape {shape} has {len(shape)} axes",
            "Use a tile of fewer axes for each index along the others",
            limit=f"A tile has at most {MAX_TILE_RANK} axes",
        )


# -- folds, scans, sorts --------------------------------------------------------------------------


def _fold(tiles: TileReader, node: ast.expr, intrinsic: Intrinsic, given: _Given) -> Value:
    """Read a reduction or a scan."""
    reader, form = tiles.reader, intrinsic.tile
    tile = _read(tiles, given["tile"])
    shape = _shape(tile)
    static: dict[str, Any] = {"shape": shape, "axis": _axis(tiles, node, shape, given["axis"])}
    fold, is_scan = FOLDS[form.fold], form.shape is ResultShape.SCANNED
    if is_scan:
        static["exclusive"] = bool(given["exclusive"])
        if len(shape) == 1:
            static["axis"] = None

    def element(made: Elements, value: Value, kind: Any) -> Value:
        def place() -> Value:
            return made.position(reader, shape, static["axis"])

        return fold.element(reader, value, kind, place)

    made = tiles.of_elements(
        "tile.scan" if is_scan else "tile.fold",
        intrinsic,
        static,
        [],
        tile,
        element,
        fold=form.fold,
        **{name: static[name] for name in ("axis", "exclusive") if name in static},
    )
    if not is_scan:
        result = Region()
        (combined,) = made.regions[0].yielded
        total, count = Value(combined.type, result, "total"), Value(types.int64, result, "count")
        result.arguments = [total, count]
        reader.into(result, lambda: [fold.finish(reader, total, count)])
        made.regions.append(result)
    return made.result


def _axis(tiles: TileReader, node: ast.expr, shape: Shape, axis: Any) -> int | None:
    """Return an axis of a shape; raise if it has no such."""
    rank = len(shape)
    if axis is None:
        return None
    if not isinstance(axis, int) or not -rank <= axis < rank:
        fail(
            Part(tiles.reader.unit, node),
            f"axis {axis} does not exist",
            f"Use 0 to {rank - 1}" if rank > 1 else "Leave axis out",
            limit=f"The tile has the shape {shape}",
            value=axis,
        )
    return axis % rank


def _sort(tiles: TileReader, node: ast.expr, intrinsic: Intrinsic, given: _Given) -> Value:
    tile = _read(tiles, given["tile"])
    return tiles.of_elements(intrinsic.name, intrinsic, {"shape": _shape(tile)}, [], tile).result


def _take(tiles: TileReader, node: ast.expr, intrinsic: Intrinsic, given: _Given) -> Value:
    tile, places = _tile(tiles, given["tile"]), _read(tiles, given["places"])
    shape, of_places = _shape(tile), _shape(places)
    if of_places[:-1] != shape[:-1] or len(of_places) != len(shape):
        fail(
            Part(tiles.reader.unit, node),
            f"{written(node, tiles.reader.unit)}: a tile of shape {shape} and places of shape "
            f"{of_places}",
            "Give places the extents of the tile along all axes except the last",
        )
    return tiles.of_elements("tile.take", intrinsic, {"shape": of_places}, [tile], places).result


# -- memory ---------------------------------------------------------------------------------------


def _load(tiles: TileReader, node: ast.expr, intrinsic: Intrinsic, given: _Given) -> Value:
    reader, shape = tiles.reader, given["shape"]
    _check_rank(tiles, node, shape)
    array = packed(reader, tiles.value(given["array"]))
    at = _places(tiles, given["at"], tiles.value(given["at"]), len(shape))
    other = packed(reader, tiles.value(given["other"]))
    static = {"shape": shape}
    if _is_of_value(tiles, given["dtype"]):
        static["dtype"] = str(_with_dtype(tiles, given["dtype"]).type.dtype)
    elif given["dtype"] is not None:
        static["dtype"] = given["dtype"]
    kinds = tuple(v.type for v in (array, other, *at))
    result = typing_rule(intrinsic)(kinds, static).return_type
    other = reader.cast(other, result.dtype)
    if isinstance(array.type, PackedView):
        return _load_packed(reader, intrinsic, array, other, at, result)
    made = reader.add(
        "tile.load",
        [array, other, *at],
        (result,),
        _about(intrinsic, shape),
        effect=Effect.READ | Effect.BLOCK,
    )
    return made.result


def _places(tiles: TileReader, node: ast.expr, found: Any, rank: int) -> list[Value]:
    """Return the index of a tile's first element along each axis of an array."""
    reader = tiles.reader
    if isinstance(found, Value) and isinstance(found.type, types.Array):
        found = tuple(load(reader, found, [reader.constant(n)]) for n in range(rank))
    places = found if isinstance(found, tuple) else (found,)
    if len(places) != rank:
        refuse_at(reader.unit, node, len(places), rank)
    return [packed(reader, each) for each in places]


def _load_packed(
    reader: Reader,
    intrinsic: Intrinsic,
    array: Value,
    other: Value,
    at: list[Value],
    result: NumbaTile,
) -> Value:
    """Load packed numbers, element by element."""
    extents = attribute(reader, array, "shape")
    starts = [reader.add("tile.place", [place], (types.int64,)).result for place in at]
    made = Elements(len(at))
    places = [made.index(axis) for axis in range(len(at))]
    inside, outside = Region(), Region()

    def read() -> list[Value]:
        pairs = zip(starts, places, strict=True)
        indices = [reader.numba(operator.add, [*pair]) for pair in pairs]
        is_inside = _are_inside(reader, indices, extents)

        def number() -> list[Value]:
            return [reader.cast(packed_number(reader, array, indices), result.dtype)]

        reader.into(inside, number)
        reader.into(outside, lambda: [other])
        return [reader.add("if", [is_inside], (result.dtype,), None, [inside, outside]).result]

    made.end(reader, read)
    about = {**_about(intrinsic, result.shape), "is_guarded": True}
    return reader.add(
        "tile.map",
        [],
        (result,),
        {**about, **made.attributes(0)},
        [made.region],
        Effect.BLOCK,
    ).result


def _are_inside(reader: Reader, indices: list[Value], extents: tuple[Value, ...]) -> Value:
    zero = reader.constant(0, types.int64)
    tests = []
    for index, extent in zip(indices, extents, strict=True):
        tests.append(reader.numba(operator.ge, [index, zero]))
        tests.append(reader.numba(operator.lt, [index, extent]))
    found = tests[0]
    for test in tests[1:]:
        found = reader.numba(operator.and_, [found, test])
    return found


def _store(tiles: TileReader, node: ast.expr, intrinsic: Intrinsic, given: _Given) -> None:
    reader = tiles.reader
    array, at = packed(reader, tiles.value(given["array"])), tiles.value(given["at"])
    tile = _read(tiles, given["tile"], is_stored=True)
    places = _places(tiles, given["at"], at, len(_shape(tile)))
    made, value = tiles.region_of(tile)
    typing_rule(intrinsic)(tuple(v.type for v in (array, *places, value)), {"shape": _shape(tile)})
    made.end(reader, lambda: [reader.cast(value, array.type.dtype)])
    reader.add(
        "tile.store",
        [array, *places, *made.operands()],
        (),
        {**_about(intrinsic, _shape(tile)), **made.attributes(1 + len(places))},
        [made.region],
        Effect.WRITE | Effect.BLOCK,
    )


# -- between threads and the block ----------------------------------------------------------------


def _of(tiles: TileReader, node: ast.expr, intrinsic: Intrinsic, given: _Given) -> Value:
    value = packed(tiles.reader, tiles.value(given["value"]))
    return _add(tiles, "tile.of", intrinsic, [value], {"shape": OF_BLOCK})


def _own(tiles: TileReader, node: ast.expr, intrinsic: Intrinsic, given: _Given) -> Value:
    tile = _tile(tiles, given["tile"])
    if len(_shape(tile)) > 1:
        fail(
            Part(tiles.reader.unit, node),
            f"{written(node, tiles.reader.unit)}: the tile has the shape {_shape(tile)}",
            "Use tiles of one axis, one for each row",
            limit="It takes a tile of one axis",
        )
    return _add(tiles, "tile.own", intrinsic, [tile], {"shape": _shape(tile)})


def _mma(tiles: TileReader, node: ast.expr, intrinsic: Intrinsic, given: _Given) -> Value:
    """Read a product. Its operands are the factors, then the tile that is added, if there is one.

    ``exchanged`` says of each factor whether its axes are exchanged; ``depth`` is the extent of the
    axis along which products are added.
    """
    factors = [_read(tiles, given[name]) for name in "ab"]
    acc = None if is_none(given["acc"]) else _read(tiles, given["acc"])
    unit, (one, two) = tiles.reader.unit, map(_shape, factors)
    if len(one) < 2 or len(two) < 2 or one[1] != two[0]:
        fail(
            Part(unit, node),
            f"{written(node, unit)}: shapes {one} and {two} do not fit",
            "Transpose one of them, as in kd.mma(x, y.T), or load tiles of other shapes",
            limit="kd.mma multiplies a tile (m, k) by a tile (k, n)",
        )
    shape = one[0], two[1]
    if acc is not None and _shape(acc) != shape:
        fail(
            Part(unit, node),
            f"{written(node, unit)}: acc has the shape {_shape(acc)}",
            f"Make it as kd.tile.zeros({shape}, …)",
            limit=f"The product of tiles {one} and {two} has the shape {shape}",
        )
    exchanged = [each.exchanged if isinstance(each, TileExpression) else None for each in factors]
    pairs = zip(exchanged, factors, strict=True)
    operands = [tiles.tile(each) if tile is None else tile for tile, each in pairs]
    if acc is not None:
        operands.append(tiles.tile(acc))
    about = {
        "depth": one[1],
        "exchanged": tuple(each is not None for each in exchanged),
        "promote": given["promote"],
        "precision": given["precision"],
    }
    static = {"shape": shape, **about}
    return _add(tiles, "tile.mma", intrinsic, operands, static, **about)


_OPERATIONS: dict[str, Callable[[TileReader, ast.expr, Intrinsic, _Given], Any]] = {
    **dict.fromkeys(("arange", "astype", "full", "zeros"), _made),
    "argsort": _sort,
    "index": _index,
    "load": _load,
    "map": _map,
    "mma": _mma,
    "of": _of,
    "own": _own,
    "sort": _sort,
    "store": _store,
    "take": _take,
    "transpose": _transpose,
}
