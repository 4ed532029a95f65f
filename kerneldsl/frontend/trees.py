"""Walking and copying ASTs.

Passes walk a kernel's tree hundreds of times. ``ast.walk`` and ``copy.deepcopy`` take three times
as long, also for what never changes: operators, and the marks of loads and stores.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TypeVar, cast

__all__ = ["copy_tree", "walk_here"]

T = TypeVar("T")

#: Nodes without fields, which Python's parser shares, too.
_MARKS = ast.expr_context | ast.operator | ast.unaryop | ast.boolop | ast.cmpop
#: Fields that hold no nodes, or those alone.
_WITHOUT_NODES = frozenset({"ctx", "op", "ops", "id", "attr", "kind", "type_comment"})
#: The others, by the type of the node.
_parts: dict[type[ast.AST], tuple[str, ...]] = {}


def walk_here(nodes: ast.AST | Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield every node below one node or a list of nodes, themselves included.

    Operators, ``ast.Load`` and ``ast.Store`` are left out. Below one node the order is that of
    ``ast.walk``, breadth first, and a node may be changed once it is yielded.
    """
    for first in [nodes] if isinstance(nodes, ast.AST) else nodes:
        found = [first]
        for node in found:  # grows meanwhile
            state = node.__dict__
            for name in _parts_of(type(node)):
                value = state.get(name)
                if type(value) is list:
                    found += [each for each in value if isinstance(each, ast.AST)]
                elif isinstance(value, ast.AST):
                    found.append(value)
            yield node


def _parts_of(kind: type[ast.AST]) -> tuple[str, ...]:
    found = _parts.get(kind)
    if found is None:
        found = _parts[kind] = tuple(name for name in kind._fields if name not in _WITHOUT_NODES)
    return found


def copy_tree(tree: T) -> T:
    """Copy an AST, or a list of nodes, so that a pass may change it.

    Operators and the marks of loads and stores are shared. So are attributes that are no fields,
    such as the unit that an inlined node comes from; ``copy.deepcopy`` copies them.
    """
    return cast(T, _copy(tree))


def _copy(value: object) -> object:
    if isinstance(value, list):
        return [_copy(item) for item in value]
    if not isinstance(value, ast.AST) or isinstance(value, _MARKS):
        return value
    kind = type(value)
    new = kind.__new__(kind)
    state = new.__dict__
    state.update(value.__dict__)
    for name in _parts_of(kind):
        part = state.get(name)
        if isinstance(part, ast.AST | list):
            state[name] = _copy(part)
    # A list of operators belongs to one node.
    if kind is ast.Compare:
        state["ops"] = list(state["ops"])
    return new
