"""Make the calls of tile operations that a separated kernel consists of, and their variables."""

from __future__ import annotations

import ast
from typing import Any

from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, load
from kerneldsl.frontend.tiles.hoisting import place_at
from kerneldsl.frontend.tiles.shapes import Shape, TileShapes, result_shape
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.language.intrinsics.matrix import mma
from kerneldsl.language.intrinsics.tiles import element_words, tile

__all__ = ["TileUses"]

#: What is in an expression for an element, and what gives a tile of such an expression.
_ELEMENT_WORDS = frozenset(dir(element_words))


class TileUses:
    """The uses of intrinsics of a kernel while its tile operations are separated.

    Parameters
    ----------
    unit : FunctionUnit
        The kernel as it was.
    shapes : TileShapes
        Of its tiles; variables that are made are added to it.
    """

    def __init__(self, unit: FunctionUnit, shapes: TileShapes) -> None:
        self._shapes = shapes
        self._names = FreshNames.for_unit(unit)
        #: Of the kernel as it becomes.
        self.uses = {name: use for name, use in unit.uses.items() if not use.is_of_tiles}

    def use(self, name: str, node: ast.expr, arguments: list[ast.expr], **static: Any) -> ast.expr:
        """Return the call of an intrinsic in the place of a node."""
        members: Any = element_words if name in _ELEMENT_WORDS else tile
        intrinsic = mma if name == "mma" else getattr(members, name)
        reserved = self._names.make(intrinsic.symbol)
        self.uses[reserved] = IntrinsicUse(intrinsic, static)
        return place_at(ast.Call(load(reserved), arguments, []), node)

    def saved(self, value: ast.expr, before: list[ast.stmt]) -> ast.Name:
        """Assign a value to a new variable, so that it is evaluated now."""
        shape = self._shape_given(value)
        name = self._names.make("number" if shape is None else "tile")
        if shape is not None:
            self._shapes.variables[name] = shape
        before.append(place_at(assign(name, value), value))
        return place_at(load(name), value)

    def in_new_tile(self, name: str, value: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """Return an operation whose result a variable takes, which may be read elsewhere in it.

        The result is computed in another variable then: no element is written that is yet to be
        read.
        """
        uses = [
            (node, self.uses.get(node.func.id))
            for node in walk_here(value)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        ]
        is_moved = any(
            use is not None
            and (use.static.get("transposed") or use.intrinsic.name == "tile.take")
            and isinstance(node.args[0], ast.Name)
            and node.args[0].id == name
            for node, use in uses
        )
        if not is_moved:
            return value
        computed = self.saved(value, before)
        shape = self._shapes.variables[computed.id]
        element = self.use("element", value, [computed], shape=shape)
        return self.use("each", value, [element], shape=shape)

    def _shape_given(self, value: ast.expr) -> Shape | None:
        """Return the shape of the tile that a call gives; ``None`` if it gives none."""
        if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Name)):
            return None
        use = self.uses.get(value.func.id)
        if use is None or not use.is_of_tiles:
            return None
        return result_shape(use)
