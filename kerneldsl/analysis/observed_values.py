"""Places where more of an integer than its lowest 64 bits is visible in a result.

uint64 and int64 numbers of the same bits have the same sums, products and bitwise operations, and
are the same in an array of integers. They differ as floats, as indices, in quotients, right shifts
and comparisons, and in what functions make of them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kerneldsl.analysis.bindings import unpack_targets
from kerneldsl.analysis.library_names import conversion_dtype, library_name
from kerneldsl.analysis.reaching import Reaching
from kerneldsl.analysis.unsigned_bounds import COUNTS_OF_BITS, number_of
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.element_row import ElementKind
from kerneldsl.language.element_types import names_of

__all__ = [
    "SAME_BITS",
    "SIGNED_INTEGERS",
    "ObservedPlace",
    "ObservedValues",
    "ObservedValuesOfCalls",
    "is_whole",
]

#: Operators with lowest 64 bits that depend on those of their operands alone.
SAME_BITS = ast.Add | ast.Sub | ast.Mult | ast.BitAnd | ast.BitOr | ast.BitXor | ast.LShift
#: The same as functions; ``int`` keeps an integer as it is.
_FUNCTIONS = frozenset(
    f"numpy.{name}"
    for name in ("add", "subtract", "multiply", "bitwise_and", "bitwise_or", "bitwise_xor")
) | {"int"}
_WHOLE = names_of(ElementKind.BOOL, ElementKind.SIGNED, ElementKind.UNSIGNED)
#: Types with numbers that may be negative.
SIGNED_INTEGERS = names_of(ElementKind.SIGNED)


class ObservedValues:
    """Finds the places where values of one function are observed.

    Parameters
    ----------
    unit : FunctionUnit
        The function.
    reaching : Reaching
        Its reaching definitions.
    type_of : callable
        Gives the element type of an expression or target; ``None`` if it is not known.
    """

    def __init__(
        self, unit: FunctionUnit, reaching: Reaching, type_of: Callable[[ast.AST], str | None]
    ) -> None:
        self.unit = unit
        self.type_of = type_of
        self.parents = {
            child: node for node in walk_here(unit.tree) for child in ast.iter_child_nodes(node)
        }
        self._uses: dict[ast.AST, list[ast.AST]] = {}
        for use, stores in reaching.stores.items():
            if use in self.parents:
                for store in stores:
                    self._uses.setdefault(store, []).append(use)

    def uses(self, stores: Iterable[ast.AST]) -> list[ast.AST]:
        """Return where a variable may be read with a value of one of some assignments."""
        return list(dict.fromkeys(use for each in stores for use in self._uses.get(each, ())))

    def places(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """Yield what observes a value, and the part of it that has the value, each place once."""
        pending, seen = [node], {node}
        while pending:
            value = pending.pop()
            onward = self._onward(value)
            if onward is None:
                yield self.parents[value], value
                continue
            pending += [each for each in onward if each not in seen]
            seen.update(onward)

    def _onward(self, node: ast.AST) -> list[ast.AST] | None:
        """Return what has the bits of a value in turn; ``None`` where the value is observed."""
        parent = self.parents[node]
        match parent:
            case ast.BinOp(left=left, op=op, right=right):
                return self._operated(node, parent, op, left, right)
            case ast.AugAssign(target=target, op=op, value=value):
                kept = self._operated(node, parent, op, target, value)
                return None if kept is None else self._stored(target)
            case ast.UnaryOp(op=op):
                return [] if isinstance(op, ast.Not) else [parent]
            case ast.Assign(targets=targets):
                stored = [self._stored(target) for target in targets]
                return None if None in stored else [each for some in stored for each in some or ()]
            case ast.Tuple():
                return self._unpacked(node, parent)
            case ast.IfExp(test=test) if test is node:
                return []
            case ast.IfExp() | ast.BoolOp():
                return [parent] if is_whole(self.type_of(parent)) else None
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
                return [] if self._is_alike(node, right if left is node else left) else None
            case ast.Call():
                return self._called(parent)
            case ast.If(test=test) | ast.While(test=test) if test is node:
                return []
            case ast.Expr():
                return []
        return None

    def _operated(
        self, node: ast.AST, parent: ast.AST, op: ast.operator, left: ast.expr, right: ast.expr
    ) -> list[ast.AST] | None:
        is_same = isinstance(op, SAME_BITS) and not (isinstance(op, ast.LShift) and node is right)
        if not (is_same and is_whole(self.type_of(right if node is left else left))):
            return None
        if isinstance(op, ast.Mult) and ast.dump(left) == ast.dump(right):
            return []  # a square is never negative
        masks = [number_of(each, self.unit) for each in (left, right)]
        if isinstance(op, ast.BitAnd) and any(n is not None and n < 2**63 for n in masks):
            return []
        return [parent]

    def _stored(self, target: ast.expr) -> list[ast.AST] | None:
        """Return where what is stored is read again; ``None`` if it is converted to a float."""
        if not is_whole(self.type_of(target)):
            return None
        match target:
            case ast.Subscript():
                return []
            case ast.Name():
                return self.uses([target])
        return None

    def _unpacked(self, node: ast.AST, parent: ast.Tuple) -> list[ast.AST] | None:
        assignment = self.parents[parent]
        if not isinstance(assignment, ast.Assign):
            return None
        (target,) = assignment.targets if len(assignment.targets) == 1 else (None,)
        if target is None:
            return None
        for each, value in unpack_targets(target, assignment.value):
            if value is node:
                return self._stored(each)
        return None

    def _is_alike(self, node: ast.AST, other: ast.expr) -> bool:
        """Return whether a value is equal to another if, and only if, its bits are."""
        number = number_of(other, self.unit)
        if number is not None and number < 2**63:
            return True
        return not any(map(_may_be_negative, (self.type_of(node), self.type_of(other))))

    def _called(self, node: ast.Call) -> list[ast.AST] | None:
        use = self.unit.use_of(node)
        if use is not None:
            return [] if use.intrinsic.name in COUNTS_OF_BITS else None
        if is_whole(conversion_dtype(node.func, self.unit.namespace)):
            return []  # a conversion that the program says
        name = library_name(node.func, self.unit.namespace)
        if name in _FUNCTIONS and all(is_whole(self.type_of(each)) for each in node.args):
            return [node]
        return None


class ObservedPlace(NamedTuple):
    """Place where a value is observed: the function, what uses it, and the operand that it is."""

    function: ObservedValues
    use: ast.AST
    part: ast.AST


class ObservedValuesOfCalls:
    """Finds the places where values of a kernel and of what it calls are observed.

    Parameters
    ----------
    functions : iterable of ObservedValues
        All of these functions.
    """

    def __init__(self, functions: Iterable[ObservedValues]) -> None:
        self._functions: dict[FunctionUnit, list[ObservedValues]] = {}
        self._calls: dict[FunctionUnit, list[tuple[ObservedValues, ast.AST]]] = {}
        for function in functions:
            self._functions.setdefault(function.unit, []).append(function)
            for node in walk_here(function.unit.tree):
                callee = function.unit.callee_of(node)
                if callee is not None:
                    self._calls.setdefault(callee, []).append((function, node))

    def places(self, function: ObservedValues, nodes: Iterable[ast.AST]) -> Iterator[ObservedPlace]:
        """Yield the places where one of some values of a function is observed."""
        pending = [(function, node) for node in nodes]
        seen = set(pending)
        while pending:
            function, node = pending.pop()
            for use, part in function.places(node):
                onward = self._onward(function, use, part)
                if onward is None:
                    yield ObservedPlace(function, use, part)
                    continue
                pending += [each for each in onward if each not in seen]
                seen.update(onward)

    def calls_of(self, unit: FunctionUnit) -> list[tuple[ObservedValues, ast.AST]]:
        """Return the calls of a function, each with the function that it is in."""
        return self._calls.get(unit, [])

    def _onward(
        self, function: ObservedValues, use: ast.AST, part: ast.AST
    ) -> list[tuple[ObservedValues, ast.AST]] | None:
        """Return where a value is in another function; ``None`` where it is in none."""
        if isinstance(use, ast.Return):
            return self._calls.get(function.unit)
        callee = function.unit.callee_of(use)
        if not isinstance(use, ast.Call) or callee not in self._functions:
            return None
        places = [place for place, each in enumerate(use.args) if each is part]
        parameters = callee.tree.args.args
        if use.keywords or len(use.args) != len(parameters) or not places:
            return None
        given = [parameters[place] for place in places]
        return [(each, node) for each in self._functions[callee] for node in each.uses(given)]


def is_whole(name: str | None) -> bool:
    """Return whether a type is one of integers, or bool."""
    return name in _WHOLE


def _may_be_negative(name: str | None) -> bool:
    return name not in _WHOLE or name in SIGNED_INTEGERS
