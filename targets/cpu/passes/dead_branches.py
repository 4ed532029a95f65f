"""Leave out branches that constants rule out, before anything is made of what is in them.

A kernel with compile-time parameters says ``if width > 1:`` where a member has a width of 1. Numba
drops such a branch, but only after the loops over threads are chosen, and a local array or a second
assignment in it would keep threads from being lanes. The flat function, the first form of a kernel
that later passes start from, is without these branches.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from kerneldsl.analysis.hoisting import place_at
from kerneldsl.analysis.inline import inline_block_functions
from kerneldsl.frontend.trees import Transformer, copy_tree, walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.transforms.split_assignments import split_assignments
from targets.cpu.passes.known_integers import KnownIntegers

__all__ = ["flat_function", "without_dead_branches"]


def without_dead_branches(unit: FunctionUnit) -> FunctionUnit:
    """Return a function with its conditions on constant integers decided."""
    pruning = _Pruning(KnownIntegers(unit.constants))
    tree = pruning.visit(copy_tree(unit.tree))
    if not pruning.has_pruned:
        return unit
    for node in walk_here(tree):
        if isinstance(node, ast.If | ast.For | ast.While | ast.FunctionDef) and not node.body:
            node.body = [place_at(ast.Pass(), node)]
    left = {node.id for node in walk_here(tree) if isinstance(node, ast.Name)}
    uses = {name: use for name, use in unit.uses.items() if name in left}
    return replace(unit, tree=tree, uses=uses)


class _Pruning(Transformer):
    def __init__(self, known: KnownIntegers) -> None:
        self.known = known
        self.has_pruned = False

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        decided = self.known.decide(node.test)
        if decided is None:
            return node
        self.has_pruned = True
        return node.body if decided else node.orelse


def flat_function(unit: FunctionUnit) -> FunctionUnit:
    """Return a kernel with statements that assign one value each, to which no branch is dead.

    Device functions that a block meets together are part of it.
    """
    return without_dead_branches(inline_block_functions(split_assignments(unit)))
