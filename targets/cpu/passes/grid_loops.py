"""Write the loops that hold a barrier of the grid so that a block can leave and enter them again.

They become loops with a test (:mod:`targets.cpu.passes.counted_loops`), of which every variable can
be stored while the block waits for the others.
"""

from __future__ import annotations

import ast

from kerneldsl.analysis.hoisting import place_at
from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.trees import Transformer, walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.grids import grid_group
from targets.cpu.passes.counted_loops import counted, is_range

__all__ = ["write_grid_loops"]


def _holds_grid_barrier(node: ast.AST, unit: FunctionUnit) -> bool:
    """Return whether a barrier of the grid stands in a statement."""
    uses = (unit.use_of(inner) for inner in walk_here(node))
    return any(use is not None and use.intrinsic is grid_group.sync for use in uses)


def write_grid_loops(tree: ast.FunctionDef, unit: FunctionUnit, names: FreshNames) -> None:
    """Rewrite loops over a range in place.

    Raises `UnsupportedConstructError` for a loop with such a barrier over anything else, and for a
    chain: a block that waits for another one's part may be before it in a pass.
    """
    for name, use in unit.uses.items():
        if use.intrinsic.is_of_chain:
            raise UnsupportedConstructError(
                f"kd.{use.intrinsic.name} is in a kernel with a barrier of the grid",
                where=unit.locate_use(name),
                limit="On the CPU blocks take turns between such barriers, and their order is not "
                "that of a chain's parts",
                remedy="Use two kernels, or add up over the grid: each block stores its sum, and "
                "reads those before it after kd.grid_group().sync()",
            )
    _Loops(unit, names).visit(tree)


class _Loops(Transformer):
    def __init__(self, unit: FunctionUnit, names: FreshNames) -> None:
        self._unit = unit
        self._names = names

    def visit_For(self, node: ast.For) -> ast.stmt | list[ast.stmt]:
        self.generic_visit(node)
        if not _holds_grid_barrier(node, self._unit):
            return node
        if not is_range(node.iter, self._unit):
            raise UnsupportedConstructError(
                "on the CPU a loop with a barrier of the grid runs over a range alone",
                where=self._unit.locate(node.iter),
                remedy="Loop over range(…), and take the item by its number",
            )
        loop = counted(node, self._names.make)
        rounds = ast.While(loop.test, [*loop.head, *node.body], [])
        return [place_at(statement, node) for statement in (*loop.before, rounds)]
