"""Find the loads and stores of tiles around which the threads of a block have to wait.

A kernel means what it does when the block does one operation after the other. Its threads access
elements of their own, each at its own pace: where other statements access the same memory, and one
of both writes, a thread may come to an element before the one whose access goes before.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TypeGuard

from kerneldsl.analysis.aliases import is_own
from kerneldsl.analysis.effects import Accesses
from kerneldsl.analysis.tile_shapes import is_tile_use
from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["TileOrder", "order_tiles"]


@dataclass(frozen=True)
class TileOrder:
    """Loads and stores by the reserved names that they call.

    Parameters
    ----------
    before : frozenset of str
        Threads wait before these.
    after : frozenset of str
        And behind these, whose memory code of one thread accesses too.
    """

    before: frozenset[str]
    after: frozenset[str]


def order_tiles(unit: FunctionUnit) -> TileOrder:
    """Return where threads wait, in a kernel whose tile operations are separated.

    Arguments are taken for different memory. One store alone does not wait, though it may stand in
    a loop.
    """
    accesses = Accesses(unit)
    tiles = [node for node in ast.walk(unit.tree) if _is_access(node, unit)]
    every = [(n, *accesses.of(n)) for n in ast.walk(unit.tree) if not _is_view(accesses, n)]
    before, after = set(), set()
    for node in tiles:
        assert isinstance(node.func, ast.Name)
        read, written = accesses.of(node)
        inside = set(ast.walk(node))
        for other, other_read, other_written in every:
            met = (written & (other_read | other_written)) | (read & other_written)
            if other not in inside and not all(map(is_own, met)):
                before.add(node.func.id)
                if other not in tiles:
                    after.add(node.func.id)
    return TileOrder(frozenset(before), frozenset(after))


def _is_access(node: ast.AST, unit: FunctionUnit) -> TypeGuard[ast.Call]:
    """Return whether a node is a load or store of a tile."""
    use = unit.use_of(node)
    return (
        is_tile_use(use) and use is not None and use.intrinsic.name in ("tile.load", "tile.store")
    )


def _is_view(accesses: Accesses, node: ast.AST) -> bool:
    """Return whether a subscript reads no element, but is a row or part of an array."""
    if not isinstance(node, ast.Subscript) or isinstance(node.ctx, ast.Store):
        return False
    return accesses.views(node) == accesses.roots(node)
