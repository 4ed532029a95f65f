"""Take what one thread of a block does out of the loop over all of them.

``if t == 0: out[b] = sums[0]`` at the end of what threads do becomes a separate item, whose loop
runs once, and the loop before it is without a branch. No thread waits there, so the one may
do its part when the others are through with theirs.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from kerneldsl.analysis.expressions import assigned_names, does_nothing, loaded_names
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.passes.items import Branch, ForLoop, Item, Threads, WhileLoop
from targets.cpu.passes.narrowing import conjuncts, narrow
from targets.cpu.passes.rematerialization import Rematerializable

__all__ = ["SingleThreads"]


@dataclass(frozen=True)
class SingleThreads:
    """Splits the items of one kernel."""

    pure: Rematerializable
    #: The loop variables over threads, innermost first.
    loop_names: tuple[str, ...]
    #: Whether statements use a thread's own array, whose memory the next thread uses.
    uses_local_arrays: Callable[[list[ast.stmt]], bool]

    def apply(self, items: list[Item]) -> None:
        """Split items, in place."""
        split: list[Item] = []
        for item in items:
            match item:
                case Threads():
                    split += self._split(item)
                    continue
                case Branch():
                    self.apply(item.body)
                    self.apply(item.orelse)
                case ForLoop() | WhileLoop():
                    self.apply(item.body)
            split.append(item)
        items[:] = split

    def _split(self, item: Threads) -> list[Item]:
        *others, last = item.body
        if does_nothing(others) or not self._is_of_one(last) or self.uses_local_arrays(item.body):
            return [item]
        own = assigned_names(others) - self.pure.definitions.keys()
        if own & (loaded_names([last]) | assigned_names([last])):
            return [item]  # its values would have to be kept
        return [Threads(body, item.guards, item.is_masked) for body in (others, [last])]

    def _is_of_one(self, node: ast.stmt) -> bool:
        """Return whether a statement is for one thread of a row, as its test says."""
        if not isinstance(node, ast.If) or node.orelse:
            return False
        return any(self._tells_one(part) for part in conjuncts(node.test))

    def _tells_one(self, part: ast.expr) -> bool:
        match part:
            case ast.Compare(ops=[ast.Eq()]):
                bounds = narrow([part], self.loop_names, self.pure)
                return not bounds.rest and self.loop_names[0] in bounds.low
        return False
