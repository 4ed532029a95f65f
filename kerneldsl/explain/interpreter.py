"""Interpret a kernel's regions for many threads at once.

The lanes that execute an operation are known by a mask, as on a device. A branch is run once for
each side that some lane takes, a loop until no lane is left. If data decides, both sides are run
for all lanes, so that what is counted is a bound. A loop with a length from data makes
`UNKNOWN_TRIPS` rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kerneldsl.analysis.work import UNKNOWN_TRIPS
from kerneldsl.explain.lane_memory import ActiveLanes, LaneMemory
from kerneldsl.explain.operations import EVALUATED, call_of_language
from kerneldsl.explain.sites import site_of
from kerneldsl.explain.tally import BranchTally, Tallies
from kerneldsl.explain.threads import Threads
from kerneldsl.explain.values import UNKNOWN, Maybe, Value, View, as_dtype, choose, possible
from kerneldsl.ir.frontend.written import kind_of
from kerneldsl.ir.operations import Function, Label, Operation, Region, given_to
from kerneldsl.ir.recognize import both_of

__all__ = ["MAX_ROUNDS", "Interpreter"]

#: Most iterations of nested loops that are run; some iterations represent all of longer loops.
MAX_ROUNDS = 1024
_MIN_ROUNDS = 4
_TRIVIAL = ("cast", "undefined", "yield")


class _End(NamedTuple):
    """Values with which some lanes leave an operation; `None` for lanes where data decides."""

    lanes: NDArray[np.bool_] | None
    results: list[Value]


class Interpreter(LaneMemory):
    """A run of a kernel, with the lanes that have left operations."""

    def __init__(self, threads: Threads, *, wraps: bool, rounds: int) -> None:
        super().__init__(threads, wraps=wraps)
        #: Rounds of nested loops that are run.
        self.budget = rounds
        #: Lanes that have left a ``labeled`` operation around.
        self._gone = np.zeros(threads.lane_count, bool)
        self._ends: dict[Label, list[_End]] = {}

    def interpret(self, function: Function, arguments: Sequence[Value]) -> Tallies:
        """Run a kernel with some arguments: numbers, views, or `UNKNOWN`."""
        self.values.update(zip(function.body.arguments, arguments, strict=True))
        self.run(function.body)
        self.tallies.settle()
        return self.tallies

    def run(self, region: Region) -> list[Value] | None:
        for operation in region.operations:
            if not self.active:
                return None
            if operation.name == "yield":
                return list(map(self.get, operation.operands))
            control = _CONTROL.get(operation.name)
            if control is not None:
                control(self, operation)
            else:
                found = EVALUATED.get(operation.name, call_of_language)(self, operation)
                if operation.results:
                    self.values[operation.result] = found
        return None

    def _go_on(self, outer: ActiveLanes) -> None:
        """Let the lanes go on together that have not left."""
        left = outer.mask & ~self._gone
        is_same = np.array_equal(left, outer.mask)
        self.active = outer if is_same else ActiveLanes(left, self.threads)

    def _merged(self, old: Value, new: Value) -> Value:
        """Return the new value for the lanes at work, the old one for others."""
        if old is None or self.active.mask.all() or isinstance(old, View) or isinstance(new, View):
            return new
        mask = self.active.mask | ~self.threads.exists
        return new if mask.all() else choose(mask, new, old)

    # ---------------------------------------------------------------- branches

    def begin_statement(self, operation: Operation) -> None:
        """Count a statement."""
        self.statement = operation
        self.tallies.lanes += self.weight * self.active.threads
        self.tallies.slots += self.weight * self.active.warps * 32

    def branch(self, operation: Operation) -> None:
        """Run the sides of a branch that lanes take."""
        condition = self.get(operation.operands[0])
        holds, is_data = possible(condition)
        outer = self.active
        taken = ActiveLanes(outer.mask & holds, self.threads)
        others = ActiveLanes(outer.mask & (True if is_data else ~np.asarray(holds)), self.threads)
        if operation.source.is_control:
            self._count_branch(operation, outer, taken, others, is_data=is_data)
        self.uncertain += is_data
        found = []
        for region, lanes in zip(operation.regions, (taken, others), strict=True):
            self.active = lanes
            found.append(self.run(region) if lanes else None)
        self.uncertain -= is_data
        self._go_on(outer)
        for number, result in enumerate(operation.results):
            yes, no = (None if each is None else each[number] for each in found)
            if both_of(result) is not None:
                value = _joined(np.logical_and, condition, yes)
            elif both_of(result, truth=False) is not None:
                value = _joined(np.logical_or, condition, no)
            else:
                value = _chosen(holds, yes, no, is_data=is_data)
            self.values[result] = UNKNOWN if value is None else value

    def _count_branch(
        self,
        operation: Operation,
        outer: ActiveLanes,
        taken: ActiveLanes,
        others: ActiveLanes,
        *,
        is_data: bool,
    ) -> None:
        tally = self._tally(operation, is_loop=False)
        tally.depends_on_data |= is_data
        tally.warps += self.weight * outer.warps
        tally.entered += self.weight * outer.threads
        tally.taken += self.weight * taken.threads
        if is_data:
            return
        tally.divergent += self.weight * (taken.warps + others.warps - outer.warps)
        has_other = any(each.name not in _TRIVIAL for each in operation.regions[1].operations)
        walked = taken.warps + (others.warps if has_other else 0.0)
        tally.slots += self.weight * 32 * walked
        tally.lanes += self.weight * (taken.threads + (others.threads if has_other else 0.0))

    def _tally(self, operation: Operation, *, is_loop: bool) -> BranchTally:
        site = site_of(operation)
        return self.tallies.branches.setdefault(site.node, BranchTally(site, is_loop))

    def labeled(self, operation: Operation) -> None:
        """Run what lanes may leave before its end."""
        outer = self.active
        ends = self._ends[operation.attributes["label"]] = []
        found = self.run(operation.regions[0])
        for lanes, _ in ends:
            if lanes is not None:
                self._gone &= ~lanes
        self._go_on(outer)
        for number, result in enumerate(operation.results):
            value = None if found is None else found[number]
            for lanes, results in ends:
                value = _chosen(lanes, results[number], value, is_data=lanes is None)
            self.values[result] = UNKNOWN if value is None else value

    def leave(self, operation: Operation) -> None:
        """Let lanes leave; where data decides which, all go on."""
        results = list(map(self.get, operation.operands))
        lanes = None if self.uncertain else self.active.mask.copy()
        self._ends[operation.attributes["label"]].append(_End(lanes, results))
        if lanes is not None:
            self._gone |= lanes
            self.active = ActiveLanes(lanes & False, self.threads)

    # ------------------------------------------------------------------- loops

    def count(self, operation: Operation) -> None:
        """Run a loop over a range."""
        bounds = [self.get(each) for each in operation.operands[:3]]
        if any(not isinstance(each, int | np.integer | np.ndarray) for each in bounds):
            self._unknown_loop(operation, operation.regions[0])
            return
        start, stop, step = (np.asarray(each, np.int64) for each in bounds)
        step = np.where(step == 0, 1, step)
        trips = np.maximum(0, -((start - stop) // step))
        kind = kind_of(operation.regions[0].arguments[0])
        self._rounds(operation, trips, lambda number: [as_dtype(start + number * step, kind)])

    def each(self, operation: Operation) -> None:
        """Run a loop over values that are known by their number."""
        numbers = operation.attributes.get("values")
        if numbers is not None:
            self._rounds(operation, np.asarray(len(numbers)), lambda number: [numbers[number]])
            return
        count, width = operation.attributes["count"], operation.attributes["width"]
        parts = list(map(self.get, operation.operands[: count * width]))
        self._rounds(
            operation,
            np.asarray(count),
            lambda number: parts[number * width : (number + 1) * width],
        )

    def _rounds(
        self, operation: Operation, trips: NDArray[Any], items: Callable[[int], list[Value]]
    ) -> None:
        (body,) = operation.regions
        outer, budget, weight = self.active, self.budget, self.weight
        mine = np.broadcast_to(trips, outer.mask.shape)[outer.mask]
        most = int(mine.max(initial=0))
        rounds = self._chosen_rounds(most)
        self.tallies.is_sampled |= len(rounds) < most
        self.budget = max(_MIN_ROUNDS, budget // max(1, len(rounds)))
        self.weight = weight * most / max(1, len(rounds))
        tally = self._tally(operation, is_loop=True)
        tally.entered += weight * outer.threads
        carried = list(map(self.get, given_to(operation)))
        for number in rounds:
            mask = outer.mask & (number < trips) & ~self._gone
            self.active = ActiveLanes(mask, self.threads)
            if not self.active:
                break
            self._count_round(tally)
            self._bind(body, [*items(number), *carried])
            carried = self._after_round(body, carried)
        self.budget, self.weight = budget, weight
        self._go_on(outer)
        self.values.update(zip(operation.results, carried, strict=True))

    def _bind(self, region: Region, values: Sequence[Value]) -> None:
        self.values.update(zip(region.arguments, values, strict=True))

    def _after_round(self, body: Region, carried: list[Value]) -> list[Value]:
        """Run the body of a loop; return what the next round starts with."""
        found = self.run(body)
        if found is None:
            return carried
        return [self._merged(*pair) for pair in zip(carried, found, strict=True)]

    def _chosen_rounds(self, most: int) -> list[int]:
        """Return the rounds that are run: all, or one drawn from each of as many parts."""
        if most <= self.budget:
            return list(range(most))
        edges = np.linspace(0, most, self.budget + 1).astype(np.int64)
        return [int(n) for n in self.random.integers(edges[:-1], edges[1:])]

    def _count_round(self, tally: BranchTally) -> None:
        tally.warps += self.weight * self.active.warps
        tally.lanes += self.weight * self.active.threads
        tally.slots += self.weight * self.active.warps * 32

    def repeat(self, operation: Operation) -> None:
        """Run a loop while its condition holds."""
        before, body = operation.regions
        outer, budget = self.active, self.budget
        self.budget = max(_MIN_ROUNDS, budget // 16)
        tally = self._tally(operation, is_loop=True)
        tally.entered += self.weight * outer.threads
        carried = list(map(self.get, operation.operands))
        inside, walked = outer.mask, 0
        while True:
            self.active = ActiveLanes(inside & ~self._gone, self.threads)
            if not self.active:
                break
            self._bind(before, carried)
            (condition,) = self.run(before) or [UNKNOWN]
            holds, is_data = possible(condition)
            inside = inside & ~self._gone & holds
            self.active = ActiveLanes(inside, self.threads)
            if is_data or walked >= MAX_ROUNDS:
                self.budget = budget
                self._unknown_loop(operation, body, outer)
                return
            if not self.active:
                break
            self._count_round(tally)
            self._bind(body, carried)
            carried = self._after_round(body, carried)
            walked += 1
        self.budget = budget
        self._go_on(outer)
        self.values.update(zip(operation.results, carried, strict=True))

    def _unknown_loop(
        self, operation: Operation, body: Region, outer: ActiveLanes | None = None
    ) -> None:
        """Run a loop with a length from data once, for all its rounds."""
        tally = self._tally(operation, is_loop=True)
        tally.depends_on_data = True
        if outer is None:
            outer = self.active
            tally.entered += self.weight * outer.threads
        weight, self.weight = self.weight, self.weight * UNKNOWN_TRIPS
        self.uncertain += 1
        self._count_round(tally)
        self._bind(body, [UNKNOWN] * len(body.arguments))
        self.run(body)
        self.uncertain -= 1
        self.weight = weight
        self._go_on(outer)
        self.values.update(dict.fromkeys(operation.results, UNKNOWN))


_CONTROL: dict[str, Callable[[Interpreter, Operation], None]] = {
    "for": Interpreter.count,
    "for_each": Interpreter.each,
    "if": Interpreter.branch,
    "labeled": Interpreter.labeled,
    "leave": Interpreter.leave,
    "statement": Interpreter.begin_statement,
    "while": Interpreter.repeat,
}


def _chosen(holds: Any, yes: Value, no: Value, *, is_data: bool) -> Value:
    """Return what a branch gives of what its sides do; ``None`` is what no lane gets."""
    if yes is None or no is None or yes is no:
        return no if yes is None else yes
    return UNKNOWN if is_data else choose(holds, yes, no)


def _joined(join: np.ufunc, left: Value, right: Value | None) -> Value:
    """Return ``left and right`` or ``left or right``; no lane looks at a right that is ``None``."""
    right = left if right is None else right
    (one, is_data_left), (two, is_data_right) = possible(left), possible(right)
    found = join(one, two)
    is_surely_false = join is np.logical_and and not np.any(found)
    return Maybe(found) if (is_data_left or is_data_right) and not is_surely_false else found
