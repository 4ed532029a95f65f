"""The names inside a function, and the parts of its AST that say nothing to a device."""

from __future__ import annotations

import ast
import types

from kerneldsl.frontend.trees import Transformer, walk_here

__all__ = [
    "GRID_GROUPS",
    "clean_function",
    "has_functions",
    "last_name",
    "local_constants",
    "local_names",
    "names_grid_group",
    "used_names",
]

#: The last part of the functions that give the group of a grid, here and in numba.cuda.
GRID_GROUPS = ("grid_group", "this_grid")


def local_names(tree: ast.FunctionDef, function: types.FunctionType | None = None) -> set[str]:
    """Return the names bound inside a function, its parameters included.

    For a function that is not nested in another one, Python's own answer is part of it.
    """
    names = set[str]()
    if function is not None:
        names |= set(function.__code__.co_varnames) | set(function.__code__.co_cellvars)
    for node in walk_here(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.FunctionDef) and node is not tree:
            names.add(node.name)
    return names


def last_name(node: ast.AST) -> str | None:
    """Return a name, or the last part of an attribute; ``None`` for other nodes."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else None


def names_grid_group(tree: ast.FunctionDef) -> bool:
    """Return whether a function may use the group of a grid."""
    return any(last_name(node) in GRID_GROUPS for node in walk_here(tree))


def has_functions(tree: ast.FunctionDef) -> bool:
    inside = (each for each in ast.walk(tree) if each is not tree)
    return any(isinstance(each, ast.Lambda | ast.FunctionDef) for each in inside)


def used_names(tree: ast.FunctionDef) -> set[str]:
    """Return every name that is written in a function."""
    names = set[str]()
    for node in walk_here(tree):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
    return names


def local_constants(tree: ast.FunctionDef) -> dict[str, ast.expr]:
    """Return the locals that are bound once, by an assignment, to the expression they are bound to.

    Whether that expression is constant is for its reader to find out.
    """
    stores: dict[str, int] = {}
    expressions: dict[str, ast.expr] = {}
    for node in walk_here(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stores[node.id] = stores.get(node.id, 0) + 1
        elif isinstance(node, ast.arg):
            stores[node.arg] = stores.get(node.arg, 0) + 1
        elif (
            isinstance(node, ast.Assign)
            and len(node.targets) == 1
            and isinstance(node.targets[0], ast.Name)
        ):
            expressions[node.targets[0].id] = node.value
    return {name: e for name, e in expressions.items() if stores[name] == 1}


def clean_function(tree: ast.FunctionDef) -> ast.FunctionDef:
    """Remove docstring, annotations, decorators, default values and type parameters, in place."""
    tree.decorator_list = []
    tree.returns = None
    tree.type_comment = None
    if hasattr(tree, "type_params"):
        tree.type_params = []
    arguments = tree.args
    arguments.defaults = []
    arguments.kw_defaults = [None] * len(arguments.kwonlyargs)
    for parameter in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        parameter.annotation = None
    if len(tree.body) > 1 and _is_text(tree.body[0]):
        del tree.body[0]
    _RemoveAnnotations().visit(tree)
    return tree


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


class _RemoveAnnotations(Transformer):
    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        return ast.copy_location(ast.Pass(), node) if _is_text(node) else node
