"""Write the items of a block that waits for all other blocks: as states that it goes on from.

A barrier of the grid ends a *pass* over the blocks: each runs as far as that, notes in its storage
where it will go on, and is called again when all others have come as far. So what is cut is the
control flow around such barriers: branches and loops that hold one become states, ``kd_at`` is the
number of the one that runs, and all else stays as it is. What a block or its threads need in a
later pass is in the block's storage, which lives as long as the launch.

A loop that contains such a barrier becomes a loop with a test
(:mod:`targets.cpu.passes.counted_loops`), so that all its variables can be stored while the block
waits for the others.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from kerneldsl.analysis.hoisting import place_at
from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, call, load, store
from kerneldsl.frontend.trees import Transformer, walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.grids import grid_group
from targets.cpu.passes.counted_loops import counted, is_range
from targets.cpu.passes.items import Branch, ForLoop, GridBarrier, Item, Leave, Once, WhileLoop

__all__ = ["AT", "AT_SLOT", "FINISHED", "STATE_BYTES", "resumable", "write_grid_loops"]

#: The variable with the number of the state, and the slot of the block that holds it.
AT, AT_SLOT = "kd_at", "kd_slot_at"
#: Of the number, an int64.
STATE_BYTES = 8
#: The state of a block that has come to its end; a launch begins with state 0.
FINISHED = -1


def resumable(
    items: Sequence[Item], write: Callable[[Sequence[Item]], list[ast.stmt]]
) -> list[ast.stmt]:
    """Return the statements that run a block from the state in its slot to the next barrier.

    `write` writes items that a block runs without waiting.
    """
    states = _States()
    end = states.lay_out(items, states.add(), None, None)
    states.go(end, FINISHED)
    states.stop(end)
    chosen: list[ast.stmt] = [ast.Break()]
    for number in reversed(range(len(states.items))):
        test = ast.Compare(load(AT), [ast.Eq()], [ast.Constant(number)])
        chosen = [ast.If(test, write(states.items[number]), chosen)]
    place = ast.Constant(0)
    return [
        ast.Assign([store(AT)], call("kd_load", load(AT_SLOT), place)),
        ast.While(ast.Constant(True), chosen, []),
        ast.Expr(call("kd_store", load(AT_SLOT), place, load(AT))),
    ]


class _States:
    """The states of a block, each with the items that it runs; the last ones say what follows."""

    def __init__(self) -> None:
        self.items: list[list[Item]] = []

    def add(self) -> int:
        """Return a new state."""
        self.items.append([])
        return len(self.items) - 1

    def go(self, state: int, target: int) -> None:
        """Let a state be followed by another one."""
        self.items[state].append(_go(target))

    def stop(self, state: int) -> None:
        """Let the block end its pass after a state."""
        self.items[state].append(Leave(ast.Break()))

    def lay_out(
        self, items: Sequence[Item], state: int, at_break: int | None, at_next: int | None
    ) -> int:
        """Append items to a state; return the state that runs what follows them.

        A ``break`` and a ``continue`` lead to the states given, outside of loops to the end.
        """
        for item in items:
            match item:
                case GridBarrier():
                    following = self.add()
                    self.go(state, following)
                    self.stop(state)
                    state = following
                case Leave():
                    target = at_break if isinstance(item.statement, ast.Break) else at_next
                    self.go(state, FINISHED if target is None else target)
                    if target is None:
                        self.stop(state)
                    return self.add()  # nothing leads here
                case Branch() if _is_cut(item):
                    body, orelse, following = self.add(), self.add(), self.add()
                    self.items[state].append(Branch(item.test, [_go(body)], [_go(orelse)]))
                    for begin, inner in ((body, item.body), (orelse, item.orelse)):
                        self.go(self.lay_out(inner, begin, at_break, at_next), following)
                    state = following
                case WhileLoop() if _is_cut(item):
                    head, body, following = self.add(), self.add(), self.add()
                    self.go(state, head)
                    self.items[head].append(Branch(item.test, [_go(body)], [_go(following)]))
                    self.go(self.lay_out(item.body, body, following, head), head)
                    state = following
                case _:
                    self.items[state].append(item)
        return state


def _go(target: int) -> Once:
    return Once(assign(AT, ast.Constant(target)))


def _is_cut(item: Item) -> bool:
    """Return whether an item holds a barrier of the grid, or leaves a loop that does, or may."""
    match item:
        case GridBarrier() | Leave():
            return True
        case Branch():
            return any(map(_is_cut, (*item.body, *item.orelse)))
        case ForLoop() | WhileLoop():
            return any(map(_waits, item.body))
        case _:
            return False


def _waits(item: Item) -> bool:
    match item:
        case GridBarrier():
            return True
        case Branch():
            return any(map(_waits, (*item.body, *item.orelse)))
        case ForLoop() | WhileLoop():
            return any(map(_waits, item.body))
        case _:
            return False


def _holds_grid_barrier(node: ast.AST, unit: FunctionUnit) -> bool:
    """Return whether a barrier of the grid is in a statement."""
    uses = (unit.use_of(inner) for inner in walk_here(node))
    return any(use is not None and use.intrinsic is grid_group.sync for use in uses)


def write_grid_loops(tree: ast.FunctionDef, unit: FunctionUnit, names: FreshNames) -> None:
    """Rewrite loops over a range in place.

    Raises `UnsupportedConstructError` for a loop with such a barrier over anything else, and for a
    chain: a block that waits for another one's part may be before it in a pass.
    """
    for name, use in unit.uses.items():
        if use.intrinsic.is_of_chain:
            raise UnsupportedConstructError(
                f"kd.{use.intrinsic.name} is in a kernel with a barrier of the grid",
                where=unit.locate_use(name),
                limit="On the CPU blocks take turns between such barriers, and their order is not "
                "that of a chain's parts",
                remedy="Use two kernels, or add up over the grid: each block stores its sum, and "
                "reads those before it after kd.grid_group().sync()",
            )
    _Loops(unit, names).visit(tree)


class _Loops(Transformer):
    def __init__(self, unit: FunctionUnit, names: FreshNames) -> None:
        self._unit = unit
        self._names = names

    def visit_For(self, node: ast.For) -> ast.stmt | list[ast.stmt]:
        self.generic_visit(node)
        if not _holds_grid_barrier(node, self._unit):
            return node
        if not is_range(node.iter, self._unit):
            raise UnsupportedConstructError(
                "on the CPU a loop with a barrier of the grid runs over a range alone",
                where=self._unit.locate(node.iter),
                remedy="Loop over range(…), and take the item by its number",
            )
        loop = counted(node, self._names.make)
        rounds = ast.While(loop.test, [*loop.head, *node.body], [])
        return [place_at(statement, node) for statement in (*loop.before, rounds)]
