"""Find the operations on tiles around which the threads of a block have to wait.

A kernel means what it does when the block does one operation after the other. Its threads access
elements of their own, each at its own pace: where other statements access the same memory, and one
of both writes, a thread may come to an element before the one whose access goes before. So may it
where an operation meets itself in the next turn of a loop, or computes what it stores from elements
that it writes.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from kerneldsl.contract.promises import Promises
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import Kind
from kerneldsl.lowering.tile_accesses import Access, TileAccesses
from targets.cuda.compile.tile_turns import TileTurns

__all__ = ["TileOrder", "order_tiles"]


@dataclass(frozen=True)
class TileOrder:
    """Operations by the reserved names that they call.

    Parameters
    ----------
    before : frozenset of str
        Threads wait before these.
    after : frozenset of str
        And behind these, whose memory code of one thread accesses too.
    between : frozenset of str
        In these stores, between the last element that is computed and the first that is written.
    """

    before: frozenset[str]
    after: frozenset[str]
    between: frozenset[str]


def order_tiles(unit: FunctionUnit, kinds: Sequence[Kind], promises: Promises) -> TileOrder:
    """Return where threads wait.

    Parameters
    ----------
    unit : FunctionUnit
        A kernel whose tile operations are separated.
    kinds : sequence of Kind
        Of its arguments.
    promises : Promises
        What holds of them: arrays that are not promised to be different memory may be the same.
    """
    accesses = TileAccesses(unit, kinds, promises)
    turns = TileTurns(unit, kinds)
    operations = {node: accesses.of_operation(node) for node in accesses.operations()}
    inside = {inner for node in operations for inner in ast.walk(node)}
    others = [accesses.of(node) for node in ast.walk(unit.tree) if node not in inside]
    before, after = set[str](), set[str]()
    between = frozenset(accesses.stores_of_itself())
    for node, own in operations.items():
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        if any(_meet(own, its) for its in others):
            before.add(name)
            after.add(name)
        if any(_meet(own, its) for other, its in operations.items() if other is not node):
            before.add(name)
        # What functions write that an operation calls may be anywhere.
        is_plain = accesses.is_store(node) and name not in between
        is_plain = is_plain and accesses.of(node)[1] == own[1]
        if own[1] and turns.is_in_loop(node) and not (is_plain and not turns.overlap(node)):
            before.add(name)
    return TileOrder(frozenset(before), frozenset(after), between)


def _meet(one: Access, two: Access) -> bool:
    """Return whether two accesses are of one memory, and one of them writes."""
    return bool(one[1] & (two[0] | two[1]) or one[0] & two[1])
