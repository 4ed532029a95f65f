"""Which private variables each item needs from before it, and which later items need from it."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field

from kerneldsl.analysis.expressions import assigned_names, loaded_names
from targets.cpu.items import Branch, ForLoop, Item, Leave, Once, Threads, Vote, WhileLoop

__all__ = ["Flow", "Liveness", "flow_of"]

Names = frozenset[str]
_NONE: Names = frozenset()


@dataclass(frozen=True, slots=True)
class Flow:
    """What a list of statements does to variables.

    Parameters
    ----------
    exposed : frozenset of str
        Read before they are surely assigned.
    surely : frozenset of str
        Assigned on every way through.
    maybe : frozenset of str
        Assigned on some way.
    """

    exposed: Names
    surely: Names
    maybe: Names


def flow_of(body: Iterable[ast.stmt]) -> Flow:
    """Summarize statements without barriers."""
    exposed: set[str] = set()
    surely: set[str] = set()
    maybe: set[str] = set()

    def read(names: Iterable[str]) -> None:
        exposed.update(n for n in names if n not in surely)

    for node in body:
        match node:
            case ast.If():
                read(loaded_names(node.test))
                then, other = flow_of(node.body), flow_of(node.orelse)
                read(then.exposed | other.exposed)
                surely |= then.surely & other.surely
            case ast.For():
                read(loaded_names(node.iter))
                inner = flow_of(node.body)
                read(inner.exposed - assigned_names(node.target))
            case ast.While():
                read(loaded_names(node.test))
                read(flow_of(node.body).exposed)
            case _:
                read(loaded_names(node))
                if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
                    surely |= assigned_names(node)
        maybe |= assigned_names(node)
    return Flow(frozenset(exposed), frozenset(surely), frozenset(maybe))


@dataclass
class Liveness:
    """Live variables around each item that threads run.

    Parameters
    ----------
    private : frozenset of str
        Variables of which each thread has its own, and that are not computed anew.
    """

    private: Names
    after: dict[Item, Names] = field(default_factory=dict)

    def run(self, items: list[Item]) -> None:
        """Fill :attr:`after` for all items."""
        self._block(items, _NONE, _NONE, _NONE)

    def flow(self, item: Threads | Vote) -> Flow:
        """An item's flow over private variables.

        A thread that a mask keeps out assigns nothing and goes on with what it had. One that has
        left the kernel needs nothing any more, so its guard does not count.
        """
        guards = loaded_names(item.guards)
        if isinstance(item, Vote):
            return Flow(self._keep(loaded_names(item.predicate) | guards), _NONE, _NONE)
        flow = flow_of(item.body)
        return Flow(
            self._keep(flow.exposed | guards),
            _NONE if item.is_masked else self._keep(flow.surely),
            self._keep(flow.maybe),
        )

    def loads(self, item: Threads | Vote) -> Names:
        """Variables whose values a thread fetches when it begins the item."""
        flow = self.flow(item)
        return flow.exposed | ((flow.maybe - flow.surely) & self.after[item])

    def saves(self, item: Threads) -> Names:
        """Variables whose values a thread stores when it ends the item."""
        return self.flow(item).maybe & self.after[item]

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
