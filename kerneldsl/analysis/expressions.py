"""Small questions about expressions, asked by several analyses and passes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from kerneldsl.frontend.syntax import load

__all__ = [
    "assigned_names",
    "augmented_value",
    "base_name",
    "does_nothing",
    "index_parts",
    "is_extent",
    "loaded_names",
    "operands",
    "text_of",
    "walk_here",
]


def walk_here(nodes: ast.AST | Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield every node below one node or a list of nodes, themselves included."""
    for node in [nodes] if isinstance(nodes, ast.AST) else nodes:
        yield from ast.walk(node)


def assigned_names(nodes: ast.AST | Iterable[ast.AST]) -> set[str]:
    """Return the names that are stored somewhere below."""
    return {
        n.id for n in walk_here(nodes) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }


def loaded_names(nodes: ast.AST | Iterable[ast.AST]) -> set[str]:
    """Return names that are read somewhere below, targets of augmented assignments too."""
    names = set()
    for n in walk_here(nodes):
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load):
            names.add(n.id)
        elif isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name):
            names.add(n.target.id)
    return names


def operands(node: ast.AST) -> Iterator[ast.expr]:
    """Return expressions right below a node, in the order of its fields; of a keyword its value."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, ast.keyword):
            yield child.value


def index_parts(node: ast.Subscript) -> list[ast.expr]:
    """Return the indices of a subscript, one for each axis that it names."""
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def augmented_value(node: ast.AugAssign) -> ast.BinOp:
    """Return what an augmented assignment assigns: the old value of its target with its operand."""
    target = node.target
    old = load(target.id) if isinstance(target, ast.Name) else target
    return ast.copy_location(ast.BinOp(old, node.op, node.value), node)


def base_name(node: ast.expr) -> str | None:
    """Return the variable below subscripts and attributes: ``a`` of ``a[i][j].real``."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def does_nothing(body: Iterable[ast.stmt]) -> bool:
    """Return whether statements are all ``pass``, or there are none."""
    return all(isinstance(statement, ast.Pass) for statement in body)


def is_extent(node: ast.Subscript) -> bool:
    """Return whether a subscript takes an element of ``a.shape`` or ``a.strides``."""
    return isinstance(node.value, ast.Attribute) and node.value.attr in ("shape", "strides")


def text_of(node: ast.AST, source_line: str) -> str:
    """Return an expression as written, where it stands in one line; else as Python prints it."""
    start, end = getattr(node, "col_offset", None), getattr(node, "end_col_offset", None)
    if start is None or end is None or getattr(node, "lineno", 0) != getattr(node, "end_lineno", 0):
        return ast.unparse(node)
    text = source_line[start:end]
    return text if text.strip() else ast.unparse(node)
