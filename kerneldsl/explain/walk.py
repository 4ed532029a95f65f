"""Statements of the typed normal form, for many threads at once.

The lanes that execute a statement are known by a mask, as on a device: a branch is walked once for
each side that some lane takes, a loop until no lane is left. Where data decides, both sides are
walked for all lanes, so that what is counted is a bound. A loop with a length from data makes
`UNKNOWN_TRIPS` rounds.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kerneldsl.analysis.trips import is_range
from kerneldsl.analysis.work import UNKNOWN_TRIPS
from kerneldsl.explain.accesses import source_text
from kerneldsl.explain.intrinsics import Assigner
from kerneldsl.explain.lane_memory import ActiveLanes
from kerneldsl.explain.tally import BranchTally, Tallies
from kerneldsl.explain.threads import Threads
from kerneldsl.explain.values import UNKNOWN, Value, View, as_dtype, possible
from kerneldsl.frontend.typed_unit import TypedUnit
from kerneldsl.frontend.user_places import is_own
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["MAX_ROUNDS", "walk_kernel"]

#: Rounds of nested loops that are walked; of longer loops some rounds stand for all.
MAX_ROUNDS = 1024
_MIN_ROUNDS = 4
_MAX_DEPTH = 16


def walk_kernel(
    typed: TypedUnit,
    threads: Threads,
    arguments: Sequence[Value],
    *,
    wraps: bool = True,
    shared_bytes: int = 0,
    indices: tuple[NDArray[np.int64], ...] | None = None,
    within: NDArray[np.bool_] | None = None,
    rearranges: bool = False,
    rounds: int = MAX_ROUNDS,
) -> Tallies:
    """Walk a kernel and return what is counted.

    Parameters
    ----------
    typed : TypedUnit
        The kernel.
    threads : Threads
        Which threads of which launch.
    arguments : sequence
        Values of its parameters: numbers, views, or `UNKNOWN`.
    wraps : bool
        Whether negative indices count from the end.
    shared_bytes : int
        Bytes of dynamic shared memory.
    indices, within
        Of a launch over an extent: what ``grid`` gives, and which lanes are in the extent.
    rearranges : bool
        Whether it is looked at what other arrangements of shared arrays would change.
    rounds : int
        Rounds of nested loops that are walked.
    """
    tallies = Tallies()
    walk = _Walk(typed, threads, tallies, wraps=wraps)
    walk.indices, walk.shared_bytes, walk.rearranges = indices, shared_bytes, rearranges
    walk.budget = rounds
    if within is not None:
        walk.active = ActiveLanes(walk.active.mask & within, threads)
    walk.names = dict(zip(typed.unit.parameters, arguments, strict=True))
    walk.run()
    tallies.settle()
    return tallies


@dataclass(slots=True)
class _Loop:
    """Lanes that have left a loop, and those that have left its round."""

    broken: NDArray[np.bool_]
    continued: NDArray[np.bool_]


@dataclass(eq=False)
class _Frame:
    """State of a call: lanes that have returned, their result, and the loops around."""

    returned: NDArray[np.bool_]
    result: Value = None
    loops: list[_Loop] = field(default_factory=list)


class _Walk(Assigner):
    """Statements of one function."""

    budget = MAX_ROUNDS
    depth = 0

    def run(self) -> Value:
        """Walk the function; return what it returns."""
        none = np.zeros(self.threads.lane_count, bool)
        self.frame = _Frame(none)
        self._block(self.unit.tree.body)
        return self.frame.result

    def _block(self, body: Sequence[ast.stmt]) -> None:
        """Walk statements; lanes that return, break or go on to the next round leave."""
        for statement in body:
            if not self.active:
                return
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        if not isinstance(node, ast.If | ast.For | ast.While):
            self.tallies.lanes += self.weight * self.active.threads
            self.tallies.slots += self.weight * self.active.warps * 32
        match node:
            case ast.Assign(targets=targets, value=value):
                found = self.value(value)
                is_copied = any(isinstance(each, ast.Subscript) for each in targets)
                if is_copied and isinstance(found, View) and not found.shape:
                    self.access(value, found)  # a whole record
                for target in targets:
                    self.assign(target, found)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.assign(target, self.value(value))
            case ast.AugAssign():
                self.augment(node)
            case ast.Expr(value=value):
                self.value(value)
            case ast.If():
                self._branch(node)
            case ast.For():
                self._for(node)
            case ast.While():
                self._while(node)
            case ast.Return(value=value):
                found = None if value is None else self.value(value)
                self.frame.result = self.merged(self.frame.result, found)
                self._leave(self.frame.returned)
            case ast.Break():
                self._leave(self.frame.loops[-1].broken)
            case ast.Continue():
                self._leave(self.frame.loops[-1].continued)

    def _leave(self, gone: NDArray[np.bool_]) -> None:
        if not self.uncertain:
            gone |= self.active.mask
            self.active = ActiveLanes(self.active.mask & False, self.threads)

    def _stay(self, outer: ActiveLanes) -> None:
        """Let the lanes go on together that have not left."""
        left = outer.mask & ~self.frame.returned
        for loop in self.frame.loops[-1:]:
            left &= ~(loop.broken | loop.continued)
        is_same = np.array_equal(left, outer.mask)
        self.active = outer if is_same else ActiveLanes(left, self.threads)

    # ------------------------------------------------------------ control flow

    def _tally(self, node: ast.If | ast.For | ast.While) -> BranchTally:
        tally = self.tallies.branches.get(node)
        if tally is None:
            shown = node.iter if isinstance(node, ast.For) else node.test
            is_loop = not isinstance(node, ast.If)
            where = self.locate(shown)
            text = source_text(where) or ast.unparse(shown)
            tally = BranchTally(where, text, is_loop)
            self.tallies.branches[node] = tally
        return tally

    def _branch(self, node: ast.If) -> None:
        holds, is_data = possible(self.value(node.test))
        outer = self.active
        taken = ActiveLanes(outer.mask & holds, self.threads)
        others = ActiveLanes(outer.mask & (True if is_data else ~np.asarray(holds)), self.threads)
        tally = self._tally(node)
        tally.depends_on_data |= is_data
        tally.warps += self.weight * outer.warps
        tally.entered += self.weight * outer.threads
        tally.taken += self.weight * taken.threads
        if not is_data:
            sides = taken.warps + others.warps
            tally.divergent += self.weight * (sides - outer.warps)
            walked = taken.warps + (others.warps if node.orelse else 0.0)
            tally.slots += self.weight * 32 * walked
            lanes = taken.threads + (others.threads if node.orelse else 0.0)
            tally.lanes += self.weight * lanes
        self.uncertain += is_data
        for side, lanes_of in ((node.body, taken), (node.orelse, others)):
            self.active = lanes_of
            self._block(side)
        self.uncertain -= is_data
        if is_data:
            self.forget([*node.body, *node.orelse])
        self._stay(outer)

    def _for(self, node: ast.For) -> None:
        bounds: list[Value] | None = None
        iterable = node.iter
        if isinstance(iterable, ast.Call) and is_range(iterable, self.unit.namespace):
            given = [self.value(each) for each in iterable.args]
            bounds = [0, given[0], 1] if len(given) == 1 else [*given, 1][:3]
            if any(not isinstance(b, int | np.integer | np.ndarray) for b in bounds):
                bounds = None
        elif isinstance(iterable, ast.expr):
            value = self.value(iterable)
            length = value.shape[0] if isinstance(value, View) and value.shape else None
            length = len(value) if isinstance(value, tuple) else length
            if length is not None:
                self._rounds(node, [0, length, 1], is_number=False)
                return
        if bounds is None:
            self._unknown_loop(node)
        else:
            self._rounds(node, bounds, is_number=True)

    def _rounds(self, node: ast.For, bounds: list[Any], *, is_number: bool) -> None:
        start, stop, step = (np.asarray(each, np.int64) for each in bounds)
        step = np.where(step == 0, 1, step)
        trips = np.maximum(0, -((start - stop) // step))
        outer, budget, weight = self.active, self.budget, self.weight
        mine = np.broadcast_to(trips, outer.mask.shape)[outer.mask]
        most = int(mine.max(initial=0))
        rounds = self._chosen(most)
        if len(rounds) < most:
            self.tallies.sampled.add(node)
        self.budget = max(_MIN_ROUNDS, budget // max(1, len(rounds)))
        self.weight = weight * most / max(1, len(rounds))
        tally = self._tally(node)
        tally.entered += weight * outer.threads
        loop = self._enter_loop()
        for number in rounds:
            loop.continued[:] = False
            gone = loop.broken | self.frame.returned
            self.active = ActiveLanes(outer.mask & (number < trips) & ~gone, self.threads)
            if not self.active:
                break
            self._count_round(tally)
            self.assign(node.target, start + number * step if is_number else UNKNOWN)
            self._block(node.body)
        self.frame.loops.pop()
        self.budget, self.weight = budget, weight
        self._stay(outer)

    def _chosen(self, most: int) -> list[int]:
        """Return the rounds that are walked: all, or one drawn from each of as many parts."""
        if most <= self.budget:
            return list(range(most))
        edges = np.linspace(0, most, self.budget + 1).astype(np.int64)
        return [int(n) for n in self.random.integers(edges[:-1], edges[1:])]

    def _enter_loop(self) -> _Loop:
        none = np.zeros(self.threads.lane_count, bool)
        loop = _Loop(none, none.copy())
        self.frame.loops.append(loop)
        return loop

    def _count_round(self, tally: BranchTally) -> None:
        tally.warps += self.weight * self.active.warps
        tally.lanes += self.weight * self.active.threads
        tally.slots += self.weight * self.active.warps * 32

    def _while(self, node: ast.While) -> None:
        outer, budget = self.active, self.budget
        self.budget = max(_MIN_ROUNDS, budget // 16)
        tally = self._tally(node)
        tally.entered += self.weight * outer.threads
        loop = self._enter_loop()
        walked = 0
        while True:
            loop.continued[:] = False
            gone = loop.broken | self.frame.returned
            self.active = ActiveLanes(outer.mask & ~gone, self.threads)
            if not self.active:
                break
            holds, is_data = possible(self.value(node.test))
            if is_data or walked >= MAX_ROUNDS:
                self.active = ActiveLanes(outer.mask & ~gone & holds, self.threads)
                self.frame.loops.pop()
                self.budget = budget
                self._unknown_loop(node, outer)
                return
            loop.broken |= self.active.mask & ~np.asarray(holds)
            self.active = ActiveLanes(self.active.mask & holds, self.threads)
            if not self.active:
                break
            self._count_round(tally)
            self._block(node.body)
            walked += 1
        self.frame.loops.pop()
        self.budget = budget
        self._stay(outer)

    def _unknown_loop(self, node: ast.For | ast.While, outer: ActiveLanes | None = None) -> None:
        """Walk a loop with a length from data once, for all its rounds."""
        outer = outer or self.active
        tally = self._tally(node)
        tally.depends_on_data = True
        if isinstance(node, ast.For):
            tally.entered += self.weight * outer.threads
        weight, self.weight = self.weight, self.weight * UNKNOWN_TRIPS
        self.uncertain += 1
        self._enter_loop()
        self.forget(node.body)
        if isinstance(node, ast.For):
            self.assign(node.target, UNKNOWN)
        self._count_round(tally)
        self._block(node.body)
        self.frame.loops.pop()
        self.forget(node.body)
        self.uncertain -= 1
        self.weight = weight
        self._stay(outer)

    # ------------------------------------------------------------------- calls

    def call(self, node: ast.Call) -> Value:
        """Return what a call gives: of an intrinsic, a device function or a library's."""
        use = self.unit.use_of(node)
        if use is not None:
            return self.intrinsic(node, use)
        callee = self.typed.calls.get(node)
        if callee is None:
            if self.unit.callee_of(node) is None:
                return self.library_call(node)
            for each in node.args:
                self.value(each)
            return UNKNOWN
        arguments = [self.value(each) for each in node.args]
        if self.depth >= _MAX_DEPTH:
            return UNKNOWN
        inner = _Walk(callee, self.threads, self.tallies, wraps=self.wraps)
        inner.active, inner.weight, inner.uncertain = self.active, self.weight, self.uncertain
        inner.indices, inner.shared_bytes, inner.rearranges = (
            self.indices,
            self.shared_bytes,
            self.rearranges,
        )
        inner.budget, inner.depth = self.budget, self.depth + 1
        inner.called_at = self.called_at
        if is_own(callee.unit) and not is_own(self.unit):
            inner.called_at = self.unit.locate(node)
        pairs = zip(callee.unit.parameters, arguments, callee.arguments, strict=False)
        inner.names = {name: as_dtype(value, kind) for name, value, kind in pairs}
        return as_dtype(inner.run(), self.typed.type_of(node))
