"""The rule of variables that hold tiles."""

from __future__ import annotations

import ast
from typing import Any

from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.types import TileType

__all__ = ["refuse_two_tiles"]


def refuse_two_tiles(unit: FunctionUnit, name: str, one: Any, two: Any) -> None:
    """Raise if the types of two tiles that a variable holds differ."""
    if one == two:
        return
    found = [TileType(each.shape, str(each.dtype)) for each in (one, two)]
    stores = (
        node
        for node in walk_here(unit.tree)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    )
    raise UnsupportedConstructError(
        f"{unit.spellings.get(name, name)} holds {' and '.join(map(str, found))}",
        where=unit.locate(next(stores, unit.tree)),
        limit="A variable that holds a tile holds tiles of one dtype",
        remedy="Give each of them its own variable, or convert: t.astype(kd.float32)",
    )
