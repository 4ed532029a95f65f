"""Find the variables that bounds of some expressions can depend on.

The bound of an index follows from the variables in it, from what is assigned to those, and from
comparisons with others. Nothing else needs to be followed through a function: most variables of a
long kernel are values.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable

from kerneldsl.analysis.expressions import assigned_names, index_parts, loaded_names
from kerneldsl.frontend.trees import walk_here

__all__ = ["followed_names", "has_call"]

#: Stands for all calls: two of them may give the same index of a thread.
_CALLS = "()"


def followed_names(tree: ast.FunctionDef, *, compared: bool) -> frozenset[str]:
    """Return the variables that bounds of indices can depend on.

    Unless they are `compared`, only those that are assigned to others count.
    """
    found: set[str] = set()
    leads_to: dict[str, set[str]] = defaultdict(set)

    def names_in(nodes: ast.expr | Iterable[ast.expr]) -> set[str]:
        names = loaded_names(nodes)
        return names | {_CALLS} if compared and has_call(nodes) else names

    def assign(names: Iterable[str], sources: set[str]) -> None:
        for name in names:
            leads_to[name] |= sources
            if _CALLS in sources:
                leads_to[_CALLS].add(name)

    def connect(names: set[str]) -> None:
        for name in names:
            leads_to[name] |= names

    for node in walk_here(tree):
        match node:
            case ast.Subscript():
                found |= names_in(index_parts(node))
            case ast.Assign(targets=targets, value=value):
                assign(assigned_names(targets), names_in(value))
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                assign([name], names_in(value))
            case ast.For(target=target, iter=ast.Call(args=bounds)):
                assign(assigned_names(target), names_in(bounds))
            case ast.For(target=target, iter=iterable):
                assign(assigned_names(target), names_in(iterable))
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if compared:
                for part in _parts_of(test):
                    connect(names_in(part))
            case ast.BoolOp() if compared:
                for part in _parts_of(node):
                    connect(names_in(part))
    pending = list(found)
    while pending:
        new = leads_to[pending.pop()] - found
        found |= new
        pending += new
    return frozenset(found)


def has_call(nodes: ast.expr | Iterable[ast.expr]) -> bool:
    """Return whether there is a call below."""
    return any(isinstance(node, ast.Call) for node in walk_here(nodes))


def _parts_of(condition: ast.expr) -> list[ast.expr]:
    """Return what a condition combines with ``and``, ``or`` and ``not``."""
    match condition:
        case ast.BoolOp(values=values):
            return [part for value in values for part in _parts_of(value)]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _parts_of(operand)
    return [condition]
