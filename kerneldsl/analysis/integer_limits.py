"""Limits of integers that are made of sizes, indices of threads and constants.

What is not found to have limits may be any number, such as an argument or an element. What has
limits is an int64 and does not wrap around, since sizes are far below 2**63. A variable has those
of all its values. Two updates of a variable by itself are followed. A division or a right shift
makes it smaller. In ``while v <= limit: …; v *= 2`` it is at most twice the limit.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import TypeAlias

from kerneldsl.analysis.bindings import bindings, unpack_targets
from kerneldsl.analysis.expressions import assigned_names
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["IntegerLimits", "Limits"]

#: Least and greatest value of an integer.
Limits: TypeAlias = tuple[int, int]

#: Of elements and of indices of ``forall``; no device has more.
_LARGEST = 2**60
_OF_INTRINSICS: dict[str, Limits] = {
    **{f"threadIdx.{axis}": (0, 2**10 - 1) for axis in "xyz"},
    **{f"blockDim.{axis}": (1, 2**10) for axis in "xyz"},
    **{f"blockIdx.{axis}": (0, 2**31 - 1) for axis in "xyz"},
    **{f"gridDim.{axis}": (1, 2**31) for axis in "xyz"},
    "grid": (0, _LARGEST),
    "gridsize": (1, _LARGEST),
    "laneid": (0, 31),
    "warpsize": (32, 32),
}
_MOST_BITS = 63
#: By so many bits a variable is shifted, or by so much it is multiplied, at most.
_LARGEST_FACTOR, _LARGEST_SHIFT = 2**16, 16


class IntegerLimits:
    """Limits of the integers of one function.

    Parameters
    ----------
    unit : FunctionUnit
        The function, in normal form.
    arrays : collection of str
        The parameters that are arrays.
    """

    def __init__(self, unit: FunctionUnit, arrays: Collection[str]) -> None:
        self._unit = unit
        self._bound: dict[str, list[tuple[ast.AST, ast.expr | None]]] = {}
        for each in bindings(unit.tree):
            for target, value in unpack_targets(each.target, each.value):
                is_known = isinstance(target, ast.Name) and not each.is_item
                for name in assigned_names(target):
                    given = value if is_known else None
                    self._bound.setdefault(name, []).append((each.node, given))
        self._arrays = frozenset(arrays) - self._bound.keys()
        #: What a variable is not greater than before an update: the limit, and 1 if it is less.
        self._guards: dict[ast.AST, tuple[ast.expr, int]] = {}
        for node in walk_here(unit.tree):
            match node:
                case ast.While(
                    ast.Compare(ast.Name(name), [ast.Lt() | ast.LtE() as relation], [limit]), body
                ):
                    updates = [each for each in body if name in assigned_names(each)]
                    if len(updates) == 1:
                        self._guards[updates[0]] = limit, isinstance(relation, ast.Lt)

    def factored_variables(self) -> dict[str, Limits]:
        """Return the variables that become larger or smaller by a factor, with their limits.

        No statement binds them together with other variables.
        """
        found: dict[str, Limits] = {}
        for name, bound in self._bound.items():
            nodes = [node for node, _ in bound]
            limits = self.of(ast.Name(name, ast.Load()))
            is_plain = all(map(_is_of_one_variable, nodes))
            if limits is not None and is_plain and any(self._update(n, name) for n in nodes):
                found[name] = limits
        return found

    def of(self, node: ast.expr, within: frozenset[str] = frozenset()) -> Limits | None:
        """Return the limits of an expression; `within` are variables that it is part of."""
        number = self._unit.literal(node)
        if number is not None:
            return _kept(number, number)
        match node:
            case ast.Name(name) if name not in within and name not in self._unit.parameters:
                return self._of_variable(name, within | {name})
            case ast.Attribute(ast.Name(name), "size") if name in self._arrays:
                return 0, _LARGEST
            case ast.Subscript(ast.Attribute(ast.Name(name), "shape"), axis) if (
                name in self._arrays and self._unit.literal(axis) is not None
            ):
                return 0, _LARGEST
            case ast.Call():
                use = self._unit.use_of(node)
                if use is not None and use.static.get("ndim", 1) == 1:
                    return _OF_INTRINSICS.get(use.intrinsic.name)
            case ast.BinOp(left, operator, right):
                one, two = self.of(left, within), self.of(right, within)
                if one is not None and two is not None:
                    return _operated(operator, one, two)
        return None

    def _of_variable(self, name: str, within: frozenset[str]) -> Limits | None:
        found: list[Limits] = []
        is_updated = False
        for node, value in self._bound.get(name, ()):
            update = self._update(node, name)
            if update is None:
                limits = None if value is None else self.of(value, within)
            elif isinstance(update[0], ast.FloorDiv | ast.RShift):
                is_updated = True  # it does not become greater, nor less than 0
                continue
            else:
                is_updated = True
                guard, is_less = self._guards.get(node, (None, 0))
                before = None if guard is None else self.of(guard, within)
                factor = (update[1], update[1])
                limits = before and _operated(update[0], (0, before[1] - is_less), factor)
            if limits is None:
                return None
            found.append(limits)
        if not found:
            return None
        low, high = min(each[0] for each in found), max(each[1] for each in found)
        if is_updated:
            return (0, high) if low >= 0 else None
        return low, high

    def _update(self, node: ast.AST, name: str) -> tuple[ast.operator, int] | None:
        """Return the operator and the constant by which a statement changes a variable."""
        match node:
            case ast.AugAssign(ast.Name(target), operator, factor) if target == name:
                pass
            case ast.Assign([ast.Name(target)], ast.BinOp(ast.Name(source), operator, factor)) if (
                target == source == name
            ):
                pass
            case _:
                return None
        number = self._unit.literal(factor)
        if number is None or number < 0:
            return None
        match operator:
            case ast.Mult() | ast.FloorDiv() if 0 < number <= _LARGEST_FACTOR:
                return operator, number
            case ast.LShift() | ast.RShift() if number <= _LARGEST_SHIFT:
                return operator, number
        return None


def _is_of_one_variable(node: ast.AST) -> bool:
    match node:
        case ast.AugAssign() | ast.Assign([ast.Name()]):
            return True
    return False


def _operated(operator: ast.operator, one: Limits, two: Limits) -> Limits | None:
    """Return limits of an operation; ``None`` also if it could wrap around."""
    match operator:
        case ast.Add():
            return _kept(one[0] + two[0], one[1] + two[1])
        case ast.Sub():
            return _kept(one[0] - two[1], one[1] - two[0])
        case ast.Mult():
            ends = [a * b for a in one for b in two]
            return _kept(min(ends), max(ends))
        case ast.FloorDiv() if two[0] == two[1] > 0:
            return one[0] // two[0], one[1] // two[0]
        case ast.Mod() if two[0] == two[1] > 0:
            return 0, two[0] - 1
        case ast.LShift() if two[0] >= 0 and two[1] < _MOST_BITS:
            return _operated(ast.Mult(), one, (1 << two[0], 1 << two[1]))
        case ast.RShift() if two[0] == two[1] and 0 <= two[0] < _MOST_BITS:
            return one[0] >> two[0], one[1] >> two[0]
        case ast.BitAnd() if two[0] == two[1] >= 0:
            return 0, two[0]
    return None


def _kept(low: int, high: int) -> Limits | None:
    return (low, high) if low >= -_LARGEST and high <= _LARGEST else None
