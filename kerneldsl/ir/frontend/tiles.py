"""Tile operations. An expression of elements is a region.

Its arguments are an element of each tile that it reads, then the element's index along each axis
that it reads. An operation has these attributes:

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
from dataclasses import field
from typing import Any

from numba import types

from kerneldsl.frontend.tiles.shapes import Shape
from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.ir.frontend.attributes import attribute
from kerneldsl.ir.frontend.members import packed
from kerneldsl.ir.frontend.reader import NotReadError, Reader
from kerneldsl.ir.operations import Effect, Operation, Region, Value
from kerneldsl.ir.rules.calls import typing_rule
from kerneldsl.ir.tiles.folds import FOLDS
from kerneldsl.language.intrinsics.tile_forms import ResultShape
from kerneldsl.lowering.types import NumbaTile, PackedView
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["read_tile"]


@dataclass
class Elements:
    """The region of an expression of elements while it is read."""

    region: Region = field(default_factory=Region)
    #: Tiles, and whether their axes are exchanged, to the element in the region.
    tiles: dict[tuple[Value, bool], Value] = field(default_factory=dict)
    #: Axes, to the element's index along them.
    indices: dict[int, Value] = field(default_factory=dict)

    def index(self, axis: int) -> Value:
        """Return the element's index along an axis."""
        if axis not in self.indices:
            self.indices[axis] = Value(types.int64, self.region, "ij"[axis])
        return self.indices[axis]

    def position(self, reader: Reader, shape: Shape, axis: int | None) -> Value:
        """Read the element's position along an axis, or in a tile of a shape."""
        if axis is not None or len(shape) == 1:
            return self.index(axis or 0)
        columns = reader.constant(shape[1], types.int64)
        start = reader.numba(operator.mul, [self.index(0), columns])
        return reader.numba(operator.add, [start, self.index(1)])

    def end(self, reader: Reader, read: Callable[[], list[Value]]) -> None:
        """Read what the region yields. Then its arguments are known."""
        reader.into(self.region, read)
        self.region.arguments = [*self.tiles.values(), *self.indices.values()]

    def attributes(self, first: int) -> dict[str, Any]:
        """Return the attributes of an operation with the region; `first` operands precede."""
        return {
            "first": first,
            "transposed": tuple(is_transposed for _, is_transposed in self.tiles),
            "axes": tuple(self.indices),
        }

    def operands(self) -> list[Value]:
        """Return the tiles that the region reads."""
        return [tile for tile, _ in self.tiles]


def read_tile(reader: Reader, node: ast.Call, use: IntrinsicUse) -> Value | None:
    """Read a call of a tile operation."""
    form = use.intrinsic.tile
    read = _OPERATIONS.get(use.intrinsic.name.rpartition(".")[2], _fold if form.fold else None)
    if read is None:
        raise NotReadError(use.intrinsic.name)
    return read(reader, node, use)


# -- elements -----------------------------------------------------------------------------------


def _elements(reader: Reader, node: ast.expr) -> tuple[Elements, Value]:
    """Read an expression of elements into a region, without its end."""
    made = Elements()
    outer, reader.elements = reader.elements, made
    found: list[Value] = []

    def read() -> None:
        found.append(reader.number(node))

    try:
        reader.into(made.region, read)
    finally:
        reader.elements = outer
    return made, found[0]


def _element(reader: Reader, node: ast.Call, use: IntrinsicUse) -> Value:
    made, (tile,) = reader.elements, (reader.number(each) for each in node.args)
    typing_rule(use.intrinsic)((tile.type,), use.static)
    assert made is not None
    key = tile, bool(use.static.get("transposed"))
    element: Value | None = made.tiles.get(key)
    if element is None:
        element = made.tiles[key] = Value(tile.type.dtype, made.region, tile.name)
    return element


def _index(reader: Reader, node: ast.Call, use: IntrinsicUse) -> Value:
    made, axis = reader.elements, use.static["axis"]
    assert isinstance(made, Elements)
    return made.index(axis)


def _cast(reader: Reader, node: ast.Call, use: IntrinsicUse) -> Value:
    found = [reader.number(each) for each in node.args]
    signature = typing_rule(use.intrinsic)(tuple(each.type for each in found), use.static)
    return reader.origins.typed(reader, reader.cast(found[0], signature.return_type))


# -- operations ---------------------------------------------------------------------------------


def _of_elements(
    reader: Reader,
    name: str,
    node: ast.Call,
    use: IntrinsicUse,
    convert: Callable[[Elements, Value, Any], Value],
    **attributes: Any,
) -> Operation:
    """Add an operation on an expression of elements, the last argument of its call.

    `convert` gets the expression, an element and the dtype of the result. The other arguments
    become operands before the tiles.
    """
    *before, last = node.args
    given = [reader.number(each) for each in before]
    made, value = _elements(reader, last)
    kinds = (*(v.type for v in given), value.type)
    result = typing_rule(use.intrinsic)(kinds, use.static).return_type
    dtype = result.dtype if isinstance(result, NumbaTile) else result
    made.end(reader, lambda: [convert(made, value, dtype)])
    return reader.add(
        name,
        [*given, *made.operands()],
        (result,),
        {**_attributes(node, use), **made.attributes(len(given)), **attributes},
        [made.region],
        Effect.BLOCK,
    )


def _attributes(node: ast.Call, use: IntrinsicUse) -> dict[str, Any]:
    assert isinstance(node.func, ast.Name)
    return {"shape": use.static["shape"], "reserved": node.func.id}


def _same(made: Elements, value: Value, kind: Any) -> Value:
    return value


def _each(reader: Reader, node: ast.Call, use: IntrinsicUse) -> Value:
    made = _of_elements(reader, "tile.map", node, use, _same)
    (region,) = made.regions
    is_same = len(region.operations) == 1 and region.yielded == region.arguments
    if is_same and made.attributes["transposed"] == (False,):
        (tile,) = made.operands
        if tile.type == made.result.type:
            # A tile itself, which several variables may hold.
            assert reader.operations.pop() is made
            return tile
    return made.result


def _fold(reader: Reader, node: ast.Call, use: IntrinsicUse) -> Value:
    """Read a reduction or a scan."""
    form, static = use.intrinsic.tile, use.static
    fold, is_scan = FOLDS[form.fold], form.shape is ResultShape.SCANNED

    def element(made: Elements, value: Value, kind: Any) -> Value:
        def place() -> Value:
            return made.position(reader, static["shape"], static["axis"])

        return fold.element(reader, value, kind, place)

    made = _of_elements(
        reader,
        "tile.scan" if is_scan else "tile.fold",
        node,
        use,
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


def _sort(reader: Reader, node: ast.Call, use: IntrinsicUse) -> Value:
    return _of_elements(reader, use.intrinsic.name, node, use, _same).result


def _take(reader: Reader, node: ast.Call, use: IntrinsicUse) -> Value:
    return _of_elements(reader, "tile.take", node, use, _same).result


def _load(reader: Reader, node: ast.Call, use: IntrinsicUse) -> Value:
    array, other, *at = (reader.number(each) for each in node.args)
    kinds = tuple(v.type for v in (array, other, *at))
    result = typing_rule(use.intrinsic)(kinds, use.static).return_type
    other = reader.cast(other, result.dtype)
    if isinstance(array.type, PackedView):
        return _load_packed(reader, array, other, at, result)
    made = reader.add(
        "tile.load",
        [array, other, *at],
        (result,),
        _attributes(node, use),
        effect=Effect.READ | Effect.BLOCK,
    )
    return made.result


def _load_packed(
    reader: Reader, array: Value, other: Value, at: list[Value], result: NumbaTile
) -> Value:
    """Load packed numbers, element by element."""
    extents = attribute(reader, array, "shape")
    starts = [reader.add("tile.place", [place], (types.int64,)).result for place in at]
    made = Elements()
    places = [made.index(axis) for axis in range(len(at))]
    inside, outside = Region(), Region()

    def read() -> list[Value]:
        pairs = zip(starts, places, strict=True)
        indices = [reader.numba(operator.add, [*pair]) for pair in pairs]
        is_inside = _are_inside(reader, indices, extents)

        def number() -> list[Value]:
            return [reader.cast(_packed_number(reader, array, indices), result.dtype)]

        reader.into(inside, number)
        reader.into(outside, lambda: [other])
        return [reader.add("if", [is_inside], (result.dtype,), None, [inside, outside]).result]

    made.end(reader, read)
    return reader.add(
        "tile.map",
        [],
        (result,),
        {"shape": result.shape, "is_guarded": True, **made.attributes(0)},
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


def _packed_number(reader: Reader, array: Value, indices: list[Value]) -> Value:
    index = indices[0] if len(indices) == 1 else packed(reader, (*indices,))
    signature = reader.typing.operator(operator.getitem, (array.type, index.type))
    attributes = {"function": operator.getitem, "signature": signature}
    kinds = (signature.return_type,)
    return reader.add("numba", [array, index], kinds, attributes, effect=Effect.READ).result


def _store(reader: Reader, node: ast.Call, use: IntrinsicUse) -> None:
    array, *at = (reader.number(each) for each in node.args[:-1])
    made, value = _elements(reader, node.args[-1])
    kinds = tuple(v.type for v in (array, *at, value))
    typing_rule(use.intrinsic)(kinds, use.static)
    made.end(reader, lambda: [reader.cast(value, array.type.dtype)])
    reader.add(
        "tile.store",
        [array, *at, *made.operands()],
        (),
        {**_attributes(node, use), **made.attributes(1 + len(at))},
        [made.region],
        Effect.WRITE | Effect.BLOCK,
    )


def _of(reader: Reader, node: ast.Call, use: IntrinsicUse) -> Value:
    value = reader.number(node.args[0])
    result = typing_rule(use.intrinsic)((value.type,), use.static).return_type
    return reader.add(
        "tile.of",
        [value],
        (result,),
        _attributes(node, use),
        effect=Effect.BLOCK,
    ).result


def _own(reader: Reader, node: ast.Call, use: IntrinsicUse) -> Value:
    tile = reader.number(node.args[0])
    result = typing_rule(use.intrinsic)((tile.type,), use.static).return_type
    return reader.add(
        "tile.own",
        [tile],
        (result,),
        _attributes(node, use),
        effect=Effect.BLOCK,
    ).result


def _mma(reader: Reader, node: ast.Call, use: IntrinsicUse) -> Value:
    """Read a product. Its operands are the factors, then the tile that is added, if there is one.

    ``exchanged`` says of each factor whether its axes are exchanged; ``depth`` is the extent of the
    axis along which products are added.
    """
    tiles = [reader.number(each) for each in node.args]
    result = typing_rule(use.intrinsic)(tuple(v.type for v in tiles), use.static).return_type
    names = ("depth", "exchanged", "promote", "precision")
    attributes = {**_attributes(node, use), **{name: use.static[name] for name in names}}
    return reader.add("tile.mma", tiles, (result,), attributes, effect=Effect.BLOCK).result


_OPERATIONS: dict[str, Callable[[Reader, ast.Call, IntrinsicUse], Value | None]] = {
    "argsort": _sort,
    "cast": _cast,
    "each": _each,
    "element": _element,
    "index": _index,
    "load": _load,
    "mma": _mma,
    "of": _of,
    "own": _own,
    "sort": _sort,
    "store": _store,
    "take": _take,
}
