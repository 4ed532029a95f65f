"""Liveness: the private variables that each item needs from before it, and later items from it.

A variable is in a slot, is computed again, or belongs to the block.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from kerneldsl.analysis.dataflow import Branching, Dataflow, Loop
from kerneldsl.analysis.expressions import assigned_names, loaded_names
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.passes.items import Branch, ForLoop, Item, Leave, Once, Threads, Vote, WhileLoop
from targets.cpu.passes.rematerialization import Rematerializable

__all__ = ["Flow", "Liveness", "Slot", "Variables", "flow_of", "liveness_of"]

Names = frozenset[str]
_NONE: Names = frozenset()


@dataclass(frozen=True, slots=True)
class Flow:
    """Effect of a list of statements on variables."""

    #: Read before they are surely assigned.
    exposed: Names
    #: Assigned on every way through.
    surely: Names
    #: Assigned on some way.
    maybe: Names


def flow_of(body: Sequence[ast.stmt]) -> Flow:
    """Summarize statements without barriers."""
    assignments = _Assignments()
    surely = assignments.block(body, _NONE)
    assert surely is not None
    return Flow(frozenset(assignments.exposed), surely, frozenset(assigned_names(body)))


class _Assignments(Dataflow[Names]):
    """Definite assignment: a state is the variables that are surely assigned.

    What is after a jump counts as reached, which can only expose more.
    """

    def __init__(self) -> None:
        super().__init__()
        self.exposed: set[str] = set()

    def read(self, node: ast.AST, state: Names) -> Names:
        self.exposed |= loaded_names(node) - state
        return state

    def transfer(self, node: ast.stmt, state: Names) -> Names:
        self.read(node, state)
        is_assignment = isinstance(node, ast.Assign | ast.AugAssign)
        return state | assigned_names(node) if is_assignment else state

    def enter(self, node: Loop, state: Names) -> Names:
        return self.read(node.iter, state) if isinstance(node, ast.For) else state

    def test(self, node: Branching, state: Names) -> Names:
        return state if isinstance(node, ast.For) else self.read(node.test, state)

    def assume(self, node: Branching, truth: bool, tested: Names) -> Names:
        if truth and isinstance(node, ast.For):
            return tested | assigned_names(node.target)
        return tested

    def join(self, one: Names, two: Names) -> Names:
        return one & two

    def behind(self, node: ast.Break | ast.Continue, state: Names) -> Names:
        return state


@dataclass
class Liveness:
    """Live variables around each item that threads run."""

    #: Variables of each thread that are not computed again.
    private: Names
    after: dict[Item, Names] = field(default_factory=dict)
    #: What has been found of the bodies of items.
    flows: dict[Item, Flow] = field(default_factory=dict)

    def run(self, items: list[Item]) -> None:
        """Fill :attr:`after` for all items."""
        self._block(items, _NONE, _NONE, _NONE)

    def flow(self, item: Threads | Vote) -> Flow:
        """Return an item's flow over private variables.

        A thread that a mask keeps out assigns nothing and goes on with what it had. One that has
        left the kernel needs nothing any more, so its guard does not count.
        """
        guards = loaded_names(item.guards)
        if isinstance(item, Vote):
            return Flow(self._keep(loaded_names(item.predicate) | guards), _NONE, _NONE)
        flow = self.flow_of_body(item)
        return Flow(
            self._keep(flow.exposed | guards),
            _NONE if item.is_masked else self._keep(flow.surely),
            self._keep(flow.maybe),
        )

    def flow_of_body(self, item: Threads) -> Flow:
        """Return the flow of what a thread runs that meets the guards."""
        if item not in self.flows:
            self.flows[item] = flow_of(item.body)
        return self.flows[item]

    def loads(self, item: Threads | Vote) -> Names:
        """Return the variables that a thread fetches when it begins the item."""
        flow = self.flow(item)
        return flow.exposed | ((flow.maybe - flow.surely) & self.after[item])

    def fetches(self, item: Threads | Vote) -> Names:
        """Return those of :meth:`loads` that a thread which meets the guards needs.

        Under a mask, what the body surely assigns is not among them: other threads store nothing.
        """
        if isinstance(item, Vote) or not item.is_masked:
            return self.loads(item)
        flow = self.flow(item)
        return flow.exposed | ((flow.maybe - self.flow_of_body(item).surely) & self.after[item])

    def saves(self, item: Threads) -> Names:
        """Return the variables that a thread stores when it ends the item."""
        return self.flow(item).maybe & self.after[item]

    def of_strips(self, items: Sequence[Item]) -> Names:
        """Return the variables that only items of strips fetch: none outlives its strip."""
        within, outside = self._fetched(items, in_strip=False)
        return within - outside

    def _fetched(self, items: Sequence[Item], *, in_strip: bool) -> tuple[Names, Names]:
        """Return the variables that items of strips fetch or save, and those that others do."""
        within, outside = _NONE, _NONE
        for item in items:
            inner: Sequence[Item] = ()
            match item:
                case Threads() | Vote():
                    saves = self.saves(item) if isinstance(item, Threads) else _NONE
                    own = self.loads(item) | saves
                    within, outside = (
                        (within | own, outside) if in_strip else (within, outside | own)
                    )
                    if isinstance(item, Threads) and item.rows is not None:
                        inner = item.rows
                case Branch():
                    inner = [*item.body, *item.orelse]
                case ForLoop() | WhileLoop():
                    inner = item.body
            is_strip = isinstance(item, Threads) and item.lanes is not None
            more, others = self._fetched(inner, in_strip=in_strip or is_strip)
            within, outside = within | more, outside | others
        return within, outside

    def _keep(self, names: Iterable[str]) -> Names:
        return self.private.intersection(names)

    def _block(self, items: list[Item], live: Names, at_break: Names, at_next: Names) -> Names:
        for item in reversed(items):
            match item:
                case Threads() | Vote():
                    self.after[item] = self.after.get(item, _NONE) | live
                    if isinstance(item, Threads) and item.rows is not None:
                        self._block(item.rows, live, _NONE, _NONE)
                    flow = self.flow(item)
                    live = flow.exposed | (live - flow.surely)
                case Once():
                    pass
                case Branch():
                    live = self._block(item.body, live, at_break, at_next) | self._block(
                        item.orelse, live, at_break, at_next
                    )
                case ForLoop() | WhileLoop():
                    head = live
                    while True:
                        grown = head | self._block(item.body, head, live, head)
                        if grown == head:
                            break
                        head = grown
                    live = head
                case Leave():
                    live = at_break if isinstance(item.statement, ast.Break) else at_next
        return live


def liveness_of(items: list[Item], private: Iterable[str]) -> Liveness:
    """Return the variables of threads that are live around items."""
    liveness = Liveness(frozenset(private))
    liveness.run(items)
    return liveness


@dataclass(frozen=True)
class Slot:
    """Storage of a private variable, for each type it has at the items that fetch it."""

    #: Variables of the generated code, one for each type.
    names: tuple[str, ...]
    #: Operations that make them.
    makers: tuple[str, ...]


@dataclass(frozen=True)
class Variables:
    """Origin of each private variable where an item needs it."""

    #: Variables that are computed again.
    pure: Rematerializable
    #: Of the items, those along rows included.
    liveness: Liveness
    #: Variable to slot.
    slots: Mapping[str, Slot]
    #: For each item, the type index of each variable it fetches.
    fetched: Mapping[Item, Mapping[str, int]]
    #: Pure variables that are computed before the items, once for a unit of work.
    once: frozenset[str]
    #: Variables whose slots have a value for each lane of a strip; else for each thread of a block.
    by_lane: frozenset[str]
    #: Whether threads may run an item in any order.
    any_order: bool
    #: Variables that always hold one array of the block's own storage.
    own_arrays: frozenset[str]
