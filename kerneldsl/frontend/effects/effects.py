"""Find which arrays a function's expressions may write.

Device functions are followed by argument position. The arguments of an unknown function count as
written. An augmented assignment of a variable writes to an array if the variable is a
view. :func:`augmented_values` returns those that :mod:`~kerneldsl.frontend.effects.aliases` regards
as elements, for callers that know the ranks.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from kerneldsl.errors import SourceLocation
from kerneldsl.frontend.effects.aliases import Alias, Aliases, Augmented, Root, Summary, deeper
from kerneldsl.frontend.effects.library_effects import (
    READING_METHODS,
    VIEW_METHODS,
    is_result,
    looks_at_scalars,
    only_reads,
)
from kerneldsl.frontend.effects.tuple_indices import Tuples
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.barriers import grid_group
from kerneldsl.language.intrinsics.intrinsic import ARRAY_ACCESS, Effect
from kerneldsl.language.reserved import RESERVED_PREFIX

__all__ = [
    "Writes",
    "augmented_values",
    "syncs_grid",
    "written_parameters",
]

_NO_ROOTS: frozenset[Root] = frozenset()
#: Most nodes of a kernel; they are skipped for speed alone.
_WITHOUT_EFFECT = (ast.Name, ast.Constant)
_NOT_WRITING = VIEW_METHODS | READING_METHODS


def written_parameters(unit: FunctionUnit) -> frozenset[int]:
    """Return the positions of the parameters with arrays that may be written."""
    return _summarize(unit).written


def augmented_values(unit: FunctionUnit) -> tuple[Augmented, ...]:
    """Find augmented assignments that write to an array if its rank is high enough."""
    return tuple(dict.fromkeys(_summarize(unit).augmented))


_summaries: WeakKeyDictionary[FunctionUnit, Summary] = WeakKeyDictionary()


def _summarize(unit: FunctionUnit) -> Summary:
    known = _summaries.get(unit)
    if known is None:
        known = Writes(unit).summarize()
        _summaries[unit] = known
    return known


class Writes(Aliases):
    """Memory that the expressions of one function write."""

    def summary_of(self, node: ast.Call) -> Summary | None:
        callee = self._unit.callee_of(node)
        return None if callee is None or _is_flexible(node, callee) else _summarize(callee)

    def summarize(self) -> Summary:
        """Return what a caller has to know."""
        tree = self._unit.tree
        written = set[Root]()
        returned = set[Alias]()
        returned_tuples: Tuples = frozenset()
        augmented: list[Augmented] = []
        for node in walk_here(tree):
            if isinstance(node, _WITHOUT_EFFECT):
                continue
            written |= self.of(node)
            augmented += self._augmented_by(node)
            if isinstance(node, ast.Return) and node.value is not None:
                returned |= self._alias_of(node.value)
                returned_tuples |= self.tuples.of(node.value)
        if tree.args.vararg or tree.args.kwarg or tree.args.kwonlyargs:
            # Numba binds such arguments by other rules.
            written.update(range(len(self._unit.parameters)))
        return Summary(
            frozenset(root for root in written if isinstance(root, int)),
            {root: depth for root, depth in self._depth.items() if isinstance(root, int)},
            frozenset(returned),
            tuple(augmented),
            returned_tuples,
        )

    def _augmented_by(self, node: ast.AST) -> Iterator[Augmented]:
        """Yield what one node assigns in place if it is a view."""
        match node:
            case ast.AugAssign(target=ast.Name() as target):
                where = self._unit.locate(node)
                yield from _augmented(self._alias_of(target), where)
            case ast.Call():
                summary = self.summary_of(node)
                for position, count, where, inner in summary.augmented if summary else ():
                    base = self._alias_of(node.args[position])
                    yield from _augmented(deeper(base, count, self.given(inner, node)), where)

    def of(self, node: ast.AST) -> frozenset[Root]:
        """Return what one node may write, apart from the nodes below it."""
        match node:
            case ast.AugAssign(target=ast.Name() as target):
                return frozenset(r for r in self.views(target) if self.is_indexed(r))
            case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store()):
                return self.roots(node.value)
            case ast.Call():
                return self._call(node)
            case ast.Lambda() | ast.FunctionDef() if node is not self._unit.tree:
                # A closure of a Numba function.
                names = [inner for inner in walk_here(node) if isinstance(inner, ast.Name)]
                return _NO_ROOTS.union(*map(self.roots, names))
        return _NO_ROOTS

    def _call(self, node: ast.Call) -> frozenset[Root]:
        use = self._unit.use_of(node)
        if use is not None:
            effect = use.intrinsic.effect & ARRAY_ACCESS & ~Effect.READ
            return self.roots(node.args[0]) if effect else _NO_ROOTS
        if _is_internal_call(node, self._unit):
            return _NO_ROOTS
        summary = self.summary_of(node)
        if summary is not None:
            return _NO_ROOTS.union(*(self.roots(node.args[p]) for p in summary.written))
        function = self.function_of(node)
        written = set[Root]()
        if isinstance(node.func, ast.Attribute) and node.func.attr not in _NOT_WRITING:
            written |= self.views(node.func.value)
        if not looks_at_scalars(function, node):
            arguments = [*node.args, *(k.value for k in node.keywords)]
            for i, argument in enumerate(arguments):
                if is_result(function, i, node):  # an array, whatever it is a part of
                    written |= self.roots(argument)
                elif not only_reads(function, i, node):
                    written |= self.views(argument)
        return frozenset(written)


def _augmented(found: set[Alias], where: SourceLocation) -> list[Augmented]:
    """Return what is assigned in place, parameters in their order."""
    made = [Augmented(r, depth, where, tuples) for r, depth, tuples in found if isinstance(r, int)]
    return sorted(made, key=lambda each: (each[:2], list(map(sorted, each.tuples))))


def syncs_grid(unit: FunctionUnit) -> bool:
    """Return whether a kernel, or a function that it calls, has a barrier of the grid.

    Code of a linked function may have one, if it is declared so.
    """
    linked = (each.linked for each in unit.reachable())
    return any(use.intrinsic is grid_group.sync for use in unit.all_uses()) or any(
        code is not None and code.is_cooperative for code in linked
    )


def _is_internal_call(node: ast.Call, unit: FunctionUnit) -> bool:
    """Return whether a call is of a function that a pass or a target has put there.

    Such a function computes a value from its arguments, or a view of one, and writes nothing.
    """
    return (
        isinstance(node.func, ast.Name)
        and node.func.id.startswith(RESERVED_PREFIX)
        and not any(node.func.id in names for names in (unit.uses, unit.callees, unit.namespace))
    )


def _is_flexible(node: ast.Call, callee: FunctionUnit) -> bool:
    """Return whether arguments and parameters cannot be paired by position."""
    return (
        bool(node.keywords)
        or len(node.args) != len(callee.parameters)
        or any(isinstance(a, ast.Starred) for a in node.args)
    )
