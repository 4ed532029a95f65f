"""Expressions of tiles. What is computed element by element is a region.

``t * scale + u`` is one operation, ``tile.map``, with a region that computes an element. Parts of
the expression that are no tiles are read before it, in their order, except for names and constants.
So an expression may be computed any number of times. It is read when it is used: as a separate
tile, or in the region of a reduction or store.

The arguments of the region are an element of each tile that it reads, then the element's index
along each axis that it reads.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from typing import Any, TypeAlias

from numba import types

from kerneldsl.frontend.expressions import augmented_value, operands, sometimes_evaluated, written
from kerneldsl.frontend.library_names import outside_value
from kerneldsl.frontend.parts import Part
from kerneldsl.frontend.trees import walk_here
from kerneldsl.ir.frontend.members import TileExpression, is_tile, settled, type_of
from kerneldsl.ir.frontend.reader import NotReadError, Read, Reader, reader_of
from kerneldsl.ir.frontend.tile_refusals import (
    fail,
    given_to,
    given_to_method,
    refuse_attribute,
    refuse_conditional,
    refuse_nothing,
    refuse_tile,
)
from kerneldsl.ir.operations import Effect, Operation, Region, Value
from kerneldsl.ir.refusals import Refusal
from kerneldsl.ir.rules.calls import typing_rule
from kerneldsl.ir.tiles.shapes import Shape, broadcast
from kerneldsl.language.intrinsics.intrinsic import Intrinsic, Scope, Typing
from kerneldsl.language.intrinsics.tiles import TILE_ATTRIBUTES, TILE_METHODS, element_words
from kerneldsl.lowering.types import NumbaTile
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["Elements", "TileReader", "shape_of"]


@dataclass
class Elements:
    """The region of an expression of elements while it is read."""

    #: The axes of the tile that the expression gives.
    rank: int
    region: Region = field(default_factory=Region)
    #: Tiles, and whether their axes are exchanged, to the element in the region.
    tiles: dict[tuple[Value, bool], Value] = field(default_factory=dict)
    #: Axes, to the element's index along them.
    indices: dict[int, Value] = field(default_factory=dict)

    def of(self, tile: Value, *, transposed: bool = False) -> Value:
        key = tile, transposed
        if key not in self.tiles:
            self.tiles[key] = Value(tile.type.dtype, self.region, tile.name)
        return self.tiles[key]

    def index(self, axis: int) -> Value:
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


def shape_of(found: Any) -> Shape | None:
    """Return the shape of a tile; ``None`` for a number."""
    if isinstance(found, TileExpression):
        return found.shape
    return found.type.shape if is_tile(found) else None


#: Reads an operation from its node, its row, and its arguments by parameter.
ReadTile: TypeAlias = Callable[["TileReader", ast.expr, Intrinsic, dict[str, Any]], Any]


class TileReader:
    """Reads the expressions of a kernel with tiles; `read_tile` reads an operation."""

    def __init__(self, reader: Reader, read_tile: ReadTile) -> None:
        self.reader = reader
        self._read_tile = read_tile
        #: The expression of elements that is read.
        self.elements: Elements | None = None
        #: The parts of the expression that is read, if they were read before.
        self._known: dict[ast.expr, Any] = {}

    def value(self, node: ast.expr, read: Read | None = None) -> Any:
        """Read an expression that is no tile."""
        found = self.expression(node, read)
        parts = zip(node.elts, found, strict=True) if isinstance(node, ast.Tuple) else ()
        for part, each in (*parts, (node, found)):
            if is_tile(each):
                refuse_tile(self.reader.unit, part)
        if found is None:
            refuse_nothing(self.reader.unit, node)
        return found

    def value_or_tile(self, node: ast.expr) -> Any:
        """Read an expression that may be a tile."""
        found = self.expression(node)
        if found is None:
            refuse_nothing(self.reader.unit, node)
        return self.tile(found) if isinstance(found, TileExpression) else found

    def effect(self, node: ast.expr) -> None:
        """Read an expression that is a statement."""
        if isinstance(self.expression(node), TileExpression):
            refuse_tile(self.reader.unit, node)

    def augmented(self, node: ast.AugAssign) -> Any:
        """Read what an augmented assignment of a tile assigns."""
        found = augmented_value(node)
        ast.copy_location(found.left, node.target)
        return self.value_or_tile(found)

    def expression(self, node: ast.expr, read: Read | None = None) -> Any:
        """Read an expression, of elements if it is a tile; ``None`` for a store."""
        if node in self._known:
            found = self._known[node]
            return found if self.elements is None else self.element(found)
        if read is None and self._is_of_tiles(node):
            match node:
                case ast.Call():
                    read = self._call
                case ast.Attribute():
                    read = self._attribute
                case ast.BinOp() | ast.UnaryOp() | ast.Compare() | ast.IfExp() | ast.BoolOp():
                    read = self._operator
        return self.reader.read(node, read)

    def element(self, found: Any) -> Any:
        """Return the element of a tile in the region that is read; a number is the same for all."""
        if isinstance(found, TileExpression):
            return found.element()
        if is_tile(found):
            assert self.elements is not None
            return self.elements.of(found)
        return found

    # -- parts of expressions ---------------------------------------------------------------------

    def plain(self, node: ast.expr) -> Callable[[], Any]:
        """Read a number now, but a name or constant when the result is called."""
        if self._is_plain(node):
            return partial(self.reader.value, node)
        found = self.value(node)
        return lambda: found

    def _is_plain(self, node: ast.expr) -> bool:
        """Return whether an expression is a name or a constant, or the index of an element."""
        if self._is_of_tiles(node):
            use = self.reader.unit.use_of(node)
            return use is not None and use.intrinsic is element_words.index
        inner = node.operand if isinstance(node, ast.UnaryOp) else node
        if isinstance(inner, ast.Name | ast.Constant):
            return True
        return outside_value(node, self.reader.unit.namespace) is not None

    def _is_of_tiles(self, node: ast.expr) -> bool:
        """Return whether an expression works on tiles anywhere."""
        return any(map(self._names_tile, walk_here(node)))

    def _names_tile(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Name) and node.id in self.reader.variables:
            try:
                found = settled(self.reader.variables[node.id])
            except Refusal:  # it is raised where the variable is read
                return False
            members = found if isinstance(found, tuple) else (found,)
            return any(map(is_tile, members))
        use, callee = self.reader.unit.use_of(node), self.reader.unit.callee_of(node)
        return (use is not None and use.is_of_tiles) or (callee is not None and callee.uses_tiles())

    @contextmanager
    def _with(self, parts: dict[ast.expr, Any]) -> Iterator[None]:
        """Return a context manager in which parts of expressions were read before."""
        outer, self._known = self._known, {**self._known, **parts}
        try:
            yield
        finally:
            self._known = outer

    # -- expressions of elements ------------------------------------------------------------------

    def _operator(self, reader: Reader, node: ast.expr) -> Any:
        tested = node.operand if isinstance(node, ast.UnaryOp) else None
        if isinstance(tested, ast.Compare) and len(tested.ops) == 1:
            return self.by_elements(node, list(operands(tested)))  # ``not`` reads these
        return self.by_elements(node, list(operands(node)))

    def by_elements(
        self, node: ast.expr, parts: list[ast.expr], known: dict[ast.expr, Any] | None = None
    ) -> Any:
        """Read an operator or a call, element by element if one of its parts is a tile."""
        found = dict(known or {})
        found |= {each: self.expression(each) for each in parts if not self._is_plain(each)}
        shapes = [shape_of(each) for each in found.values()]
        if not any(shapes):
            for part in sometimes_evaluated(node):
                if self._is_of_tiles(part):
                    refuse_conditional(self.reader.unit, part)
            with self._with(found):
                return reader_of(node)(self.reader, node)
        shape = self._together(node, shapes)
        return TileExpression(node, shape, partial(self._element_by, node, found, shape))

    def _together(self, node: ast.expr, shapes: list[Shape | None]) -> Shape:
        """Return the shape of what is computed of several tiles, element by element."""
        try:
            found = broadcast(*shapes)
        except ValueError as error:
            fail(
                Part(self.reader.unit, node),
                f"{written(node, self.reader.unit)}: {error}",
                "Make the extents equal, or 1 for an axis that is repeated",
            )
        assert found is not None
        return found

    def _element_by(self, node: ast.expr, parts: dict[ast.expr, Any], shape: Shape) -> Any:
        """Read an operator or a call of elements."""
        unit = self.reader.unit
        match node:
            case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                fail(
                    Part(unit, node),
                    f"{written(node, unit)} uses a tile as a truth value",
                    "Combine truth values with &, | and ~, or reduce them: t.any(), t.all()",
                )
            case ast.Compare(ops=[_, _, *_]):
                fail(
                    Part(unit, node),
                    f"{written(node, unit)} is a chain of comparisons of tiles",
                    "Compare twice, and combine with &: (a < t) & (t < b)",
                )
        with self._with(parts):
            found = self.reader.read(node, reader_of(node))
        if self.reader.notes is not None:
            self.reader.notes.add_type(node, NumbaTile(shape, type_of(found)))
        return found

    def _call(self, reader: Reader, node: ast.Call) -> Any:
        unit, function = reader.unit, node.func
        use = unit.use_of(node)
        if use is not None and use.intrinsic.typing is Typing.TILE:
            return self._read_tile(self, node, use.intrinsic, given_to(node, use))
        if unit.callee_of(node) is not None:
            return reader_of(node)(reader, node)
        parts, known = list(operands(node))[1:], dict[ast.expr, Any]()
        if isinstance(function, ast.Attribute) and self._is_of_tiles(function.value):
            owner = known[function.value] = self.expression(function.value)
            if is_tile(owner):
                if function.attr not in TILE_METHODS:
                    refuse_attribute(unit, function)
                row = TILE_METHODS[function.attr]
                return self._read_tile(self, node, row, given_to_method(unit, node, row, owner))
        found = self.by_elements(node, parts, known)
        if is_tile(found) and use is not None and _needs_threads(use.intrinsic):
            refuse_tile(unit, next(each for each in parts if self._is_of_tiles(each)))
        return found

    def _attribute(self, reader: Reader, node: ast.Attribute) -> Any:
        owner = self.expression(node.value)
        if not is_tile(owner):
            with self._with({node.value: owner}):
                return reader_of(node)(reader, node)
        if node.attr not in TILE_ATTRIBUTES:
            refuse_attribute(reader.unit, node)
        return self._read_tile(self, node, TILE_ATTRIBUTES[node.attr], {"tile": owner})

    # -- operations on expressions ----------------------------------------------------------------

    def tile(self, found: Any) -> Value:
        """Return a tile as a value: an expression of elements becomes an operation."""
        if not isinstance(found, TileExpression):
            tile: Value = found
            return tile

        def read(reader: Reader, node: ast.expr) -> Value:
            static = {"shape": found.shape}
            made = self.of_elements("tile.map", element_words.each, static, [], found)
            (region,) = made.regions
            is_same = len(region.operations) == 1 and region.yielded == region.arguments
            if is_same and made.attributes["transposed"] == (False,):
                (tile,) = made.operands
                if tile.type == made.result.type:
                    # A tile itself, which several variables may hold.
                    assert reader.operations.pop() is made
                    return tile
            return made.result

        result: Value = self.reader.read(found.node, read)
        return result

    def of_elements(
        self,
        name: str,
        intrinsic: Intrinsic,
        static: dict[str, Any],
        given: list[Value],
        found: Any,
        convert: Callable[[Elements, Value, Any], Value] | None = None,
        **attributes: Any,
    ) -> Operation:
        """Add an operation on a tile. Its region computes an element.

        `convert` gets the region, an element and the dtype of the result. `given` are the operands
        before the tiles.
        """
        made, value = self.region_of(found)
        kinds = (*(v.type for v in given), value.type)
        result = typing_rule(intrinsic)(kinds, static).return_type
        dtype = result.dtype if isinstance(result, NumbaTile) else result
        made.end(self.reader, lambda: [convert(made, value, dtype) if convert else value])
        about = {"shape": static["shape"], "called": intrinsic}
        return self.reader.add(
            name,
            [*given, *made.operands()],
            (result,),
            {**about, **made.attributes(len(given)), **attributes},
            [made.region],
            Effect.BLOCK,
        )

    def region_of(self, found: Any) -> tuple[Elements, Value]:
        """Read the element of a tile into a region, without its end."""
        made, value = Elements(len(shape_of(found) or ())), list[Value]()
        outer, self.elements = self.elements, made
        try:
            self.reader.into(made.region, lambda: value.append(self.element(found)))
        finally:
            self.elements = outer
        if not isinstance(value[0], Value):
            raise NotReadError("a tuple for an element")
        return made, value[0]


def _needs_threads(intrinsic: Intrinsic) -> bool:
    """Return whether an operation of the language does more than compute with numbers."""
    return bool(intrinsic.effect) or intrinsic.scope is not Scope.THREAD
