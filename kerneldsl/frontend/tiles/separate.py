"""Give each operation on tiles its own statement, in which it is the call of an intrinsic.

The result is a unit in normal form. In it

* device functions that tiles are given to, or that work on tiles, are inlined;
* methods are calls, and every tile operation is a statement ``v = kd_tile_…(…)`` or a store;
* an expression of tiles is the argument of an operation, of ``kd_tile_each`` where nothing else is
  done with it, and speaks of one element: ``kd_tile_element_0(v) * scale``. Its other parts
  are names and constants, evaluated before; so an expression may be evaluated any number of times;
* ``use.static["shape"]`` is the shape of the tile that an operation gives, of a reduction the one
  that is reduced.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import replace
from typing import Any

from kerneldsl.frontend.call_arguments import is_none
from kerneldsl.frontend.expressions import written
from kerneldsl.frontend.library_names import outside_value
from kerneldsl.frontend.syntax import load
from kerneldsl.frontend.tiles.flatten import flatten_tiles
from kerneldsl.frontend.tiles.hoisting import place_at
from kerneldsl.frontend.tiles.refusals import (
    dtype_of,
    has_tiles,
    refuse_at,
    refuse_attribute,
    refuse_conditional,
    refuse_tile,
    shape_of_own,
    shape_of_tile,
)
from kerneldsl.frontend.tiles.shapes import OF_BLOCK, Shape, TileShapes
from kerneldsl.frontend.tiles.uses import TileUses
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Scope
from kerneldsl.language.intrinsics.tile_forms import ResultShape

__all__ = ["separate_tiles"]


def separate_tiles(unit: FunctionUnit) -> FunctionUnit:
    """Return a kernel with its tile operations in their own statements.

    It is the unit itself if it has none.

    Raises
    ------
    UnsupportedConstructError
        Where an expression of tiles has no meaning, shapes do not fit, or a tile operation is
        in a place that is only sometimes evaluated.
    """
    if not unit.uses_tiles():
        return unit
    unit = flatten_tiles(unit)
    return _Separator(unit, TileShapes(unit)).run()


class _Separator:
    """Rewrites the statements of one function."""

    def __init__(self, unit: FunctionUnit, shapes: TileShapes) -> None:
        self.unit = unit
        self.shapes = shapes
        self.made = TileUses(unit, shapes)

    def run(self) -> FunctionUnit:
        # The tree is read as it is, since shapes are found by the names of uses; it is the copy
        # that changes, statement by statement.
        tree = copy.deepcopy(self.unit.tree)
        tree.body = self.block(tree.body)
        return replace(self.unit, tree=tree, uses=self.made.uses)

    # -- statements -----------------------------------------------------------------------------

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        return [new for old in body for new in self.statement(old)]

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        """Return what one statement becomes."""
        before: list[ast.stmt] = []
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]):
                value = self.value(node.value, before)
                node.value = self.made.in_new_tile(name, value, before)
            case ast.AugAssign(target=ast.Name(id=name)) if name in self.shapes.variables:
                sum_ = ast.BinOp(place_at(load(name), node), node.op, node.value)
                value = self.value(ast.copy_location(sum_, node), before)
                value = self.made.in_new_tile(name, value, before)
                return [*before, ast.copy_location(ast.Assign([node.target], value), node)]
            case ast.Expr(value=ast.Call() as call) if self.shapes.operation(call) == "store":
                node.value = self.store(call, before)
            case ast.If():
                node.test = self.number(node.test, before)
                node.body, node.orelse = self.block(node.body), self.block(node.orelse)
            case ast.While():
                node.test = self.number(node.test, before)
                node.body = self.block(node.body)
                if before:
                    leave = ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Break()], [])
                    node.body = [*before, place_at(leave, node.test), *node.body]
                    node.test = place_at(ast.Constant(True), node.test)
                    before = []
            case ast.For():
                node.iter = self.number(node.iter, before)
                node.body = self.block(node.body)
            case _:
                for name, value in ast.iter_fields(node):
                    if isinstance(value, ast.expr):
                        setattr(node, name, self.number(value, before))
        return [*before, node]

    def value(self, node: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """Return what is assigned to a variable: an operation, or a number."""
        if self.shapes.of(node) is not None:
            return self.tile(node, before)
        if self.shapes.operation(node) is not None:
            return self.operation(node, before)
        return self.number(node, before)

    def store(self, call: ast.Call, before: list[ast.stmt]) -> ast.expr:
        given = self.shapes.arguments(call)
        value = given["tile"]
        shape = shape_of_tile(self.shapes, value, is_stored=True)
        places = self.places(given["at"], shape, before)
        array = self.array(given["array"], before)
        return self.made.use(
            "store", call, [array, *places, self.element(value, before)], shape=shape
        )

    # -- numbers ----------------------------------------------------------------------------------

    def number(self, node: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """Move tile operations out of an expression that gives no tile."""
        if not has_tiles(self.shapes, node):
            return node
        if self.shapes.of(node) is not None:
            refuse_tile(self.shapes, node)
        if self.shapes.operation(node) is not None:
            return self.made.saved(self.operation(node, before), before)
        if isinstance(node, ast.Attribute) and self.shapes.of(node.value) is not None:
            refuse_attribute(self.shapes, node)
        refuse_conditional(self.shapes, node)
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                setattr(node, name, self.number(value, before))
            elif isinstance(value, list):
                for position, item in enumerate(value):
                    if isinstance(item, ast.expr):
                        value[position] = self.number(item, before)
                    elif isinstance(item, ast.keyword):
                        item.value = self.number(item.value, before)
        return node

    # -- tiles ------------------------------------------------------------------------------------

    def tile(self, node: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """Return the operation that gives a tile."""
        row = self.shapes.row(node)
        if row is not None and not row.tile.is_elementwise:
            return self.operation(node, before)
        shape = self.shapes.of(node)  # asked now: the node is rewritten
        return self.made.use("each", node, [self.element(node, before)], shape=shape)

    def operation(self, node: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """Return an operation that is no expression of elements."""
        row = self.shapes.row(node)
        assert row is not None
        name = row.name.rpartition(".")[2]
        given = self.shapes.arguments(node)
        if name == "load":
            shape: Shape = given["shape"]
            array = self.array(given["array"], before)
            places = self.places(given["at"], shape, before)
            other = self.plain(given["other"], before)
            static: dict[str, Any] = {"shape": shape}
            if given["dtype"] is not None:
                static["dtype"] = given["dtype"]
            return self.made.use("load", node, [array, other, *places], **static)
        if name == "of":
            value = self.number(given["value"], before)
            return self.made.use("of", node, [value], shape=OF_BLOCK)
        if name == "store":
            self.shapes.fail(
                node, "kd.tile.store(…) gives nothing", "Write it as a separate statement"
            )
        if name == "mma":
            return self.product(node, given, before)
        value = given["value" if name == "map" else "tile"]
        of_value = shape_of_tile(self.shapes, value)
        if name == "own":
            of_value = shape_of_own(self.shapes, node, of_value)
            return self.made.use("own", node, [self.variable(value, before)], shape=of_value)
        if name == "take":
            of_places = shape_of_tile(self.shapes, given["places"])
            if of_places[:-1] != of_value[:-1] or len(of_places) != len(of_value):
                self.shapes.fail(
                    node,
                    f"{written(node, self.unit)}: a tile of shape {of_value} and places of shape "
                    f"{of_places}",
                    "Take from each row by a row of places",
                )
            given_to = [self.variable(value, before), self.element(given["places"], before)]
            return self.made.use("take", node, given_to, shape=of_places)
        static = {"shape": of_value}
        if row.tile.has_axis:
            axis = given["axis"]
            static["axis"] = axis if axis is None else axis % len(of_value)
        if row.tile.shape is ResultShape.SCANNED:
            static["exclusive"] = bool(given["exclusive"])
            if len(of_value) == 1:
                static["axis"] = None
        return self.made.use(name, node, [self.element(value, before)], **static)

    def product(self, node: ast.expr, given: dict[str, Any], before: list[ast.stmt]) -> ast.expr:
        """Return a product. A factor may be a tile with its axes exchanged."""
        factors = given["a"], given["b"]
        (rows, depth), (_, columns) = (shape_of_tile(self.shapes, each) for each in factors)
        arguments, exchanged = list[ast.expr](), list[bool]()
        for each in factors:
            is_exchanged = self.shapes.operation(each) == "transpose"
            tile = self.shapes.arguments(each)["tile"] if is_exchanged else each
            arguments.append(self.variable(tile, before))
            exchanged.append(is_exchanged)
        if not is_none(given["acc"]):
            shape_of_tile(self.shapes, given["acc"])
            arguments.append(self.variable(given["acc"], before))
        static = {name: given[name] for name in ("promote", "precision")}
        static |= {"shape": (rows, columns), "depth": depth, "exchanged": tuple(exchanged)}
        return self.made.use("mma", node, arguments, **static)

    def element(self, node: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """Return an expression for one element of a tile, or for a number."""
        row = self.shapes.row(node)
        operation = self.shapes.operation(node)
        if operation == "index":
            return self.made.use("index", node, [], axis=self.shapes.arguments(node)["axis"])
        if self.shapes.of(node) is None:
            return self.plain(node, before)
        match node:
            case ast.Name():
                return self.made.use("element", node, [node], shape=self.shapes.of(node))
            case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                self.shapes.fail(
                    node,
                    f"{written(node, self.unit)} asks for the truth of a tile",
                    "Combine truth values with &, | and ~, or reduce them: t.any(), t.all()",
                )
            case ast.Compare(ops=[_, _, *_]):
                self.shapes.fail(
                    node,
                    f"{written(node, self.unit)} is a chain of comparisons of tiles",
                    "Compare twice, and combine with &: (a < t) & (t < b)",
                )
        if operation == "transpose":
            return self.transposed(node, before)
        if row is not None and row.tile.is_elementwise:
            return self.of_each(operation, node, before)
        if row is not None:
            name = self.made.saved(self.operation(node, before), before)
            return self.made.use("element", node, [name], shape=self.shapes.of(name))
        return self.parts(node, before)

    def transposed(self, node: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """Return the element of a tile with the axes exchanged."""
        tile = self.variable(self.shapes.arguments(node)["tile"], before)
        shape = self.shapes.variables[tile.id]
        return self.made.use("element", node, [tile], shape=shape, transposed=len(shape) > 1)

    def variable(self, tile: ast.expr, before: list[ast.stmt]) -> ast.Name:
        """Return a variable that holds a tile."""
        if isinstance(tile, ast.Name) and tile.id in self.shapes.variables:
            return tile
        return self.made.saved(self.tile(tile, before), before)

    def of_each(self, operation: str | None, node: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """Return the element of what gives one element after the other."""
        given = self.shapes.arguments(node)
        if operation == "map":
            return self.parts(given["value"], before)
        value: ast.expr = place_at(ast.Constant(0), node)
        if operation == "full":
            value = self.plain(given["value"], before)
        elif operation == "arange":
            rank = len(given["shape"])
            value = self.made.use("index", node, [], axis=rank - 1)
        elif operation == "astype":
            value = self.element(given["tile"], before)
        dtype = given["dtype"]
        if isinstance(dtype, ast.Attribute) and dtype.attr == "dtype":
            # The type of an array or tile is known when its elements have one.
            return self.made.use("cast", node, [value, self.array(dtype.value, before)])
        if isinstance(dtype, ast.expr):
            dtype = dtype_of(self.shapes, dtype)
        return value if dtype is None else self.made.use("cast", node, [value], dtype=dtype)

    def parts(self, node: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """Return an operator or a call of elements or numbers."""
        if isinstance(node, ast.Call):
            use = self.unit.use_of(node)
            if use is not None and (
                use.intrinsic.effect or use.intrinsic.scope is not Scope.THREAD
            ):
                refuse_tile(
                    self.shapes, next(a for a in node.args if self.shapes.of(a) is not None)
                )
            node.args = [self.element(argument, before) for argument in node.args]
            for keyword in node.keywords:
                keyword.value = self.element(keyword.value, before)
            return node
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                setattr(node, name, self.element(value, before))
            elif isinstance(value, list) and value and isinstance(value[0], ast.expr):
                setattr(node, name, [self.element(part, before) for part in value])
        return node

    def plain(self, node: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """Return a name or a constant for a number, evaluated before."""
        node = self.number(node, before)
        inner = node.operand if isinstance(node, ast.UnaryOp) else node
        is_plain = isinstance(inner, ast.Name | ast.Constant)
        if is_plain or outside_value(node, self.unit.namespace) is not None:
            return node
        return self.made.saved(node, before)

    def array(self, node: ast.expr, before: list[ast.stmt]) -> ast.expr:
        return node if isinstance(node, ast.Name) else self.number(node, before)

    def places(self, at: ast.expr, shape: Shape, before: list[ast.stmt]) -> list[ast.expr]:
        """Return the index of a tile's first element along each axis of an array."""
        if isinstance(at, ast.Tuple):
            found = at.elts
        elif len(shape) == 1 or self.is_number(at):
            found = [at]
        else:
            name = self.plain(at, before)
            found = [
                place_at(ast.Subscript(copy.copy(name), ast.Constant(i), ast.Load()), at)
                for i in range(len(shape))
            ]
        if len(found) != len(shape):
            refuse_at(self.shapes, at, len(found), len(shape))
        return [self.plain(each, before) for each in found]

    def is_number(self, at: ast.expr) -> bool:
        """Return whether an index is known to be one number, before types are."""
        if isinstance(at, ast.Constant) or isinstance(outside_value(at, self.unit.namespace), int):
            return True
        if not isinstance(at, ast.BinOp):
            return False
        is_sum = isinstance(at.op, ast.Add)  # of tuples there is one, too
        return not is_sum or self.is_number(at.left) or self.is_number(at.right)
