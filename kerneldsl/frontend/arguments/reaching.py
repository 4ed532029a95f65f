"""Reaching definitions: the assignments of a variable that each use of it may read.

References
----------
A. V. Aho, M. S. Lam, R. Sethi, J. D. Ullman, "Compilers: Principles, Techniques, and Tools", 2nd
ed., section 9.2.4.
"""

from __future__ import annotations

import ast
from typing import TypeAlias

from kerneldsl.frontend.arguments.dataflow import Branching, Dataflow, Loop
from kerneldsl.frontend.trees import walk_here

__all__ = ["Reaching"]

_Stores: TypeAlias = frozenset[ast.AST]
_State: TypeAlias = dict[str, _Stores]
_NONE: _Stores = frozenset()


class Reaching(Dataflow[_State]):
    """Finds them by a walk along the flow of control."""

    def __init__(self, tree: ast.FunctionDef) -> None:
        super().__init__()
        #: Use of a variable to the targets, or parameters, that it may have its value from.
        self.stores: dict[ast.AST, _Stores] = {}
        #: Target to the value that is assigned.
        self.values: dict[ast.AST, ast.expr] = {}
        self.block(tree.body, {arg.arg: frozenset({arg}) for arg in _parameters(tree)})

    def _read(self, node: ast.AST, state: _State) -> None:
        for each in walk_here(node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
                self.stores[each] = self.stores.get(each, _NONE) | state.get(each.id, _NONE)

    def _assign(self, target: ast.expr, state: _State) -> None:
        for each in walk_here(target):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                state[each.id] = frozenset({each})

    def transfer(self, node: ast.stmt, state: _State) -> _State | None:
        self._read(node, state)
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, state)
                    self.values[target] = value
            case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                self.stores[target] = self.stores.get(target, _NONE) | state.get(name, _NONE)
                old = ast.Name(name, ast.Load())
                self.stores[old] = self.stores[target]
                self.values[target] = ast.BinOp(old, op, value)
                state[name] = frozenset({target})
            case ast.Return():
                return None
        return state

    def test(self, node: Branching, state: _State) -> _State:
        if not isinstance(node, ast.For):
            self._read(node.test, state)
        return state

    def enter(self, node: Loop, state: _State) -> _State:
        if isinstance(node, ast.For):
            self._read(node.iter, state)
        return state

    def assume(self, node: Branching, truth: bool, tested: _State) -> _State:
        state = dict(tested)
        if isinstance(node, ast.For) and truth:
            self._assign(node.target, state)
        return state

    def join(self, one: _State, two: _State) -> _State:
        names = one.keys() | two.keys()
        return {n: one.get(n, _NONE) | two.get(n, _NONE) for n in names}


def _parameters(tree: ast.FunctionDef) -> list[ast.arg]:
    return [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
