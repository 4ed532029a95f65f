"""Variables of a kernel that hold its shared and local arrays."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection

from kerneldsl.analysis.hoisting import place_at
from kerneldsl.frontend.trees import Transformer, copy_tree, walk_here

__all__ = ["CallReplacement", "array_variables", "take_only_variable"]


def array_variables(tree: ast.FunctionDef, storage: Collection[str]) -> frozenset[str]:
    """Return the variables that always hold a shared or a local array of this block.

    `storage` names the variables of the generated code that hold such an array.
    """
    found: set[str] = set()
    stores: Counter[str] = Counter()
    for node in walk_here(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                stores[name] += 1
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=value)):
                found |= {name} if value in storage else set()
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="kd_view"))
            ):
                found.add(name)
    return frozenset((*storage, *(name for name in found if stores[name] == 1)))


def take_only_variable(tree: ast.FunctionDef, maker: str) -> str | None:
    """Take ``sm = kd.shared.array(…)`` out of the tree if it is all that ``sm`` ever is.

    The variable is then set once, before any block runs.
    """
    for owner in walk_here(tree):
        body = getattr(owner, "body", None)
        if not isinstance(body, list):
            continue
        for node in body:
            match node:
                case ast.Assign(
                    targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id=found))
                ) if found == maker:
                    stores = [
                        n
                        for n in walk_here(tree)
                        if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)
                    ]
                    if len(stores) == 1:
                        body.remove(node)
                        body += [] if body else [place_at(ast.Pass(), node)]
                        return name
    return None


class CallReplacement(Transformer):
    """Replaces calls by other expressions, in place.

    Names of called functions are mapped to expressions.
    """

    def __init__(self, replaced: dict[str, ast.expr]) -> None:
        self.replaced = replaced

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in self.replaced:
            return place_at(copy_tree(self.replaced[node.func.id]), node)
        return node
