"""Give each tile of a tuple, and of several targets, its own assignment.

``a, b = b, a`` of tiles becomes ``t = b``, ``b = a`` and ``a = t``, and a variable that holds a
tuple with tiles, such as what a function returns, becomes one for each item. Values are evaluated
before anything is assigned, from left to right, as Python has it.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from dataclasses import replace

from kerneldsl.frontend.bindings import unpack_targets
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, load, store
from kerneldsl.frontend.tiles.hoisting import place_at
from kerneldsl.frontend.tiles.shapes import TileShapes
from kerneldsl.frontend.tiles.split_assignments import in_turn
from kerneldsl.frontend.trees import Transformer, walk_here
from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["unpack_tiles"]


def unpack_tiles(unit: FunctionUnit, shapes: TileShapes) -> FunctionUnit:
    """Return the unit without assignments of tuples of tiles; itself if it has none."""

    def has_tile(value: ast.expr) -> bool:
        if isinstance(value, ast.Tuple):
            return any(map(has_tile, value.elts))
        return shapes.of(value) is not None

    held = _tuple_variables(unit, has_tile)
    unpacking = _Unpacking(FreshNames.for_unit(unit), has_tile, held)
    if not held and not any(unpacking.wants(node) for node in walk_here(unit.tree)):
        return unit
    # The copy's nodes are other ones, and of which values are tiles is asked of the names in them.
    tree = copy.deepcopy(unit.tree)
    unpacking.visit(tree)
    return replace(unit, tree=tree)


def _tuple_variables(unit: FunctionUnit, has_tile: Callable[[ast.expr], bool]) -> dict[str, int]:
    """Return variables that are always tuples of one length with a tile, and are only unpacked."""
    lengths: dict[str, set[int]] = {}
    with_tiles: set[str] = set()
    same: list[tuple[str, str]] = []
    accounted: set[ast.AST] = set()
    for node in walk_here(unit.tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name) as target], value=ast.Tuple(elts=items)):
                lengths.setdefault(name, set()).add(len(items))
                accounted.add(target)
                if has_tile(node.value):
                    with_tiles.add(name)
            case ast.Assign(targets=[ast.Tuple(elts=items)], value=ast.Name(id=name) as value):
                lengths.setdefault(name, set()).add(len(items))
                accounted.add(value)
            case ast.Assign(targets=[ast.Name() as target], value=ast.Name() as value):
                same.append((target.id, value.id))
                accounted |= {target, value}
    names = (node for node in walk_here(unit.tree) if isinstance(node, ast.Name))
    others = {node.id for node in names if node not in accounted} | set(unit.parameters)
    known = None
    while known != (lengths, with_tiles, others):  # what one of two is, the other is
        known = copy.deepcopy((lengths, with_tiles, others))
        for pair in same:
            both = set().union(*(lengths.get(name, set()) for name in pair))
            for group in (with_tiles, others):
                group |= set(pair) if group & set(pair) else set()
            lengths |= dict.fromkeys(pair, both)
    return {
        name: next(iter(lengths[name]))
        for name in sorted(with_tiles - others)
        if len(lengths[name]) == 1
    }


class _Unpacking(Transformer):
    def __init__(
        self, names: FreshNames, has_tile: Callable[[ast.expr], bool], held: dict[str, int]
    ) -> None:
        self._names = names
        self._has_tile = has_tile
        #: Variables that hold tuples, to one for each item.
        self._parts = {
            name: [names.make(f"{name}_item") for _ in range(length)]
            for name, length in held.items()
        }

    def wants(self, node: ast.AST) -> bool:
        """Return whether a statement assigns several tiles, or one to several targets."""
        if not isinstance(node, ast.Assign) or not self._has_tile(node.value):
            return False
        return len(node.targets) > 1 or (
            isinstance(node.value, ast.Tuple) and isinstance(node.targets[0], ast.Tuple)
        )

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | list[ast.stmt]:
        target, value = node.targets[0], node.value
        if len(node.targets) == 1:
            if isinstance(target, ast.Name) and target.id in self._parts:
                target = self._items(target, ast.Store())
            if isinstance(value, ast.Name) and value.id in self._parts:
                value = self._items(value, ast.Load())
        elif not self.wants(node):
            return node
        if target is node.targets[0] and value is node.value and not self.wants(node):
            return node
        if len(node.targets) > 1:
            statements = self._to_all(node.targets, value)
        else:
            statements = in_turn(list(unpack_targets(target, value)), self._names)
        return [place_at(statement, node) for statement in statements]

    def _items(self, node: ast.Name, context: ast.expr_context) -> ast.Tuple:
        make = store if isinstance(context, ast.Store) else load
        parts: list[ast.expr] = [make(name) for name in self._parts[node.id]]
        return ast.copy_location(ast.Tuple(parts, context), node)

    def _to_all(self, targets: list[ast.expr], value: ast.expr) -> list[ast.stmt]:
        """Assign one value, which is evaluated once, to several targets."""
        out: list[ast.stmt] = []

        def named(part: ast.expr) -> ast.expr:
            if isinstance(part, ast.Tuple):
                return ast.copy_location(ast.Tuple([named(e) for e in part.elts], ast.Load()), part)
            name = self._names.make("value")
            out.append(assign(name, part))
            return load(name)

        held = named(value)
        for target in targets:
            for each, part in unpack_targets(target, held):
                out.append(ast.Assign([each], copy.deepcopy(part)))
        return out
