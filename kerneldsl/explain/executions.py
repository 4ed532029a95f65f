"""Executions of an operation in a launch, as a formula of extents and parameters.

It is the threads that get there times the rounds of the loops around it. Guards such as
``i < n`` say how many threads there are, for a grid that covers them. Of conditions and loops that
say nothing, a symbol stands for the share or the rounds that were met. What a formula of guards and
loops does not say, such as lanes that left in the middle of a block, is :attr:`Count.is_open`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from kerneldsl.explain.indices import Indices
from kerneldsl.explain.sites import site_of
from kerneldsl.explain.symbols import Expression, coordinate, import_sympy, is_of_thread, symbol
from kerneldsl.explain.tally import BranchTally
from kerneldsl.ir.operations import LOOPS, Function, Operation, Region
from kerneldsl.ir.recognize import comparison_of, parts_of

__all__ = ["Context", "Contexts", "Count", "Executions", "Guard", "Leaving", "Round"]

_RELATIONS = (operator.lt, operator.le, operator.gt, operator.ge)


class Count(NamedTuple):
    """Executions of a node, by guards and loops."""

    #: The executions.
    formula: Expression
    #: Context of the node: nodes with equal contexts are executed equally often.
    around: Any
    #: Whether other conditions matter as well, so that the executions are part of the formula.
    is_open: bool


_COORDINATES = ("threadIdx.", "blockIdx.", "blockDim.", "gridDim.")


class Executions:
    """The operations of a kernel.

    - `function`: the kernel.
    - `indices`: expressions of its values.
    - `branches`: node of a branch or loop to what was met of it.
    - `extent`: extent of the launch, if it has one.
    - `given`: names of the symbols that a launch gives values.
    - `met`: Symbol of a share or of rounds to its value in the launch that was run.
    """

    def __init__(
        self,
        function: Function,
        indices: Indices,
        branches: Mapping[Any, BranchTally],
        extent: tuple[int, ...] | None,
        given: Collection[str],
    ) -> None:
        self._indices, self._branches = indices, branches
        self._extent, self._given = extent, given
        self.sympy = import_sympy()
        self.met: dict[Any, float] = {}
        self._contexts = Contexts(function)
        self._counts: dict[tuple[Context, ...], Count] = {}

    def of(self, operations: Iterable[Operation]) -> Count:
        """Return how often all threads together execute some operations."""
        ways = tuple(map(self._contexts.of, operations))
        if ways not in self._counts:
            found = [self._count(each) for each in ways]
            total = sum((formula for formula, _ in found), self.sympy.Integer(0))
            self._counts[ways] = Count(total, ways, any(is_open for _, is_open in found))
        return self._counts[ways]

    def every_thread(self) -> Expression:
        """Return how many threads there are."""
        return self._count(())[0]

    # ------------------------------------------------------------------ counts

    def _count(self, context: Context) -> tuple[Expression, bool]:
        """Return the executions by one way, and whether something else decides as well."""
        bounds = [_Bounds() for _ in range(3)]
        factor, rounds = self.sympy.Integer(1), self.sympy.Integer(1)
        is_open = False
        counters = {
            each.loop.regions[0].arguments[0].name
            for each in context
            if isinstance(each, Round) and each.loop.name == "for"
        }
        for each in reversed(context):
            if isinstance(each, Round):
                rounds = self._times(each.loop, rounds, bounds, counters)
            elif isinstance(each, Leaving):
                is_open = True
            elif self._narrow(each, bounds):
                pass
            elif each.branch.source.is_control:
                factor *= self._share(each)
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

    def _share(self, guard: Guard) -> Expression:
        """Return the share of a branch's lanes that take a side.

        Where data decides, both sides are counted for all lanes, and each has its own share.
        """
        site = site_of(guard.branch)
        tally, line = self._branches.get(site.node), site.where.lineno
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
        self, loop: Operation, inner: Expression, bounds: list[_Bounds], counters: Collection[str]
    ) -> Expression:
        """Return what is done in all rounds of a loop, for what is done in one."""
        if not loop.may_be_left():
            if loop.name == "for_each":
                attributes = loop.attributes
                return inner * (len(attributes.get("values", ())) or attributes["count"])
            if loop.name == "for":
                found = self._counted(loop, inner, bounds, counters)
                if found is not None:
                    return found
        site = site_of(loop)
        tally = self._branches.get(site.node)
        rounds = self.sympy.Symbol(f"rounds(line {site.where.lineno})", nonnegative=True)
        self.met[rounds] = tally.lanes / tally.entered if tally is not None and tally.entered else 0
        return inner * rounds

    def _counted(
        self, loop: Operation, inner: Expression, bounds: list[_Bounds], counters: Collection[str]
    ) -> Expression | None:
        """Return that of a loop over a range, ``None`` if its rounds are not known."""
        start, stop, step = given = list(map(self._indices.of, loop.operands[:3]))
        for axis in range(3):
            if self._is_grid_stride(axis, start, step) and not is_of_thread(stop):
                bounds[axis].upper.append(stop)
                return inner
        if any(_varies(each) or not self._is_given(each, counters) for each in given):
            return None
        counter = self._indices.of(loop.regions[0].arguments[0])
        if step == 1 and inner.has(counter):
            return self.sympy.summation(inner, (counter, start, stop - 1))
        trips = stop - start if step == 1 else self.sympy.ceiling((stop - start) / step)
        return inner * trips

    def _is_given(self, formula: Expression, counters: Collection[str] = ()) -> bool:
        """Return whether a launch gives all that is in a formula."""
        return all(
            str(each) in self._given or str(each) in counters or str(each).startswith(_COORDINATES)
            for each in formula.free_symbols
        )

    def _is_grid_stride(self, axis: int, start: Expression, step: Expression) -> bool:
        place = _place(axis)
        whole = coordinate("blockDim", axis) * coordinate("gridDim", axis)
        return bool(self.sympy.expand(start - place) == 0 and self.sympy.expand(step - whole) == 0)

    # ------------------------------------------------------------------ guards

    def _narrow(self, guard: Guard, bounds: list[_Bounds]) -> bool:
        """Add what a condition says of the threads; return whether that is all that it says."""
        found = []
        for condition, holds in parts_of(guard.branch.operands[0], guard.holds):
            function, operands = comparison_of(condition, holds) or (None, [])
            if function not in _RELATIONS:
                return False
            one, two = map(self._indices.of, operands)
            above = two - one if function in (operator.lt, operator.le) else one - two
            limit = self._limit(above + (1 if function in (operator.le, operator.ge) else 0))
            if limit is None or not self._is_given(limit[2]):
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


# -- contexts -------------------------------------------------------------------------------------


class Guard(NamedTuple):
    """A branch with a condition that holds where an operation is executed, or that does not."""

    branch: Operation
    holds: bool


class Leaving(NamedTuple):
    """An operation before, in which some lanes left."""

    operation: Operation


class Round(NamedTuple):
    """A loop around an operation."""

    loop: Operation


Context: TypeAlias = tuple["Guard | Leaving | Round", ...]


class Contexts:
    """The context of each operation of a kernel.

    - `function`: the kernel.
    """

    def __init__(self, function: Function) -> None:
        self._contexts: dict[Operation, Context] = {}
        self._enter(function.body, ())

    def of(self, operation: Operation) -> Context:
        """Return what is around an operation, outermost first."""
        return self._contexts[operation]

    def _enter(self, region: Region, context: Context) -> None:
        for each in region.operations:
            self._contexts[each] = context
            for number, inner in enumerate(each.regions):
                if each.name == "if":
                    self._enter(inner, (*context, Guard(each, number == 0)))
                elif each.name in LOOPS:
                    self._enter(inner, (*context, Round(each)))
                else:
                    self._enter(inner, context)
            if each.may_be_left():
                context = (*context, self._after(each))

    def _after(self, operation: Operation) -> Guard | Leaving:
        """Return what holds after an operation in which lanes may have left."""
        if operation.name == "if" and len(operation.exits()) == 1:
            for number, region in enumerate(operation.regions):
                if region.is_left:
                    return Guard(operation, number != 0)
        return Leaving(operation)
