"""Give each variable of ``a, b = x, y`` its own assignment.

Passes look at what a variable is assigned, and a variable beside another one would be overlooked by
each that does not take tuples apart. Values are evaluated before anything is assigned, from left to
right, and targets are assigned from left to right, as Python has it: ``a, b = b, a`` becomes
``t = b``, ``b = a`` and ``a = t``.

References
----------
Python Language Reference, section 7.2, "Assignment statements".
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from kerneldsl.frontend.bindings import unpack_targets
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, load
from kerneldsl.frontend.tiles.hoisting import place_at
from kerneldsl.frontend.trees import Transformer, copy_tree, walk_here
from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["in_turn", "split_assignments"]


def split_assignments(unit: FunctionUnit) -> FunctionUnit:
    """Return a function without assignments of several values, and those that it calls so, too.

    It is the unit itself where nothing has changed. Functions of Numba's stay as they are.
    """
    return _split(unit, {})


def _split(unit: FunctionUnit, known: dict[FunctionUnit, FunctionUnit]) -> FunctionUnit:
    found = known.get(unit)
    if found is None:
        callees = {name: _split(each, known) for name, each in unit.callees.items()}
        found = unit
        if any(callees[name] is not each for name, each in unit.callees.items()):
            found = replace(unit, callees=callees)
        has_several = any(isinstance(n, ast.Assign) and _pairs(n) for n in walk_here(unit.tree))
        if has_several and not unit.is_plain_numba:
            splitting = _Splitting(FreshNames.for_unit(unit))
            found = found.with_tree(splitting.visit(copy_tree(unit.tree)))
        known[unit] = found
    return found


def _pairs(node: ast.Assign) -> list[tuple[ast.expr, ast.expr]]:
    """Return targets with their values, of a statement that assigns a tuple to a tuple."""
    target, *others = node.targets
    pairs = [] if others else list(unpack_targets(target, node.value))
    return [] if pairs == [(target, node.value)] else pairs


class _Splitting(Transformer):
    def __init__(self, names: FreshNames) -> None:
        self.names = names

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | list[ast.stmt]:
        pairs = _pairs(node)
        return [place_at(each, node) for each in in_turn(pairs, self.names)] or node


def in_turn(pairs: Sequence[tuple[ast.expr, ast.expr]], names: FreshNames) -> list[ast.stmt]:
    """Assign values to targets at once, with a variable between where a target may be read before.

    The statements have no place yet.
    """
    out: list[ast.stmt] = []
    behind: list[ast.stmt] = []
    is_simple = len(pairs) == len({t.id for t, _ in pairs if isinstance(t, ast.Name)})
    for number, (target, value) in enumerate(pairs):
        later = (n for _, other in pairs[number + 1 :] for n in walk_here(other))
        named = {node.id for node in later if isinstance(node, ast.Name)}
        if is_simple and isinstance(target, ast.Name) and target.id not in named:
            out.append(ast.Assign([target], value))
        else:
            name = names.make("value")
            out.append(assign(name, value))
            behind.append(ast.Assign([target], load(name)))
    return [*out, *behind]
