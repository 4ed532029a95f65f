"""Bring what works on tiles into one function, and each tile into its own variable."""

from __future__ import annotations

import ast

from kerneldsl.frontend.tiles.inline import inline_block_functions
from kerneldsl.frontend.tiles.shapes import TileShapes
from kerneldsl.frontend.tiles.unpack import unpack_tiles
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["flatten_tiles"]


def flatten_tiles(unit: FunctionUnit) -> FunctionUnit:
    """Return a kernel with the functions inlined that work on tiles, and no tuples of tiles.

    Raises `UnsupportedConstructError` as
    :func:`~kerneldsl.frontend.tiles.inline.inline_block_functions` does, and where
    shapes do not fit.
    """
    unit = inline_block_functions(unit)
    while True:
        shapes = TileShapes(unit)
        flat = unpack_tiles(unit, shapes)
        if flat is unit:
            given = _functions_of_tiles(unit, shapes)
            if not given:
                return unit
            flat = inline_block_functions(unit, given)
        unit = flat


def _functions_of_tiles(unit: FunctionUnit, shapes: TileShapes) -> set[FunctionUnit]:
    """Return the device functions that tiles are given to as they are."""
    mapped = {
        inner
        for node in walk_here(unit.tree)
        if shapes.operation(node) == "map"
        for inner in walk_here(node)
    }
    found = set()
    for node in walk_here(unit.tree):
        callee = None if node in mapped else unit.callee_of(node)
        arguments = node.args if isinstance(node, ast.Call) else []
        if callee is not None and any(shapes.of(each) is not None for each in arguments):
            found.add(callee)
    return found
