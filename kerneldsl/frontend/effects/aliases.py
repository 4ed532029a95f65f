"""Find which memory a function's expressions stand for.

Aliases are followed without regard to order: a variable stands for everything that is assigned to
it anywhere. Device functions are followed by argument position.

Ranks are not known here. A value such as ``x[i]`` is taken for an element where no expression of
the function indexes `x` deeper; otherwise it is a view. To loop over a value, to unpack it, and to
give it to a function or method that arrays alone have, is to index it.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

from kerneldsl.errors import SourceLocation
from kerneldsl.frontend.effects.library_effects import (
    PLAIN_ATTRIBUTES,
    READING_METHODS,
    SCALAR_METHODS,
    gives_scalar,
    makes_scalars,
)
from kerneldsl.frontend.effects.tuple_indices import TupleIndices, Tuples, substitute
from kerneldsl.frontend.expressions import Binding, bindings, index_parts, unpack_targets
from kerneldsl.frontend.library_names import name_of_function, outside_value
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.language.intrinsics.intrinsic import ARRAY_ACCESS, Effect
from kerneldsl.language.kinds import Kind
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["Alias", "Aliases", "Augmented", "Root", "Summary", "deeper"]

#: Memory by its owner: the position of a parameter, or the name of an array that is declared.
Root: TypeAlias = int | str
#: Owner, number of indices that lead from it to the value, and the tuples that these may be.
Alias: TypeAlias = tuple[Root, int, tuple[Tuples, ...]]
_MAX_DEPTH = 8
_NO_TUPLES: tuple[Tuples, ...] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    """Effects of a function on its parameters, as its callers need them."""

    #: Positions of parameters with arrays that may be written.
    written: frozenset[int]
    #: Position to how deep the array is indexed.
    depth: dict[int, int]
    #: Memory that the result may be a part of.
    returned: frozenset[Alias]
    #: Augmented assignments of values that were assumed to be elements.
    augmented: tuple[Augmented, ...]
    #: The tuples that the result may be.
    returned_tuples: Tuples


class Aliases(ABC):
    """Memory that the expressions of one function stand for."""

    def __init__(self, unit: FunctionUnit) -> None:
        self._unit = unit
        self._depth: dict[Root, int] = {}
        #: Memory that expressions may refer to, once variables are known.
        self._known: dict[ast.expr, set[Alias]] | None = None
        self._aliases: dict[str, set[Alias]] = {
            name: {(i, 0, _NO_TUPLES)} for i, name in enumerate(unit.parameters)
        }
        found = tuple(bindings(unit.tree))
        self._functions = _bound_functions(found, unit)
        self.tuples = TupleIndices(unit, found, self.function_of, self._tuples_returned_by)
        pairs = [
            pair
            for binding in found
            if not isinstance(binding.node, ast.AugAssign)
            for pair in unpack_targets(binding.target, _item(binding))
        ]
        changed = True
        while changed:
            changed = False
            for target, value in pairs:
                changed |= self._bind(target, self._alias_of(value))
        self._known = {}
        for node in walk_here(unit.tree):
            for root, depth, _ in self._indexed_by(node):
                self._depth[root] = max(self._depth.get(root, 0), min(depth, _MAX_DEPTH))

    @abstractmethod
    def summary_of(self, node: ast.Call) -> Summary | None:
        """Return what is known of a called device function, if arguments pair with parameters."""

    def given(self, indices: Iterable[Tuples], node: ast.Call) -> tuple[Tuples, ...]:
        """Return what indices of a callee may be in terms of this function's parameters."""
        arguments = [self.tuples.of(argument) for argument in node.args]
        return tuple(filter(None, (substitute(each, arguments) for each in indices)))

    def _tuples_returned_by(self, node: ast.Call) -> Tuples | None:
        summary = self.summary_of(node)
        return None if summary is None else summary.returned_tuples

    def roots(self, node: ast.expr) -> frozenset[Root]:
        """Return the memory that a value, or what can be reached through it, may be a part of."""
        return frozenset(root for root, _, _ in self._alias_of(node))

    def views(self, node: ast.expr) -> frozenset[Root]:
        """Return the memory that a value may be a view of; elements are no views."""
        found = self._alias_of(node)
        return frozenset(r for r, d, _ in found if d <= 0 or d < self._depth.get(r, 0))

    def is_indexed(self, root: Root) -> bool:
        """Return whether the function looks into memory as into an array."""
        return self._depth.get(root, 0) > 0

    def function_of(self, node: ast.Call) -> Any:
        """Return the outside object that is called, or ``None`` if it is not known."""
        if isinstance(node.func, ast.Name) and node.func.id in self._functions:
            return self._functions[node.func.id]
        return outside_value(node.func, self._unit.namespace)

    def _bind(self, target: ast.expr, found: set[Alias]) -> bool:
        """Let a target stand for a value; say whether that was news."""
        if isinstance(target, ast.Tuple | ast.List):
            items = deeper(found, 1)
            return any(self._bind(each, items) for each in target.elts)
        if not isinstance(target, ast.Name):
            return False
        known = self._aliases.setdefault(target.id, set())
        if found <= known:
            return False
        known |= found
        return True

    def _alias_of(self, node: ast.expr) -> set[Alias]:
        """Return the memory that a value may be a part of, and how deep in it."""
        if self._known is None:
            return self._find_alias(node)
        known = self._known.get(node)
        if known is None:
            known = self._known[node] = self._find_alias(node)
        return known

    def _aliases_of(self, nodes: Iterable[ast.expr]) -> set[Alias]:
        return set[Alias]().union(*map(self._alias_of, nodes))

    def _find_alias(self, node: ast.expr) -> set[Alias]:
        match node:
            case ast.Name():
                return set(self._aliases.get(node.id, ()))
            case ast.Subscript():
                base, count = self._alias_of(node.value), _count_indices(index_parts(node))
                if _has_ellipsis(node):  # always a view, if only of one element
                    return {(root, min(depth, 0), tuples) for root, depth, tuples in base}
                tuples = _NO_TUPLES
                if not isinstance(node.slice, ast.Tuple):
                    tuples = tuple(filter(None, [self.tuples.of(node.slice)]))
                return deeper(base, count, tuples)
            case ast.Attribute():
                return set() if node.attr in PLAIN_ATTRIBUTES else self._alias_of(node.value)
            case ast.IfExp():
                return self._aliases_of((node.body, node.orelse))
            case ast.BoolOp():
                return self._aliases_of(node.values)
            case ast.Tuple() | ast.List():
                # An index into the tuple returns one of its items.
                return deeper(self._aliases_of(node.elts), -1)
            case ast.BinOp(op=ast.Add()):  # of tuples
                return self._aliases_of((node.left, node.right))
            case ast.Starred() | ast.NamedExpr():
                return self._alias_of(node.value)
            case ast.Call():
                return self._alias_of_call(node)
        return set()

    def _alias_of_call(self, node: ast.Call) -> set[Alias]:
        use = self._unit.use_of(node)
        if use is not None:
            if use.intrinsic.effect & (Effect.ALLOCATE_SHARED | Effect.ALLOCATE_LOCAL):
                assert isinstance(node.func, ast.Name)
                return {(_root_of_array(node.func.id, use), 0, _NO_TUPLES)}
            return self._alias_of(node.args[0]) if use.intrinsic.is_view else set()
        summary = self.summary_of(node)
        if summary is not None:
            found: set[Alias] = set()
            for root, depth, inner in summary.returned:
                tuples = self.given(inner, node)
                base = self._alias_of(node.args[root]) if isinstance(root, int) else None
                found |= {(root, depth, tuples)} if base is None else deeper(base, depth, tuples)
            return found
        function = self.function_of(node)
        if makes_scalars(function, node):
            return set()
        if name_of_function(function) in ("enumerate", "zip"):  # an item is a tuple of items
            return deeper(self._aliases_of(node.args), -1)
        inputs = [*node.args, *(k.value for k in node.keywords)]
        if isinstance(node.func, ast.Attribute):
            if node.func.attr in READING_METHODS:
                return set()
            inputs.append(node.func.value)
        return self._aliases_of(inputs)

    def _indexed_by(self, node: ast.AST) -> set[Alias]:
        """Return the memory that a node looks into, and how deep."""
        match node:
            case ast.Name() | ast.Constant():  # most nodes
                return set()
            case ast.Subscript():
                return self._alias_of(node)
            case ast.For() | ast.comprehension():
                return deeper(self._alias_of(node.iter), 1)
            case ast.Assign(targets=targets, value=value) if not isinstance(
                value, ast.Tuple | ast.List
            ):
                if any(isinstance(target, ast.Tuple | ast.List) for target in targets):
                    return deeper(self._alias_of(value), 1)
            case ast.Compare(ops=ops, comparators=comparators):
                pairs = zip(ops, comparators, strict=True)
                inside = [value for op, value in pairs if isinstance(op, ast.In | ast.NotIn)]
                return deeper(self._aliases_of(inside), 1)
            case ast.Call():
                return self._indexed_by_call(node)
        return set()

    def _indexed_by_call(self, node: ast.Call) -> set[Alias]:
        use = self._unit.use_of(node)
        if use is not None:
            if not use.intrinsic.effect & ARRAY_ACCESS:
                return set()
            if Effect.ATOMIC not in use.intrinsic.effect:  # a tile, along each of its axes
                return deeper(self._alias_of(node.args[0]), len(use.static.get("shape", (0,))))
            place = ast.Subscript(node.args[0], node.args[1], ast.Store())
            return deeper(self._alias_of(node.args[0]), _count_indices(index_parts(place)))
        found: set[Alias] = set()
        if self._unit.callee_of(node) is not None:
            summary = self.summary_of(node)
            for position, depth in summary.depth.items() if summary is not None else ():
                found |= deeper(self._alias_of(node.args[position]), depth)
            return found
        if isinstance(node.func, ast.Attribute) and node.func.attr not in SCALAR_METHODS:
            found |= deeper(self._alias_of(node.func.value), 1)
        function = self.function_of(node)
        if name_of_function(function) is not None and not gives_scalar(function, node):
            found |= deeper(self._aliases_of(node.args), 1)
        return found


def deeper(
    found: Iterable[Alias], indices: int, tuples: tuple[Tuples, ...] = _NO_TUPLES
) -> set[Alias]:
    """Return what is reached through so many more indices; some may be tuples."""
    return {
        (
            root,
            max(-_MAX_DEPTH, min(depth + indices, _MAX_DEPTH)),
            (*known, *tuples)[:_MAX_DEPTH],
        )
        for root, depth, known in found
    }


def _item(binding: Binding) -> ast.expr:
    """Return the value of a binding; an item of an array is reached by one index."""
    if not binding.is_item:
        return binding.value
    return ast.Subscript(binding.value, ast.Constant(0), ast.Load())


def _bound_functions(found: Iterable[Binding], unit: FunctionUnit) -> dict[str, Any]:
    """Return the variables that hold a library's function or type, as in ``dtype = np.float32``."""
    counts = Counter(b.target.id for b in found if isinstance(b.target, ast.Name))
    functions = {}
    for binding in found:
        if isinstance(binding.target, ast.Name) and counts[binding.target.id] == 1:
            function = None if binding.is_item else outside_value(binding.value, unit.namespace)
            if callable(function):
                functions[binding.target.id] = function
    return functions


def _has_ellipsis(node: ast.Subscript) -> bool:
    return any(isinstance(p, ast.Constant) and p.value is ... for p in index_parts(node))


def _count_indices(parts: Iterable[ast.expr]) -> int:
    """Return how many axes an index takes away at least; a slice takes none."""
    count = 0
    for part in parts:
        is_new_axis = isinstance(part, ast.Constant) and (part.value is None or part.value is ...)
        count += not (isinstance(part, ast.Slice) or is_new_axis)
    return count


def _root_of_array(name: str, use: IntrinsicUse) -> Root:
    """Return the memory that a call of ``shared.array`` or ``local.array`` declares."""
    if use.static.get("shape") == (0,):
        return "dynamic shared"  # every such declaration is the same memory
    return f"{'local' if Effect.ALLOCATE_LOCAL in use.intrinsic.effect else 'shared'}:{name}"


# Augmented assignments of variables that may be views of arrays.


class Augmented(NamedTuple):
    """An augmented assignment of a variable that may hold a view of a parameter's array."""

    #: Position of the parameter.
    position: int
    #: Number of indices from the array to the value. If the array has no more axes, the value is an
    #: element; otherwise it is a view, which the assignment changes in place.
    index_count: int
    #: The assignment.
    where: SourceLocation
    #: Tuples that each of these indices may be, if it may be a tuple, and so more than one index
    #: (:mod:`kerneldsl.frontend.effects.tuple_indices`).
    tuples: tuple[frozenset[int], ...]

    def indices(self, kinds: Sequence[Kind]) -> int:
        """Return how many indices lead to the value where the arguments are of these kinds."""
        if not self.tuples:
            return self.index_count
        from kerneldsl.frontend.effects.tuple_indices import longest  # few indices are tuples

        return self.index_count + sum(longest(each, kinds) - 1 for each in self.tuples)
