"""Write members of arguments that are named tuples by their numbers.

``params.scale`` becomes ``params[0]``, so that all that follows sees tuples. In device functions
that are given a named tuple as a whole, members keep their names.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

from kerneldsl.frontend.trees import Transformer, walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import Kind, TupleKind

__all__ = ["number_members"]

#: A unit that reads no member by name is not held here by itself, or it would live permanently.
_known: WeakKeyDictionary[
    FunctionUnit, dict[tuple[tuple[str, TupleKind], ...], FunctionUnit | None]
] = WeakKeyDictionary()


def number_members(unit: FunctionUnit, kinds: Sequence[Kind]) -> FunctionUnit:
    """Return a kernel that reads members by number; the unit itself if it reads none by name."""
    if not any(isinstance(kind, TupleKind) for kind in kinds):
        return unit
    bound = {
        node.id
        for node in walk_here(unit.tree)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }
    tuples = {
        name: kind
        for name, kind in zip(unit.parameters, kinds, strict=False)
        if isinstance(kind, TupleKind) and name not in bound
    }
    if not tuples:
        return unit
    known = _known.setdefault(unit, {})
    key = tuple(tuples.items())
    if key not in known:
        numbering = _Numbering(tuples)
        tree = numbering.visit(copy.deepcopy(unit.tree))
        # One for all threads that ask at once: code is found by the unit.
        known.setdefault(key, unit.with_tree(tree) if numbering.has_changed else None)
    return known[key] or unit


class _Numbering(Transformer):
    """Replaces attributes, in place."""

    def __init__(self, tuples: Mapping[str, TupleKind]) -> None:
        self._tuples = tuples
        self.has_changed = False

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        owner = self._kind_of(node.value)
        if isinstance(owner, TupleKind) and node.attr in owner.names:
            self.has_changed = True
            value = self.visit(node.value)
            number = ast.copy_location(ast.Constant(owner.names.index(node.attr)), node)
            return ast.copy_location(ast.Subscript(value, number, node.ctx), node)
        return self.generic_visit(node)

    def _kind_of(self, node: ast.expr) -> Kind | None:
        """Return the kind of an argument, or of a member of one."""
        match node:
            case ast.Name(id=name):
                return self._tuples.get(name)
            case ast.Attribute(value=value, attr=name):
                owner = self._kind_of(value)
                if isinstance(owner, TupleKind) and name in owner.names:
                    return owner.elements[owner.names.index(name)]
            case ast.Subscript(value=value, slice=ast.Constant(value=int(number))):
                owner = self._kind_of(value)
                if isinstance(owner, TupleKind) and 0 <= number < len(owner.elements):
                    return owner.elements[number]
        return None
