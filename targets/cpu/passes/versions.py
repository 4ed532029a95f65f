"""Loop versioning: a guard-free fast path for the rows of a block that pass every guard.

Tiles at the edge of an array are loaded with guards such as ``a[i] if i < n else 0``. Or indices
are clamped, ``a[min(max(i, 0), n - 1)]``, or periodic, ``a[(i + 1) % n]`` and
``a[i - 1 if i > 0 else n - 1]``. In most blocks every thread passes them. The ends of a row show
whether all its threads do. If so, the row runs a version with constant guards and without clamping,
so that its accesses are plain vector loads. If a row of elements is as long as an axis, its inner
part runs that version. If the index chooses the last branch of its threads, parts of the row have a
version for each branch. The other branch of a guard stays in the tree, because Numba unifies the
types of both.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from kerneldsl.analysis.expressions import assigned_names, index_parts, loaded_names
from kerneldsl.analysis.hoisting import place_at
from kerneldsl.frontend.syntax import call
from kerneldsl.frontend.trees import Transformer, copy_tree, walk_here
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.passes.code_size import size_of
from targets.cpu.passes.narrowing import LoopBounds, conjuncts, narrow
from targets.cpu.passes.rematerialization import Rematerializable, negate

__all__ = ["ALWAYS", "Branches", "GuardFree", "by_last_branch", "without_guards"]

#: Name of an operation that gives a truth value: true, which LLVM knows and Numba does not.
ALWAYS = "kd_always"
#: What ``max(a, b)`` and ``min(a, b)`` are a of.
_RELATIONS: Mapping[str, type[ast.cmpop]] = {"max": ast.GtE, "min": ast.LtE}
#: Coordinates of an element.
_PLACE = frozenset({"kd_x", "kd_y", "kd_z"})
#: Two of them are added without leaving int64.
_SMALL = 2**62
#: A longer body is not worth compiling twice.
_MAX_NODES = 600
#: Of a body with what it calls, which is compiled twice.
_MOST_STATEMENTS = 200


@dataclass(frozen=True)
class GuardFree:
    """A body for threads that pass all guards, and the condition under which it may run."""

    #: The statements.
    body: list[ast.stmt]
    #: The row's first thread must not lie below any low, its end not beyond any high.
    low: list[ast.expr]
    high: list[ast.expr]
    #: Must hold as well.
    conditions: list[ast.expr]
    #: Whether indices have lost limits.
    drops_clamps: bool


def without_guards(
    body: list[ast.stmt], variable: str, pure: Rematerializable, *, indices_alone: bool = False
) -> GuardFree | None:
    """Make the version of a thread's statements in which its guards hold.

    `indices_alone` takes those alone that choose an index, or whether an element is read, as at the
    ends of an axis. ``None`` says that there is no guard that the ends of a row can prove.
    """
    if sum(1 for node in body for _ in ast.walk(node)) > _MAX_NODES:
        return None
    indices = _index_names(body) if indices_alone else None
    proof = _GuardProof(variable, pure, pure.steady_values(body), indices)
    new = [proof.visit(node) for node in copy_tree(body)]
    if not proof.proven:
        return None
    bounds = narrow(proof.proven, (variable,), pure)
    conditions = _unlike([*bounds.assumptions, *(pure.expanded(c) for c in bounds.rest)])
    low, high = bounds.low.get(variable, []), bounds.high.get(variable, [])
    return GuardFree(new, _unlike(low), _unlike(high), conditions, proof.drops_clamps)


@dataclass(frozen=True)
class Branches:
    """The versions of a body that ends in an ``if`` with an ``else``."""

    #: The version with a branch that the ends of a part of a row prove, and its condition.
    inner: GuardFree
    #: The statements of the other version, for threads for which the first may not run.
    outer: list[ast.stmt]
    #: Assumptions of both versions, with the same value in all threads.
    assumptions: list[ast.expr]


def by_last_branch(body: list[ast.stmt], variable: str, pure: Rematerializable) -> Branches | None:
    """Make a version of a thread's statements for each way that its last branch may take.

    Without this, vectors of threads in ``if i < n // 4: fours[i] = … else: …`` would store under
    masks, element by element. It returns ``None`` if the ends of a row do not distinguish the
    branches, or if there are many statements.
    """
    *before, last = body
    if not isinstance(last, ast.If) or not last.orelse:
        return None
    if sum(size_of(node, pure.unit) for node in body) > _MOST_STATEMENTS:
        return None
    ways = (last.test, last.body, last.orelse), (negate(last.test, pure), last.orelse, last.body)
    for test, inner, outer in ways:
        bounds = narrow([test], (variable,), pure)
        rest = [pure.expanded(each) for each in bounds.rest]
        if all(map(pure.is_steady, bounds.rest)) and variable not in loaded_names(rest):
            low, high = (_unlike(each.get(variable, [])) for each in (bounds.low, bounds.high))
            version = GuardFree([*copy_tree(before), *inner], low, high, rest, drops_clamps=False)
            return Branches(version, [*before, *outer], bounds.assumptions)
    return None


def _unlike(nodes: list[ast.expr]) -> list[ast.expr]:
    """Return each different expression once."""
    return list({ast.dump(node): node for node in nodes}.values())


def _index_names(body: Sequence[ast.stmt]) -> frozenset[str]:
    """Return the variables on which indices depend."""
    nodes = [node for statement in body for node in walk_here(statement)]
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Subscript):
            found |= loaded_names(node.slice)
    before = -1
    while len(found) > before:
        before = len(found)
        for node in nodes:
            if isinstance(node, ast.Assign) and assigned_names(node) & found:
                found |= loaded_names(node.value)
    return frozenset(found)


class _GuardProof(Transformer):
    """Replaces every test that can be proved by one that always holds, and clamped indices.

    Where `indices` are given, tests are replaced that choose the value of one of these, an index,
    or whether an element is read.
    """

    def __init__(
        self,
        variable: str,
        pure: Rematerializable,
        known: Mapping[str, ast.expr],
        indices: frozenset[str] | None,
    ) -> None:
        self.variable = variable
        self.pure = pure
        #: Variables of the body, with their values.
        self.known = known
        self.indices = indices
        #: Whether tests are replaced where the visitor is.
        self.is_open = indices is None
        self.proven: list[ast.expr] = []
        self.drops_clamps = False

    def proves(self, test: ast.expr) -> bool:
        """Record a test, if the ends of a row, or the row as a whole, can prove it."""
        test = self.sufficient(test)
        is_provable = self.is_provable(test)
        if is_provable:
            self.proven.append(test)
        return is_provable

    def sufficient(self, test: ast.expr) -> ast.expr:
        """Return the expanded test, or in the place of an inequality what ends of a row can prove.

        An index that is greater is not 0, and one that is less is not the last one.
        """
        test = self.pure.expanded(test, self.known)
        match test:
            case ast.Compare(left=index, ops=[ast.NotEq()], comparators=[limit]):
                if self.depends(limit):
                    index, limit = limit, index
                operator = ast.Gt() if isinstance(limit, ast.Constant) else ast.Lt()
                return ast.Compare(index, [operator], [limit])
        return test

    def is_provable(self, test: ast.expr) -> bool:
        """Return whether they can; that all threads of a row have one index they cannot prove."""
        for part in conjuncts(test):
            bounds: LoopBounds = narrow([part], (self.variable,), self.pure)
            for rest in bounds.rest:
                depends = self.variable in loaded_names(self.pure.expanded(rest))
                if depends or not self.pure.is_steady(rest):
                    return False
            is_equality = isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.Eq)
            if is_equality and self.variable in bounds.low:
                return False
        return True

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        if self.indices is not None and assigned_names(node) & self.indices:
            with self.opened():
                node.value = self.visit(node.value)
            return node
        return self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        if self.is_open and not self.depends(node.body) and self.depends(node.orelse):
            # As in `0 if i < 1 else i - 1`: most threads get the latter.
            opposite = place_at(negate(node.test, self.pure), node.test)
            if self.is_provable(self.sufficient(opposite)):
                node.test, node.body, node.orelse = opposite, node.orelse, node.body
        test = node.test
        if self.may_prove(node) and self.prove(node):
            self.drops_clamps |= self.indices is not None and self.depends(test)
            node.body = self.visit(node.body)  # the other branch is there for its type alone
        else:
            self.generic_visit(node)
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        if self.is_open and not node.orelse:
            self.prove(node)
        self.generic_visit(node)
        return node

    def prove(self, node: ast.IfExp | ast.If) -> bool:
        """Take a conditional's test as met, if it can be proved."""
        is_proven = self.proves(node.test)
        if is_proven:
            node.test = place_at(call(ALWAYS), node.test)
        return is_proven

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Replace tests in what is visited meanwhile."""
        before, self.is_open = self.is_open, True
        yield
        self.is_open = before

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        node.value = self.visit(node.value)
        with self.opened():
            new = [self.unclamped(part) for part in index_parts(node)]
        if isinstance(node.slice, ast.Tuple):
            node.slice.elts = new
        else:
            (node.slice,) = new
        return node

    def unclamped(self, index: ast.expr) -> ast.expr:
        """Return an index without the limits that all threads of a row keep."""
        plain, is_unsigned = index, False
        match index:
            case ast.Call(func=ast.Name(id="kd_unsigned"), args=[argument]):
                plain, is_unsigned = argument, True
        found = self.within_limits(plain)
        if found is plain:
            return self.visit(index)  # type: ignore[no-any-return]
        self.drops_clamps = True
        is_positive = ast.Compare(found, [ast.GtE()], [ast.Constant(0)])
        if is_unsigned or self.proves(is_positive):
            return place_at(call("kd_unsigned", found), index)
        return found

    def within_limits(self, node: ast.expr) -> ast.expr:
        """Return the one argument of ``min`` and ``max`` that depends on the thread."""
        match node:
            case ast.Name() if self.indices is not None and not self.depends(node):
                return node  # computed once for a row
            case ast.Name():
                value = self.pure.expanded(node, self.known)
                inner = value if isinstance(value, ast.Name) else self.within_limits(value)
                return node if inner is value else inner
            case ast.BinOp(left=left, op=ast.Mod(), right=extent):
                return self.within_period(node, left, extent)
            case ast.Call(args=[_, _], keywords=[]):
                relation = _RELATIONS.get(self.pure.called(node.func) or "")
            case _:
                return node
        varying = [arg for arg in node.args if self.depends(arg)]
        if relation is None or len(varying) != 1:
            return node
        (limit,) = (arg for arg in node.args if arg is not varying[0])
        inner = self.within_limits(varying[0])
        return inner if self.proves(ast.Compare(inner, [relation()], [limit])) else node

    def within_period(self, node: ast.expr, value: ast.expr, extent: ast.expr) -> ast.expr:
        """Return the dividend of a remainder, if it equals the remainder.

        Programs add the extent once, to an index that may be -1: of ``(i - 1 + n) % n`` it is
        ``i - 1``.
        """
        differs = self.depends(value) or (self.indices is not None and self.is_of_place(value))
        if self.depends(extent) or not differs:
            return node
        tests: list[ast.expr] = []
        inner = _without_term(value, extent)
        if inner is not value:  # else the sum might wrap
            tests.append(ast.Compare(extent, [ast.LtE()], [ast.Constant(_SMALL)]))
        tests.append(ast.Compare(ast.Constant(0), [ast.LtE()], [inner]))
        tests.append(ast.Compare(inner, [ast.Lt()], [extent]))
        return inner if self.proves(ast.BoolOp(ast.And(), tests)) else node

    def may_prove(self, node: ast.IfExp) -> bool:
        """Return whether a test is one of those that are replaced."""
        if self.indices is None:
            return True
        return self.is_of_place(node.test) and (self.is_open or self.reads_element(node.body))

    def is_of_place(self, node: ast.expr) -> bool:
        """Return whether an expression differs between the elements of an array."""
        return not _PLACE.isdisjoint(loaded_names(self.pure.expanded(node, self.known)))

    def reads_element(self, node: ast.expr) -> bool:
        """Return whether an expression reads elements that differ between the threads of a row."""
        return any(
            isinstance(each, ast.Subscript) and self.depends(each.slice) for each in walk_here(node)
        )

    def depends(self, node: ast.expr) -> bool:
        """Return whether an expression differs between the threads of a row."""
        return self.variable in loaded_names(self.pure.expanded(node, self.known))

    def visit_While(self, node: ast.While) -> ast.AST:
        return node  # its tests are not asked once

    def visit_For(self, node: ast.For) -> ast.AST:
        return node


def _without_term(node: ast.expr, term: ast.expr) -> ast.expr:
    """Return a sum without one of its terms, or the node itself if the term is not in it."""
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            if ast.dump(right) == ast.dump(term):
                return left
            if ast.dump(left) == ast.dump(term):
                return right
            inner = _without_term(left, term)
            return node if inner is left else ast.BinOp(inner, ast.Add(), right)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            inner = _without_term(left, term)
            return node if inner is left else ast.BinOp(inner, ast.Sub(), right)
    return node
