"""Make the calls of tile operations that a separated kernel consists of, and their variables."""

from __future__ import annotations

import ast
from typing import Any

from kerneldsl.analysis.hoisting import place_at
from kerneldsl.analysis.tile_shapes import Shape, TileShapes, is_tile_use, result_shape
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, load
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.language.intrinsics.tiles import element_words, tile

__all__ = ["TileUses"]

#: What stands in an expression for an element, and what gives a tile of such an expression.
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
        self.uses = {name: use for name, use in unit.uses.items() if not is_tile_use(use)}

    def use(self, name: str, node: ast.expr, arguments: list[ast.expr], **static: Any) -> ast.expr:
        """Return the call of an intrinsic in the place of a node."""
        members = element_words if name in _ELEMENT_WORDS else tile
        intrinsic = getattr(members, name)
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

    def _shape_given(self, value: ast.expr) -> Shape | None:
        """Return the shape of the tile that a call gives; ``None`` where it gives none."""
        if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Name)):
            return None
        use = self.uses.get(value.func.id)
        if use is None or not is_tile_use(use):
            return None
        return result_shape(use)
