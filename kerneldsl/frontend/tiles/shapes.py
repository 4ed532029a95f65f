"""Find which variables of a function hold tiles, and the shapes of all tile expressions.

Shapes are constants, so no types are needed. The shape of what ``kd.tile.of`` gives is one element
for each thread of the block, whose size is known when the kernel is compiled for a block.
"""

from __future__ import annotations

import ast
import math
from typing import Any, NoReturn, TypeAlias

from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.bindings import bindings
from kerneldsl.frontend.expressions import operands, written
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.language.intrinsics.intrinsic import Intrinsic
from kerneldsl.language.intrinsics.tile_forms import ResultShape
from kerneldsl.language.intrinsics.tiles import MAX_TILE_RANK, tile

__all__ = [
    "OF_BLOCK",
    "TILE_MEMBERS",
    "Shape",
    "TileShapes",
    "broadcast",
    "result_shape",
]

#: Extents of a tile along its axes.
Shape: TypeAlias = tuple[int, ...]
#: Shape of a tile that has an element for each thread of the block.
OF_BLOCK: Shape = (0,)
_ROWS = {name: getattr(tile, name) for name in dir(tile)}
#: The operations that are attributes too, and those that are methods.
_ATTRIBUTES = {row.tile.attribute: row for row in _ROWS.values() if row.tile.attribute}
_METHODS = {
    name: row
    for name, row in _ROWS.items()
    if row.parameters[0] == "tile" and not row.tile.attribute
}
#: What a tile has, by the names that follow it in a kernel.
TILE_MEMBERS = tuple(sorted((*_METHODS, *_ATTRIBUTES, "map")))
#: Parameters of methods that are constants, with what one may write for them.
_CONSTANTS = {"axis": "0 or 1", "exclusive": "True or False"}


def broadcast(*shapes: Shape | None) -> Shape | None:
    """Return the shape that several have in common, a number's being ``None``.

    Raises `ValueError` if there is none.

    Examples
    --------
    >>> broadcast((4, 1), None, (8,)), broadcast(None, None)
    ((4, 8), None)
    """
    known = [shape for shape in shapes if shape is not None]
    if not known:
        return None
    rank = max(map(len, known))
    result = []
    for extents in zip(*((1,) * (rank - len(s)) + s for s in known), strict=True):
        wanted = {n for n in extents if n not in (1, *OF_BLOCK)} or set(extents) - {1} or {1}
        if len(wanted) > 1:
            raise ValueError(f"shapes {' and '.join(map(str, known))} do not fit")
        result.append(wanted.pop())
    return tuple(result)


def result_shape(use: IntrinsicUse) -> Shape | None:
    """Return the shape of the tile that an operation gives; ``None`` if it gives none."""
    form = use.intrinsic.tile
    if form.shape is ResultShape.NONE:
        return None
    shape: Shape = use.static["shape"]
    return _along(form.shape, shape, use.static["axis"]) if form.has_axis else shape


def _along(result: ResultShape, shape: Shape, axis: int | None) -> Shape | None:
    """Return the shape of what an operation gives along an axis, or of all elements."""
    if result is ResultShape.SCANNED:
        return (math.prod(shape),) if axis is None else shape
    return None if axis is None else tuple(1 if i == axis else n for i, n in enumerate(shape))


class TileShapes:
    """Shapes of the tiles of one function.

    Parameters
    ----------
    unit : FunctionUnit
        In normal form; methods of tiles may still be methods.
    """

    def __init__(self, unit: FunctionUnit) -> None:
        self.unit = unit
        #: Variables that hold tiles.
        self.variables: dict[str, Shape] = {}
        found = [b for b in bindings(unit.tree) if isinstance(b.target, ast.Name)]
        changed = True
        while changed:
            changed = False
            for binding in found:
                assert isinstance(binding.target, ast.Name)
                name = binding.target.id
                shape = None if binding.is_item else self.of(binding.value)
                if shape is None:
                    continue
                changed = changed or name not in self.variables
                known = self.variables.setdefault(name, shape)
                if known != shape:
                    self.fail(
                        binding.node,
                        f"{unit.spellings.get(name, name)} holds tiles of shapes {known} and "
                        f"{shape}",
                        "Give each of them its own variable",
                        limit="A variable holds tiles of one shape",
                    )

    def row(self, node: ast.AST) -> Intrinsic | None:
        """Return the operation on tiles that a node is; ``None`` for others."""
        use = self.unit.use_of(node)
        if use is not None and use.is_of_tiles:
            return use.intrinsic
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _METHODS:
                return _METHODS[name] if self.of(owner) is not None else None
            case ast.Attribute(value=owner, attr=name) if name in _ATTRIBUTES:
                return _ATTRIBUTES[name] if self.of(owner) is not None else None
        return None

    def operation(self, node: ast.AST) -> str | None:
        """Return the name below ``kd.tile`` of what a node does with tiles; ``None`` for others."""
        row = self.row(node)
        return None if row is None else row.name.rpartition(".")[2]

    def arguments(self, node: ast.expr) -> dict[str, Any]:
        """Return what an operation is given, by parameter; constants as their values."""
        use = self.unit.use_of(node)
        if use is not None:
            assert isinstance(node, ast.Call)
            dynamic = [p for p in use.intrinsic.parameters if p not in use.static]
            return {**dict(zip(dynamic, node.args, strict=False)), **use.static}
        if isinstance(node, ast.Attribute):
            return {"tile": node.value}
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Attribute)
        name = node.func.attr
        parameters = _METHODS[name].parameters[1:]
        given: dict[str, Any] = {"tile": node.func.value, **_METHODS[name].defaults}
        given.update(zip(parameters, node.args, strict=False))
        given.update({k.arg: k.value for k in node.keywords if k.arg})
        unknown = [p for p in given if p not in ("tile", *parameters)]
        missing = [p for p in parameters if p not in given]
        if len(node.args) > len(parameters) or unknown or missing:
            signature = f"t.{name}({', '.join(parameters)})"
            self.fail(node, f"{written(node, self.unit)} does not fit", f"Call it as {signature}")
        for parameter, example in _CONSTANTS.items():
            if isinstance(given.get(parameter), ast.expr):
                given[parameter] = self._constant(given[parameter], parameter, example)
        return given

    def of(self, node: ast.expr) -> Shape | None:
        """Return the shape of an expression that gives a tile; ``None`` for any other."""
        row = self.row(node)
        if row is not None:
            return self._of_operation(row.tile.shape, node)
        match node:
            case ast.Name():
                return self.variables.get(node.id)
            case ast.BinOp() | ast.UnaryOp() | ast.Compare() | ast.IfExp() | ast.BoolOp():
                parts = list(operands(node))
            case ast.Call() if not isinstance(node.func, ast.Attribute) or self._is_library(node):
                parts = list(operands(node))[1:]
            case _:
                return None
        return self.together(node, *(self.of(part) for part in parts))

    def together(self, node: ast.expr, *shapes: Shape | None) -> Shape | None:
        """Return the shape of what is computed of several tiles, element by element."""
        try:
            return broadcast(*shapes)
        except ValueError as error:
            self.fail(
                node,
                f"{written(node, self.unit)}: {error}",
                "Make the extents equal, or 1 where an axis is to be repeated",
            )

    def _of_operation(self, result: ResultShape, node: ast.expr) -> Shape | None:
        if result is ResultShape.NONE:
            return None
        given = self.arguments(node)
        if result is ResultShape.GIVEN:
            shape: Shape = given["shape"]
            if len(shape) > MAX_TILE_RANK:
                self.fail(
                    node,
                    f"A tile of shape {shape} has {len(shape)} axes",
                    "Use a tile of fewer axes for each index along the others",
                    limit=f"A tile has at most {MAX_TILE_RANK} axes",
                )
            return shape
        if result is ResultShape.OF_BLOCK:
            return OF_BLOCK
        if result is ResultShape.OF_PLACES:
            return self.of(given["places"])
        if result is ResultShape.PRODUCT:
            return self._of_product(node, given)
        shape_of_tile = self.of(given["tile" if "tile" in given else "value"])
        if result is ResultShape.SAME or shape_of_tile is None:
            return shape_of_tile
        if result is ResultShape.TRANSPOSED:
            return shape_of_tile[::-1]
        axis = given["axis"]
        if axis is None:
            return _along(result, shape_of_tile, None)
        rank = len(shape_of_tile)
        if not isinstance(axis, int) or not -rank <= axis < rank:
            self.fail(
                node,
                f"axis {axis} does not exist",
                f"Use 0 to {rank - 1}" if rank > 1 else "Leave axis out",
                limit=f"The tile has the shape {shape_of_tile}",
                value=axis,
            )
        return _along(result, shape_of_tile, axis % rank)

    def _of_product(self, node: ast.expr, given: dict[str, Any]) -> Shape | None:
        one, two = self.of(given["a"]), self.of(given["b"])
        if one is None or two is None:
            return None
        if len(one) < 2 or len(two) < 2 or one[1] != two[0]:
            self.fail(
                node,
                f"{written(node, self.unit)}: shapes {one} and {two} do not fit",
                "Transpose one of them, as in kd.mma(x, y.T), or load tiles of other shapes",
                limit="kd.mma multiplies a tile (m, k) by a tile (k, n)",
            )
        shape = one[0], two[1]
        added = self.of(given["acc"])
        if added not in (None, shape):
            self.fail(
                node,
                f"{written(node, self.unit)}: acc has the shape {added}",
                f"Make it as kd.tile.zeros({shape}, …)",
                limit=f"The product of tiles {one} and {two} has the shape {shape}",
            )
        return shape

    def _is_library(self, node: ast.Call) -> bool:
        """Return whether an attribute that is called is a function of a module."""
        owner = node.func
        while isinstance(owner, ast.Attribute):
            owner = owner.value
        return isinstance(owner, ast.Name) and owner.id in self.unit.namespace

    def _constant(self, node: ast.expr, parameter: str, example: str) -> object:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name) if name in self.unit.constants:
                return self.unit.constants[name].value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
                return -value
        self.fail(
            node,
            f"{parameter} is {written(node, self.unit)}, which is not a constant",
            f"Write {example}, or capture it from a global or a closure",
            limit="It must be known when the kernel is compiled",
        )

    def fail(
        self,
        node: ast.AST,
        what: str,
        remedy: str,
        *,
        limit: str | None = None,
        value: object = None,
    ) -> NoReturn:
        """Raise `UnsupportedConstructError` at a node."""
        where = self.unit.locate(node)
        raise UnsupportedConstructError(what, where=where, value=value, limit=limit, remedy=remedy)
