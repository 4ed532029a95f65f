"""Executions of a statement in a launch, as a formula of extents and parameters.

It is the threads that get there times the rounds of the loops around it. Guards such as
``i < n`` say how many threads there are, for a grid that covers them. Of conditions and loops that
say nothing, a symbol stands for the share or the rounds that were met. What a formula of guards and
loops does not say, such as lanes that left in the middle of a block, is :attr:`Count.is_open`.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from kerneldsl.analysis.trips import is_range
from kerneldsl.explain.contexts import (
    Context,
    Guard,
    Leaving,
    Round,
    after,
    comparisons,
    has_statement,
)
from kerneldsl.explain.reaching import own_nodes
from kerneldsl.explain.symbols import (
    Expression,
    Symbols,
    coordinate,
    import_sympy,
    is_of_thread,
    symbol,
)
from kerneldsl.explain.tally import BranchTally
from kerneldsl.frontend.typed_unit import TypedUnit
from kerneldsl.frontend.user_places import user_place

__all__ = ["Count", "Executions"]


class Count(NamedTuple):
    """Executions of a node, as far as guards and loops say them.

    Parameters
    ----------
    formula : sympy.Expr
        The executions.
    around : hashable
        What is around the node: nodes that have the same are executed equally often.
    is_open : bool
        Whether something else decides as well, so that the executions are a part of the formula.
    """

    formula: Expression
    around: Any
    is_open: bool


_COORDINATES = ("threadIdx.", "blockIdx.", "blockDim.", "gridDim.")


class Executions:
    """The statements of a kernel and of the functions that it calls.

    Parameters
    ----------
    kernel : TypedUnit
        The kernel.
    symbols : mapping
        Function to the expressions of its indices.
    branches : mapping
        Branch or loop to what was met of it.
    extent : tuple of int or None
        Of a launch over an extent.
    given : collection of str
        Names of the symbols that a launch gives values.

    Attributes
    ----------
    met : dict
        Symbol of a share or of rounds to its value in the launch that was walked.
    """

    def __init__(
        self,
        kernel: TypedUnit,
        symbols: Mapping[TypedUnit, Symbols],
        branches: Mapping[ast.AST, BranchTally],
        extent: tuple[int, ...] | None,
        given: Collection[str],
    ) -> None:
        self._symbols, self._branches = symbols, branches
        self._extent, self._given = extent, given
        self.sympy = import_sympy()
        self.met: dict[Any, float] = {}
        self._contexts: dict[tuple[TypedUnit, ast.stmt], Context] = {}
        self._inner: dict[ast.AST, Context] = {}
        self._parents: dict[ast.AST, ast.AST] = {}
        self._counts: dict[tuple[Context, ...], Count] = {}
        self._sites: dict[TypedUnit, list[tuple[TypedUnit, ast.AST]]] = {}
        self.kernel = kernel
        for each in kernel.reachable():
            self._enter(each, each.unit.tree.body, ())
            for node, callee in each.calls.items():
                self._sites.setdefault(callee, []).append((each, node))

    def _enter(self, typed: TypedUnit, block: Sequence[ast.stmt], context: Context) -> None:
        for statement in block:
            self._contexts[typed, statement] = context
            symbols = self._symbols[typed]
            for node in own_nodes(statement):
                if not isinstance(node, ast.stmt):
                    self._parents.update(dict.fromkeys(ast.iter_child_nodes(node), node))
                if isinstance(node, ast.IfExp | ast.BoolOp):
                    self._enter_choice(node, symbols)
            if isinstance(statement, ast.If):
                taken = Guard(statement.test, True, statement, symbols)
                other = taken._replace(holds=False)
                self._enter(typed, statement.body, (*context, taken))
                self._enter(typed, statement.orelse, (*context, other))
                context = (*context, *after(statement, taken, other))
            elif isinstance(statement, ast.For | ast.While):
                self._enter(typed, statement.body, (*context, Round(statement, symbols)))
                if has_statement([statement], ast.Return):
                    context = (*context, Leaving(statement))

    def _enter_choice(self, node: ast.IfExp | ast.BoolOp, symbols: Symbols) -> None:
        """Enter the operands that are looked at only where others hold, or do not."""
        if isinstance(node, ast.IfExp):
            for part, holds in ((node.body, True), (node.orelse, False)):
                self._inner[part] = (Guard(node.test, holds, node, symbols),)
            return
        before: Context = ()
        for one, part in itertools.pairwise(node.values):
            before = (*before, Guard(one, isinstance(node.op, ast.And), node, symbols))
            self._inner[part] = before

    def of(self, typed: TypedUnit, node: ast.AST) -> Count:
        """Return how often all threads together execute a node."""
        ways = tuple(self._ways(typed, node))
        if ways not in self._counts:
            found = [self._count(each) for each in ways]
            total = sum((formula for formula, _ in found), self.sympy.Integer(0))
            self._counts[ways] = Count(total, ways, any(is_open for _, is_open in found))
        return self._counts[ways]

    def every_thread(self) -> Expression:
        """Return how many threads there are."""
        return self._count(())[0]

    def _ways(self, typed: TypedUnit, node: ast.AST) -> list[Context]:
        """Return what is around a node, for each place that its function is called at."""
        statement = self._symbols[typed].statement_of(node)
        inner = self._contexts.get((typed, statement), ()) if statement is not None else ()
        parts = [node]
        while parts[-1] in self._parents:
            parts.append(self._parents[parts[-1]])
        for part in reversed(parts):
            inner = (*inner, *self._inner.get(part, ()))
        if typed is self.kernel:
            return [inner]
        sites = self._sites.get(typed, [])
        return [(*outer, *inner) for caller, call in sites for outer in self._ways(caller, call)]

    # ------------------------------------------------------------------ counts

    def _count(self, context: Context) -> tuple[Expression, bool]:
        """Return the executions by one way, and whether something else decides as well."""
        bounds = [_Bounds() for _ in range(3)]
        factor, rounds = self.sympy.Integer(1), self.sympy.Integer(1)
        is_open = False
        counters = {
            each.node.target.id
            for each in context
            if isinstance(each, Round) and isinstance(each.node, ast.For)
            if isinstance(each.node.target, ast.Name)
        }
        for each in reversed(context):
            if isinstance(each, Round):
                rounds = self._times(each, rounds, bounds, counters)
            elif isinstance(each, Leaving):
                is_open = True
            elif self._narrow(each, bounds):
                pass
            elif isinstance(each.node, ast.If):
                factor *= self._share(each, each.node)
            else:
                is_open = True
        threads = math.prod((self._along(axis, each) for axis, each in enumerate(bounds)), start=1)
        return self.sympy.expand(threads * factor * rounds), is_open

    def _along(self, axis: int, bounds: _Bounds) -> Expression:
        """Return how many threads there are along an axis."""
        upper = bounds.upper
        if not upper:
            if self._extent is None:
                upper = [coordinate("blockDim", axis) * coordinate("gridDim", axis)]
            elif axis < len(self._extent):
                upper = [symbol(f"extent[{len(self._extent) - 1 - axis}]")]
            else:
                upper = [self.sympy.Integer(1)]
        low = self.sympy.Max(0, *bounds.lower) if bounds.lower else 0
        return self.sympy.Min(*upper) - low

    def _share(self, guard: Guard, node: ast.If) -> Expression:
        """Return the share of a branch's lanes that take a side.

        Where data decides, both sides are counted for all lanes, and each has its own share.
        """
        tally = self._branches.get(node)
        line = user_place(guard.symbols.unit.locate(node), self.kernel.unit).lineno
        if tally is not None and tally.depends_on_data:
            side = "" if guard.holds else ", else"
            share = self.sympy.Symbol(f"share(line {line}{side})", nonnegative=True)
            self.met[share] = 1.0
            return share
        share = self.sympy.Symbol(f"share(line {line})", nonnegative=True)
        self.met[share] = (
            tally.taken / tally.entered if tally is not None and tally.entered else 0.0
        )
        return share if guard.holds else 1 - share

    def _times(
        self, loop: Round, inner: Expression, bounds: list[_Bounds], counters: Collection[str]
    ) -> Expression:
        """Return what is done in all rounds of a loop, for what is done in one."""
        node, symbols = loop.node, loop.symbols
        is_whole = not has_statement(node.body, ast.Break, ast.Return)
        iterable = node.iter if isinstance(node, ast.For) and is_whole else None
        if iterable is not None and is_range(iterable, symbols.unit.namespace):
            assert isinstance(iterable, ast.Call)
            given = [symbols.of(each) for each in iterable.args]
            start, stop, step = (0, given[0], 1) if len(given) == 1 else (*given, 1)[:3]
            start, step = self.sympy.sympify(start), self.sympy.sympify(step)
            bounds_of = (start, stop, step)
            for axis in range(3):
                if self._is_grid_stride(axis, start, step) and not is_of_thread(stop):
                    bounds[axis].upper.append(stop)
                    return inner
            if not any(
                _varies(each) or not self._is_given(each, symbols, counters) for each in bounds_of
            ):
                target = getattr(node, "target", None)
                counter = symbol(target.id) if isinstance(target, ast.Name) else None
                if counter is not None and step == 1 and inner.has(counter):
                    return self.sympy.summation(inner, (counter, start, stop - 1))
                trips = stop - start if step == 1 else self.sympy.ceiling((stop - start) / step)
                return inner * trips
        tally = self._branches.get(node)
        line = user_place(symbols.unit.locate(node), self.kernel.unit).lineno
        rounds = self.sympy.Symbol(f"rounds(line {line})", nonnegative=True)
        self.met[rounds] = tally.lanes / tally.entered if tally is not None and tally.entered else 0
        return inner * rounds

    def _is_given(
        self, formula: Expression, symbols: Symbols, counters: Collection[str] = ()
    ) -> bool:
        """Return whether a launch gives all that is in a formula of one function's names."""
        known = {*self._given, *counters} if symbols.typed is self.kernel else {*counters}
        return all(
            str(each) in known or str(each).startswith(_COORDINATES)
            for each in formula.free_symbols
        )

    def _is_grid_stride(self, axis: int, start: Expression, step: Expression) -> bool:
        place = _place(axis)
        whole = coordinate("blockDim", axis) * coordinate("gridDim", axis)
        return bool(self.sympy.expand(start - place) == 0 and self.sympy.expand(step - whole) == 0)

    # ------------------------------------------------------------------ guards

    def _narrow(self, guard: Guard, bounds: list[_Bounds]) -> bool:
        """Add what a condition says of the threads; return whether that is all that it says."""
        pairs = comparisons(guard.test, guard.holds)
        if pairs is None:
            return False
        found = []
        for left, op, right in pairs:
            one, two = guard.symbols.of(left), guard.symbols.of(right)
            above = two - one if op in (ast.Lt, ast.LtE) else one - two
            limit = self._limit(above + (1 if op in (ast.LtE, ast.GtE) else 0))
            if limit is None or not self._is_given(limit[2], guard.symbols):
                return False
            found.append(limit)
        for axis, is_upper, value in found:
            (bounds[axis].upper if is_upper else bounds[axis].lower).append(value)
        return True

    def _limit(self, positive: Expression) -> tuple[int, bool, Expression] | None:
        """Return what it says of the index along one axis that an expression is above 0.

        That is the axis, whether it bounds the index from above, and the first index beyond, or the
        first within.
        """
        for axis in range(3):
            index = symbol(f"index.{axis}")
            thread, block = coordinate("threadIdx", axis), coordinate("blockIdx", axis)
            moved = (index - thread) / coordinate("blockDim", axis)
            form = self.sympy.expand(positive.subs(block, moved))
            factor = form.coeff(index, 1)
            rest = form - factor * index
            if not factor.is_Integer or factor == 0 or rest.has(index) or _varies(rest):
                continue
            if factor < 0:
                return axis, True, self.sympy.ceiling(rest / -factor)
            return axis, False, self.sympy.floor(-rest / factor) + 1
        return None


class _Bounds:
    """Bounds of the index along an axis: the first index beyond it, and the first within."""

    def __init__(self) -> None:
        self.upper: list[Expression] = []
        self.lower: list[Expression] = []


def _place(axis: int) -> Expression:
    block = coordinate("blockIdx", axis) * coordinate("blockDim", axis)
    return block + coordinate("threadIdx", axis)


def _varies(expression: Expression) -> bool:
    """Return whether an expression differs between threads or blocks, or depends on data."""
    return is_of_thread(expression) or any(
        str(each).startswith("blockIdx.") or not str(each).replace(".", "").isidentifier()
        for each in expression.free_symbols
        if ".shape[" not in str(each)
    )
