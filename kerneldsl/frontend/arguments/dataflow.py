"""One walk over the statements of a function, for every dataflow analysis.

An analysis is a *domain*: a state, which is what is known at one point of the function; what
statements and conditions do to it (the transfer functions); the join of two states where control
flow meets; and the widening by which a loop comes to a fixed point. The order of the walk is the
same for all of them and is here: both sides of a branch and then their join, the body of a loop
until its head no longer changes, what leaves a body early. A loop has no ``else``, which the front
end refuses.

References
----------
P. Cousot, R. Cousot, "Abstract Interpretation: A Unified Lattice Model for Static Analysis of
Programs by Construction or Approximation of Fixpoints", POPL 1977.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeAlias, TypeVar

from kerneldsl.frontend.expressions import assigned_names
from kerneldsl.utilities.cached_property import cached_property

__all__ = ["Branching", "Dataflow", "Frame", "Loop"]

S = TypeVar("S")
Loop: TypeAlias = ast.For | ast.While
Branching: TypeAlias = ast.If | Loop


class Frame(Generic[S]):
    """A loop while it is walked."""

    def __init__(self, node: Loop, entry: S) -> None:
        self.node = node
        #: The state at the start of this round, before the condition is tested or an item taken.
        self.entry = self.head = entry
        #: Rounds walked before this one.
        self.round = 0
        #: States at the ``break`` and ``continue`` statements of this round.
        self.breaks: list[S] = []
        self.continues: list[S] = []

    @cached_property
    def changed(self) -> set[str]:
        """Variables that are assigned in the loop."""
        return assigned_names(self.node)


class Dataflow(ABC, Generic[S]):
    """A walk over statements; a domain defines what its methods after :meth:`statement` do.

    A state of ``None`` is that of code which is never reached, and is not walked. States are
    passed on from statement to statement, so a domain that changes them in place copies them in
    :meth:`assume`.
    """

    def __init__(self) -> None:
        #: The loops around the statement that is being walked, outermost first.
        self.loops: list[Frame[S]] = []

    def block(self, body: Iterable[ast.stmt], state: S | None) -> S | None:
        """Walk statements one after the other; return the state after the last."""
        for node in body:
            if state is None:
                break
            state = self.statement(node, state)
        return state

    def statement(self, node: ast.stmt, state: S) -> S | None:
        """Walk one statement; return the state after it."""
        match node:
            case ast.If():
                tested = self.test(node, state)
                then = self.block(node.body, self.assume(node, True, tested))
                other = self.block(node.orelse, self.assume(node, False, tested))
                return self.after(node, self._meet(then, other))
            case ast.For() | ast.While():
                return self._loop(node, state)
            case ast.Break() | ast.Continue():
                frame = self.loops[-1]
                (frame.breaks if isinstance(node, ast.Break) else frame.continues).append(state)
                return self.behind(node, state)
        return self.transfer(node, state)

    def _loop(self, node: Loop, state: S) -> S | None:
        frame = Frame(node, self.enter(node, state))
        self.loops.append(frame)
        while True:
            tested = self.test(node, frame.head)
            end = self.block(node.body, self.assume(node, True, tested))
            for early in frame.continues:
                end = self._meet(end, early)
            head = self.repeat(frame, end)
            if head is None:
                break
            frame.head = head
            frame.round += 1
            frame.breaks.clear()
            frame.continues.clear()
        self.loops.pop()
        return self.leave(frame, tested)

    def _meet(self, one: S | None, two: S | None) -> S | None:
        if one is None or two is None:
            return two if one is None else one
        return self.join(one, two)

    # What a domain says

    @abstractmethod
    def transfer(self, node: ast.stmt, state: S) -> S | None:
        """Return the state after a statement that holds no other one."""

    @abstractmethod
    def test(self, node: Branching, state: S) -> S:
        """Return the state after a condition was evaluated, or an item of a ``for`` taken."""

    @abstractmethod
    def assume(self, node: Branching, truth: bool, tested: S) -> S | None:
        """Return the state where a condition was found true or false.

        Of a ``for`` it is true if there was an item, and false where the loop is over.
        """

    @abstractmethod
    def join(self, one: S, two: S) -> S:
        """Return what holds where control comes from either of two places."""

    def enter(self, node: Loop, state: S) -> S:
        """Return the state before the first round: after what a ``for`` runs over is evaluated."""
        return state

    def repeat(self, frame: Frame[S], end: S | None) -> S | None:
        """Return the state for another round; ``None`` once the loop is at its fixed point.

        `end` is the state at the end of the body, joined with those at each ``continue``.
        """
        head = self._meet(frame.head, end)
        return None if head == frame.head else head

    def leave(self, frame: Frame[S], tested: S) -> S | None:
        """Return the state after a loop: where its condition is false, joined with each ``break``.

        The loop is at its fixed point; `tested` is the state after its condition was tested for the
        last time.
        """
        left = self.assume(frame.node, False, tested)
        for early in frame.breaks:
            left = self._meet(left, early)
        return left

    def after(self, node: ast.If, state: S | None) -> S | None:
        """Return the state after a branch, from the join of its sides."""
        return state

    def behind(self, node: ast.Break | ast.Continue, state: S) -> S | None:
        """Return the state of what is after a jump, which nothing leads to."""
        return None
