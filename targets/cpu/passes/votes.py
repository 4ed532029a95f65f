"""Give every barrier a statement of its own.

``if kd.syncthreads_or(p):`` becomes ``vote = kd.syncthreads_or(p)`` and ``if vote:``, so that the
kernel can be cut there. What an exchange between threads is given becomes variables, since it is
read on both sides of the cut.
"""

from __future__ import annotations

import ast

from kerneldsl.analysis.hoisting import CallHoister, place_at
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, load
from kerneldsl.frontend.unit import FunctionUnit
from targets.cpu.intrinsics.table import Exchange, Together, lowering_of

__all__ = ["isolate_barriers"]


def isolate_barriers(
    tree: ast.FunctionDef, unit: FunctionUnit, names: FreshNames
) -> ast.FunctionDef:
    """Rewrite `tree` in place."""
    tree.body = _Isolation(unit, names).block(tree.body)
    return tree


class _Isolation(CallHoister):
    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        match (
            node
        ):  # already alone: `syncthreads()`, or `x = syncthreads_count(p)` of a simple name
            case (
                ast.Expr(value=ast.Call() as call)
                | ast.Assign(targets=[ast.Name()], value=ast.Call() as call)
            ) if self.wants(call):
                before: list[ast.stmt] = []
                self.arguments(call, before)
                self.name_arguments(call, before)
                return [*before, node]
        return super().statement(node)

    def wants(self, node: ast.Call) -> bool:
        use = self.unit.use_of(node)
        return use is not None and use.intrinsic.is_barrier

    def take(self, node: ast.Call, before: list[ast.stmt]) -> ast.expr:
        self.name_arguments(node, before)
        name = self.names.make("vote")
        before.append(place_at(assign(name, node), node))
        return place_at(load(name), node)

    def name_arguments(self, call: ast.Call, before: list[ast.stmt]) -> None:
        """Evaluate what an exchange or the block is given, once and in order."""
        use = self.unit.use_of(call)
        assert use is not None
        if isinstance(lowering_of(use.intrinsic), Exchange | Together):
            call.args = [
                arg if isinstance(arg, ast.Name | ast.Constant) else self.save(arg, before)
                for arg in call.args
            ]
