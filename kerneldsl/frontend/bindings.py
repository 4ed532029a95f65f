"""Find what the variables of a function may be bound to, without regard to order.

Analyses that need the same answer at every point of a function iterate over its bindings until
nothing changes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from kerneldsl.frontend.expressions import augmented_value
from kerneldsl.frontend.trees import walk_here

__all__ = ["Binding", "bindings", "unpack_targets"]


class Binding(NamedTuple):
    """One place that gives a target a value."""

    #: The statement, or the part of one.
    node: ast.AST
    #: What is bound: a name, a subscript, or a tuple of such.
    target: ast.expr
    #: The value; of an augmented assignment the operation.
    value: ast.expr
    #: Whether the target is bound to the items of the value, as in a loop.
    is_item: bool = False


def bindings(tree: ast.AST) -> Iterator[Binding]:
    """Yield every binding in a function; augmented assignments of variables alone."""
    for node in walk_here(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield Binding(node, target, value)
            case ast.AugAssign(target=ast.Name() as target):
                yield Binding(node, target, augmented_value(node))
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield Binding(node, target, value)
            case ast.NamedExpr(target=target, value=value):
                yield Binding(node, target, value)
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                yield Binding(node, target, value, is_item=True)
            case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                yield Binding(node, target, value)


def unpack_targets(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Pair the elements of a tuple that is bound to a tuple of the same length, nested ones too.

    Examples
    --------
    >>> (binding,) = bindings(ast.parse("(a, (b, c)) = 1, f()"))
    >>> [(ast.unparse(t), ast.unparse(v)) for t, v in unpack_targets(binding.target, binding.value)]
    [('a', '1'), ('(b, c)', 'f()')]
    """
    if (
        isinstance(target, ast.Tuple | ast.List)
        and isinstance(value, ast.Tuple | ast.List)
        and len(value.elts) == len(target.elts)
    ):
        for each, part in zip(target.elts, value.elts, strict=True):
            yield from unpack_targets(each, part)
    else:
        yield target, value
