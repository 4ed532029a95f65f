"""Find which memory may be written in the barrier interval of an expression.

A *barrier interval* is what runs between two barriers. Within one, threads run in any order, so a
load at one address gives every thread the same value only if nothing in its interval can write
there. The statements are laid out as a graph, which is a domain of
:mod:`kerneldsl.analysis.dataflow`, and within a statement that holds a barrier its expressions in
the order of evaluation; from each of them a search runs forwards and backwards until it meets a
barrier, and collects the writes on its way.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from kerneldsl.analysis.aliases import Root
from kerneldsl.analysis.dataflow import Branching, Dataflow, Frame, Loop
from kerneldsl.analysis.effects import Accesses
from kerneldsl.analysis.expressions import operands, sometimes_evaluated
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Scope

__all__ = ["Intervals"]


class _Step:
    """Accesses without a barrier between them, or one barrier."""

    def __init__(self, *sources: _Step) -> None:
        self.is_barrier = False
        self.stores: set[Root] = set()
        self.after: list[_Step] = []
        self.before: list[_Step] = []
        for source in sources:
            _connect(source, self)


class Intervals:
    """The barrier intervals of a kernel.

    Block-level functions of the unit have been inlined. Barriers are those between the threads of
    the scope.
    """

    def __init__(self, unit: FunctionUnit, accesses: Accesses, scope: Scope = Scope.BLOCK) -> None:
        layout = _Layout(unit, accesses, scope)
        layout.block(unit.tree.body, _Step())
        self._steps = layout.steps_of
        self._written: dict[_Step, frozenset[Root]] = {}

    def written(self, node: ast.AST) -> frozenset[Root]:
        """Return memory that may be written between the barriers around a node's evaluation.

        The node is an expression or simple statement of the kernel; a ``for`` stands for taking an
        item.
        """
        return frozenset[Root]().union(*map(self._around, self._steps[node]))

    def _around(self, step: _Step) -> frozenset[Root]:
        known = self._written.get(step)
        if known is None:
            known = frozenset(step.stores)
            known |= _stores_until_barrier(step, lambda s: s.after)
            known |= _stores_until_barrier(step, lambda s: s.before)
            self._written[step] = known
        return known


class _Layout(Dataflow[_Step]):
    """Lays a unit's statements out as a graph of steps; a state is the step that led to a point."""

    def __init__(self, unit: FunctionUnit, accesses: Accesses, scope: Scope) -> None:
        super().__init__()
        self.unit = unit
        self.accesses = accesses
        self.scope = scope
        #: The steps of each node: one, unless a pass has put the node in several places.
        self.steps_of: dict[ast.AST, list[_Step]] = {}

    def note(self, node: ast.AST, step: _Step) -> None:
        """Let a node, apart from those below it, be evaluated in a step."""
        steps = self.steps_of.setdefault(node, [])
        if step not in steps:
            steps.append(step)
        step.stores |= self.accesses.of(node)[1]

    def transfer(self, node: ast.stmt, state: _Step) -> _Step:
        """Lay out a statement without statements in it: its value, then its targets."""
        current = _Step(state)
        parts = sorted(
            operands(node), key=lambda part: isinstance(getattr(part, "ctx", None), ast.Store)
        )
        for part in parts:
            current = self.expression(part, current)
        self.note(node, current)
        return _Step() if isinstance(node, ast.Return) else current

    def enter(self, node: Loop, state: _Step) -> _Step:
        if isinstance(node, ast.For):
            state = self.expression(node.iter, _Step(state))
        return _Step(state)

    def test(self, node: Branching, state: _Step) -> _Step:
        if isinstance(node, ast.For):
            self.note(node, state)
            self.expression(node.target, state)
            return state
        return self.expression(node.test, _Step(state))

    def assume(self, node: Branching, truth: bool, tested: _Step) -> _Step:
        return _Step(tested)

    def join(self, one: _Step, two: _Step) -> _Step:
        return _Step(one, two)

    def repeat(self, frame: Frame[_Step], end: _Step | None) -> None:
        assert end is not None
        _connect(end, frame.head)

    def behind(self, node: ast.Break | ast.Continue, state: _Step) -> _Step:
        return _Step()  # nothing leads here, but it is laid out as well

    def expression(self, node: ast.expr, current: _Step) -> _Step:
        """Visit one expression; a barrier in it puts what is evaluated after it in another step."""
        inside = [inner for inner in walk_here(node) if isinstance(inner, ast.expr)]
        if not any(map(self.is_barrier, inside)):
            for inner in inside:
                self.note(inner, current)
            return current
        sometimes = sometimes_evaluated(node)
        for part in operands(node):
            if part in sometimes:
                current = _Step(current, self.expression(part, _Step(current)))
            else:
                current = self.expression(part, current)
        self.note(node, current)
        if self.is_barrier(node):
            wall = _Step(current)
            wall.is_barrier = True
            current = _Step(wall)
        return current

    def is_barrier(self, node: ast.AST) -> bool:
        use = self.unit.use_of(node)
        return use is not None and use.intrinsic.orders_memory(self.scope)


def _connect(source: _Step, target: _Step) -> None:
    source.after.append(target)
    target.before.append(source)


def _stores_until_barrier(
    start: _Step, neighbours: Callable[[_Step], Iterable[_Step]]
) -> frozenset[Root]:
    stores: set[Root] = set()
    seen = {start}
    pending = list(neighbours(start))
    while pending:
        step = pending.pop()
        if step in seen or step.is_barrier:
            continue
        seen.add(step)
        stores |= step.stores
        pending.extend(neighbours(step))
    return frozenset(stores)
