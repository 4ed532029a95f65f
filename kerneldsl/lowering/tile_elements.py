"""Write what an expression of tiles says of one element."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from kerneldsl.analysis.tile_shapes import Shape, is_tile_use
from kerneldsl.frontend.syntax import call
from kerneldsl.frontend.trees import Transformer, copy_tree
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.lowering.tile_plan import TilePlan

__all__ = ["element_expression"]

#: Writes the element of a variable at an index, counted along the last axis first.
Read = Callable[[str, ast.expr], ast.expr]


def element_expression(
    node: ast.expr,
    unit: FunctionUnit,
    plan: TilePlan,
    shape: Shape,
    places: Sequence[ast.expr],
    read: Read,
) -> ast.expr:
    """Return a copy of an expression in which elements, indices and conversions are written out.

    Parameters
    ----------
    node : ast.expr
        The argument of a tile operation.
    unit : FunctionUnit
        Where it stands.
    plan : TilePlan
        Types of the tiles.
    shape : Shape
        Of what the expression gives.
    places : sequence of ast.expr
        The element's index along each axis.
    read : callable
        Writes an element of a variable. The conversion to a dtype is ``kd_as_<dtype>(…)``.
    """
    return _Elements(unit, plan, shape, places, read).visit(copy_tree(node))  # type: ignore


class _Elements(Transformer):
    def __init__(
        self,
        unit: FunctionUnit,
        plan: TilePlan,
        shape: Shape,
        places: Sequence[ast.expr],
        read: Read,
    ) -> None:
        self.unit = unit
        self.plan = plan
        self.shape = shape
        self.places = places
        self.read = read

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        return self._element(node)

    def _element(self, node: ast.Call) -> ast.expr:
        use = self.unit.use_of(node)
        if use is None or not is_tile_use(use):
            return node
        match use.intrinsic.name:
            case "tile.element":
                (variable,) = node.args
                assert isinstance(variable, ast.Name)
                shape = self.plan.variables[variable.id].shape
                is_transposed = use.static.get("transposed", False)
                return self.read(variable.id, self._index(shape, is_transposed))
            case "tile.index":
                axis: int = use.static["axis"]
                return copy_tree(self.places[axis])
            case "tile.cast":
                return call(f"kd_as_{use.static['dtype']}", *node.args)
        raise AssertionError(use.intrinsic.name)

    def _index(self, shape: Shape, is_transposed: bool) -> ast.expr:
        """Return the number of the element of a tile that is repeated where its extent is 1."""
        index: ast.expr | None = None
        places = self.places[-len(shape) :]
        for extent, place in zip(shape, places[::-1] if is_transposed else places, strict=True):
            if extent == 1:
                continue
            part = copy_tree(place)
            if index is not None:
                scaled = ast.BinOp(index, ast.Mult(), ast.Constant(extent))
                part = ast.BinOp(scaled, ast.Add(), part)
            index = part
        return ast.Constant(0) if index is None else index
