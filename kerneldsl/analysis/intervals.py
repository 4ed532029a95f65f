"""Which memory may be written in the barrier interval of an expression.

A *barrier interval* is what runs between two barriers. Within one, threads run in any order, so a
load at one address gives every thread the same value only if nothing in its interval can write
there. The statements are laid out as a graph, and within a statement that holds a barrier its
expressions in the order of evaluation; from each of them a search runs forwards and backwards until
it meets a barrier, and collects the writes on its way.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from kerneldsl.analysis.effects import Accesses, Root
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics import Scope

__all__ = ["Intervals"]


class _Step:
    """Accesses that no barrier stands between, or one barrier."""

    def __init__(self) -> None:
        self.is_barrier = False
        self.stores: set[Root] = set()
        self.after: list[_Step] = []
        self.before: list[_Step] = []


class Intervals:
    """The barrier intervals of a kernel.

    Parameters
    ----------
    unit : FunctionUnit
        A kernel whose block-level functions have been inlined.
    accesses : Accesses
        Of that unit.
    """

    def __init__(self, unit: FunctionUnit, accesses: Accesses) -> None:
        layout = _Layout(unit, accesses)
        layout.block(unit.tree.body, layout.step())
        self._steps = layout.steps_of
        self._written: dict[_Step, frozenset[Root]] = {}

    def written(self, node: ast.AST) -> frozenset[Root]:
        """Memory that may be written between the barriers around a node's evaluation.

        Parameters
        ----------
        node : ast.AST
            An expression or simple statement of the kernel; a ``for`` stands for taking an item.
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


class _Layout:
    """Lays a unit's statements out as a graph of steps."""

    def __init__(self, unit: FunctionUnit, accesses: Accesses) -> None:
        self.unit = unit
        self.accesses = accesses
        #: The steps of each node: one, unless a pass has put the node in several places.
        self.steps_of: dict[ast.AST, list[_Step]] = {}
        self.loops: list[tuple[_Step, _Step]] = []  # (where continue goes, where break goes)
        self.exit = _Step()

    def step(self, *sources: _Step) -> _Step:
        new = _Step()
        for source in sources:
            _connect(source, new)
        return new

    def note(self, node: ast.AST, step: _Step) -> None:
        """Let a node, apart from those below it, be evaluated in a step."""
        steps = self.steps_of.setdefault(node, [])
        if step not in steps:
            steps.append(step)
        step.stores |= self.accesses.of(node)[1]

    def block(self, statements: list[ast.stmt], current: _Step) -> _Step:
        for node in statements:
            current = self.statement(node, current)
        return current

    def statement(self, node: ast.stmt, current: _Step) -> _Step:
        match node:
            case ast.If():
                test = self.expression(node.test, self.step(current))
                body = self.block(node.body, self.step(test))
                orelse = self.block(node.orelse, self.step(test))
                return self.step(body, orelse)
            case ast.While() | ast.For():
                return self.loop(node, current)
            case ast.Break() | ast.Continue():
                head, leave = self.loops[-1]
                _connect(current, leave if isinstance(node, ast.Break) else head)
                return self.step()  # nothing leads here
            case ast.Return():
                current = self.simple(node, current)
                _connect(current, self.exit)
                return self.step()
            case _:
                return self.simple(node, current)

    def loop(self, node: ast.While | ast.For, current: _Step) -> _Step:
        leave = self.step()
        if isinstance(node, ast.While):
            head = self.step(current)
            test = self.expression(node.test, head)
        else:
            head = test = self.step(self.expression(node.iter, self.step(current)))
            self.note(node, head)
            self.expression(node.target, head)
        self.loops.append((head, leave))
        body = self.block(node.body, self.step(test))
        self.loops.pop()
        _connect(body, head)
        _connect(test, leave)
        return self.block(node.orelse, leave)

    def simple(self, node: ast.stmt, current: _Step) -> _Step:
        """A statement without statements in it: what is assigned, then where, then the rest."""
        current = self.step(current)
        parts = list(_expressions(node))
        parts.sort(key=lambda part: isinstance(getattr(part, "ctx", None), ast.Store))
        for part in parts:
            current = self.expression(part, current)
        self.note(node, current)
        return current

    def expression(self, node: ast.expr, current: _Step) -> _Step:
        """One expression; where it holds a barrier, what is evaluated after that comes apart."""
        inside = [inner for inner in ast.walk(node) if isinstance(inner, ast.expr)]
        if not any(map(self.is_barrier, inside)):
            for inner in inside:
                self.note(inner, current)
            return current
        sometimes: list[ast.expr] = []
        match node:
            case ast.BoolOp():
                current = self.expression(node.values[0], current)
                sometimes = node.values[1:]
            case ast.IfExp():
                current = self.expression(node.test, current)
                sometimes = [node.body, node.orelse]
            case ast.Compare():
                current = self.expression(node.left, current)
                current = self.expression(node.comparators[0], current)
                sometimes = node.comparators[1:]
            case _:
                for part in _expressions(node):
                    current = self.expression(part, current)
        for part in sometimes:
            current = self.step(current, self.expression(part, self.step(current)))
        self.note(node, current)
        if self.is_barrier(node):
            wall = self.step(current)
            wall.is_barrier = True
            current = self.step(wall)
        return current

    def is_barrier(self, node: ast.AST) -> bool:
        use = self.unit.use_of(node)
        return use is not None and use.intrinsic.synchronizes(Scope.BLOCK)


def _expressions(node: ast.AST) -> Iterator[ast.expr]:
    """Expressions right below a node, in the order of evaluation but for targets."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, ast.keyword):
            yield child.value


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
