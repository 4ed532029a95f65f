"""From items to the Python statements of one block.

A :class:`~targets.cpu.passes.items.Threads` item becomes a loop over the threads of the block:
private variables that earlier items left are fetched from their slots, pure ones are computed
again, the body runs, and what later items need is stored. Which loops that takes depends on where
the item is, and each place has an emitter: blocks and elements (:class:`BlockEmitter`,
:class:`ElementEmitter`), and the rows of interchanged loops in each (:class:`_BlockRowEmitter`,
:class:`_StripEmitter`).
"""

from __future__ import annotations

import ast
import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace

from kerneldsl.analysis.expressions import does_nothing, loaded_names
from kerneldsl.frontend.syntax import assign, call, load, store
from kerneldsl.frontend.trees import copy_tree
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.codegen.row_loops import (
    all_of,
    constant_length,
    element_loops,
    guarded,
    limited,
    row_loops,
    within,
)
from targets.cpu.passes.ids import BlockSpace, ElementSpace, WarpSpace
from targets.cpu.passes.interchange import STRIP, peel
from targets.cpu.passes.items import Branch, ForLoop, Item, Leave, Once, Threads, Vote, WhileLoop
from targets.cpu.passes.liveness import Variables
from targets.cpu.passes.narrowing import LoopBounds, narrow
from targets.cpu.passes.spread_arrays import SPREAD_START
from targets.cpu.passes.statements import thread_loop
from targets.cpu.passes.versions import GuardFree, without_guards

__all__ = ["BlockEmitter", "ElementEmitter", "ItemWriter"]


@dataclass(frozen=True)
class ItemWriter(ABC):
    """Writes the statements of items; subclasses write what threads run."""

    #: Where private variables come from.
    variables: Variables

    @abstractmethod
    def threads(self, item: Threads) -> list[ast.stmt]:
        """Write an item that threads run."""

    @abstractmethod
    def vote(self, item: Vote) -> list[ast.stmt]:
        """Write a barrier that combines a predicate of all threads."""

    def head(self) -> list[ast.stmt]:
        """Return what a loop that threads leave one by one begins with."""
        return []

    def items(self, items: Sequence[Item]) -> list[ast.stmt]:
        """Write a list of items; there is always a statement."""
        pure = self.variables.pure
        out: list[ast.stmt] = []
        for item in items:
            match item:
                case Threads():
                    out += self.threads(item)
                case Vote():
                    out += self.vote(item)
                case Once():
                    needed = pure.needed(loaded_names(item.statement))
                    out += [*self.definitions(needed), item.statement]
                case Branch():
                    needed = pure.needed(loaded_names(item.test))
                    orelse = self.items(item.orelse) if item.orelse else []
                    out += self.definitions(needed)
                    out.append(ast.If(item.test, self.items(item.body), orelse))
                case ForLoop():
                    needed = pure.needed(loaded_names(item.iterable))
                    out += self.definitions(needed)
                    out.append(ast.For(item.target, item.iterable, self.items(item.body), []))
                case WhileLoop():
                    test = pure.expanded(item.test)
                    out.append(ast.While(test, [*self.head(), *self.items(item.body)], []))
                case Leave():
                    out.append(item.statement)
        return out or [ast.Pass()]

    def definitions(self, names: Sequence[str]) -> list[ast.stmt]:
        """Compute pure variables again."""
        pure, once = self.variables.pure, self.variables.once
        return [pure.definition(n) for n in names if n not in once]


@dataclass(frozen=True)
class _Emitter(ItemWriter):
    """Writes the statements of items for the loops over threads, which subclasses write."""

    @property
    def loop_names(self) -> tuple[str, ...]:
        """Variables of loops that get bounds from conditions, innermost first."""
        return ()

    @abstractmethod
    def loops(self, body: list[ast.stmt], bounds: LoopBounds) -> list[ast.stmt]:
        """Wrap a thread's statements into the loops over threads."""

    @abstractmethod
    def slot_index(self, name: str) -> ast.expr:
        """Return this thread's index in the slot of a variable."""

    def vote(self, item: Vote) -> list[ast.stmt]:
        """Count threads over the block, and make the vote's result of the count."""
        predicate = item.predicate
        is_all = item.form in ("and", "all")
        if is_all:
            predicate = ast.UnaryOp(ast.Not(), predicate)
        one_or_none: ast.expr = ast.IfExp(predicate, ast.Constant(1), ast.Constant(0))
        if isinstance(predicate, ast.Constant) and predicate.value is True:
            one_or_none = ast.Constant(1)
        count = ast.AugAssign(store("kd_count"), ast.Add(), one_or_none)

        def counted(bounds: LoopBounds) -> list[ast.stmt]:
            return self.loops(self.under(bounds, self.fetches(item), [count]), bounds)

        counting = self.narrowed(list(item.guards), counted, counted)
        out: list[ast.stmt] = [assign("kd_count", ast.Constant(0)), *counting]
        result: ast.expr = load("kd_count")
        if item.form != "count":
            operator: ast.cmpop = ast.Eq() if is_all else ast.NotEq()
            result = ast.Compare(result, [operator], [ast.Constant(0)])
        if item.form in ("and", "or"):
            result = ast.IfExp(result, ast.Constant(1), ast.Constant(0))
        if item.form not in ("all", "any"):
            result = call("kd_int32", result)
        out.append(assign(item.target, result))
        return out

    # -- conditions ------------------------------------------------------------------------------

    def narrowed(
        self,
        conditions: list[ast.expr],
        write: Callable[[LoopBounds], list[ast.stmt]],
        write_without: Callable[[LoopBounds], list[ast.stmt]],
    ) -> list[ast.stmt]:
        """Write loops over threads with bounds, and without where assumptions may not hold."""
        pure = self.variables.pure
        bounds = narrow(conditions, self.loop_names, pure)
        test = all_of(bounds.assumptions)
        statements = write(bounds)
        if test is None:
            return statements
        otherwise = write_without(narrow(conditions, (), pure))
        return [ast.If(test, statements, copy_tree(otherwise))]

    def under(
        self, bounds: LoopBounds, fetches: list[ast.stmt], inner: list[ast.stmt]
    ) -> list[ast.stmt]:
        """Put the conditions that stay around a thread's statements, inside or outside the loops.

        A pure condition that no loop variable enters is tested once, outside; `bounds.rest` is left
        with those.
        """
        pure = self.variables.pure
        inside: list[ast.expr] = []
        outside: list[ast.expr] = []
        for condition in bounds.rest:
            expanded = pure.expanded(condition)
            is_outside = self.is_outside_loops(condition, expanded)
            (outside if is_outside else inside).append(expanded)
        bounds.rest = outside
        return [*fetches, *guarded(inside, inner)]

    def is_outside_loops(self, condition: ast.expr, expanded: ast.expr) -> bool:
        """Return whether a condition can be tested once for all threads."""
        is_steady = self.variables.pure.is_steady(condition)
        return is_steady and not loaded_names(expanded) & set(self.loop_names)

    # -- variables -------------------------------------------------------------------------------

    def fetches(self, item: Threads | Vote, *, saves_all: bool = False) -> list[ast.stmt]:
        """Compute pure variables before an item's body, and fetch the others from their slots.

        `saves_all` says that threads store what they have where a mask keeps them out, too.
        """
        body = [*item.body] if isinstance(item, Threads) else [ast.Expr(item.predicate)]
        names = loaded_names(body) | loaded_names(item.guards)
        out: list[ast.stmt] = []
        liveness = self.variables.liveness
        for name in sorted(liveness.loads(item) if saves_all else liveness.fetches(item)):
            slot = self.variables.slots.get(name)
            if slot is not None:
                which = slot.names[self.variables.fetched[item][name]]
                out.append(assign(name, call("kd_load", load(which), self.slot_index(name))))
        return [*self.definitions(self.variables.pure.needed(names)), *out]

    def saves(self, item: Threads) -> list[ast.stmt]:
        """Store what later items fetch."""
        slots = self.variables.slots
        return [
            ast.Expr(call("kd_store", load(which), self.slot_index(name), load(name)))
            for name in sorted(self.variables.liveness.saves(item))
            if name in slots
            for which in slots[name].names
        ]


class _OuterEmitter(_Emitter):
    """Writes items that are outside of interchanged rows."""

    @abstractmethod
    def interchanged(self, item: Threads, bounds: LoopBounds) -> list[ast.stmt]:
        """Write the loops around an item's rows."""

    def strips(self, item: Threads, lanes: int, low: ast.expr, high: ast.expr) -> list[ast.stmt]:
        """Write a row, so many threads at a time; full strips are their own code.

        A constant number of threads lets LLVM keep their values in registers.
        """
        assert item.rows is not None
        name = self.loop_names[0]
        length = constant_length(low, high)
        strip = _StripEmitter(self.variables, name, ast.Constant(lanes), self)
        if length == lanes:
            return [assign("kd_strip", low), *strip.versions(item.rows)]
        if length is not None and length % lanes == 0:
            bounds = [low, high, ast.Constant(lanes)]
            if item.is_descending:
                bounds = [_less(high, lanes), _less(low, lanes), ast.Constant(-lanes)]
            strips = call("kd_range", *bounds)
            return [ast.For(store("kd_strip"), strips, strip.versions(item.rows), [])]
        assert not item.is_descending
        full = strip.items(item.rows)
        part = replace(strip, width=load("kd_width")).items(item.rows)
        left = ast.BinOp(load("kd_high"), ast.Sub(), load("kd_strip"))
        width = call("kd_min", ast.Constant(lanes), left)
        is_full = ast.Compare(load("kd_width"), [ast.Eq()], [ast.Constant(lanes)])
        body = [assign("kd_width", width), ast.If(is_full, full, copy.deepcopy(part))]
        strips = call("kd_range", load("kd_low"), load("kd_high"), ast.Constant(lanes))
        loop = ast.For(store("kd_strip"), strips, body, [])
        return [assign("kd_low", low), assign("kd_high", high), loop]

    @abstractmethod
    def range_of(self, name: str) -> tuple[ast.expr, ast.expr]:
        """Return start and end of the loop over one variable, where nothing bounds it."""

    def limits(self, name: str, bounds: LoopBounds) -> tuple[ast.expr, ast.expr]:
        """Return start and end of the loop over one variable."""
        low, high = self.range_of(name)
        return limited(low, high, bounds.low.get(name, ()), bounds.high.get(name, ()))

    def threads(self, item: Threads) -> list[ast.stmt]:
        conditions, body = peel(item, self.variables.pure)
        if does_nothing(body):
            return []

        def plain(bounds: LoopBounds) -> list[ast.stmt]:
            inner = self.under(bounds, self.fetches(item), [*body, *self.saves(item)])
            return self.loops(inner, bounds)

        def chosen(bounds: LoopBounds) -> list[ast.stmt]:
            return plain(bounds) if item.rows is None else self.interchanged(item, bounds)

        return self.narrowed(conditions, chosen, plain)


@dataclass(frozen=True)
class BlockEmitter(_OuterEmitter):
    """Writes the statements of a block kernel: loops over z, y and x of the block."""

    #: Which loops run over threads.
    space: BlockSpace

    @property
    def loop_names(self) -> tuple[str, ...]:
        return self.space.loop_names

    def slot_index(self, name: str) -> ast.expr:
        return _block_index(self.space)

    def range_of(self, name: str) -> tuple[ast.expr, ast.expr]:
        position = self.space.thread_names.index(name)
        return ast.Constant(0), ast.Constant(self.space.extents[position])

    def loops(
        self, body: list[ast.stmt], bounds: LoopBounds, skip: frozenset[str] = frozenset()
    ) -> list[ast.stmt]:
        for name in self.loop_names:
            if name not in skip:
                low, high = self.limits(name, bounds)
                if name == "kd_tx":
                    body = row_loops(body, low, high, self.variables)
                else:
                    body = [thread_loop(name, low, high, body)]
        outside, bounds.rest = bounds.rest, []
        return guarded(outside, body)

    def interchanged(self, item: Threads, bounds: LoopBounds) -> list[ast.stmt]:
        """Write the loops over z and y, with the items of one row inside."""
        assert item.rows is not None
        rest, bounds.rest = [self.variables.pure.expanded(c) for c in bounds.rest], []
        low, high = self.limits("kd_tx", bounds)
        if item.lanes is not None:
            lanes = min(item.lanes, self.space.extents[0])
            inner = self.strips(item, lanes, low, high)
            return self.loops(guarded(rest, inner), bounds, frozenset({"kd_tx"}))
        setup: list[ast.stmt] = []
        if not isinstance(low, ast.Constant) or not isinstance(high, ast.Constant):
            setup = [assign("kd_low", low), assign("kd_high", high)]
            low, high = load("kd_low"), load("kd_high")
        inner = _BlockRowEmitter(self.variables, self.space, low, high).items(item.rows)
        return self.loops(guarded(rest, [*setup, *inner]), bounds, frozenset({"kd_tx"}))


@dataclass(frozen=True)
class _BlockRowEmitter(_Emitter):
    """Writes the items of one row of a block: a loop along x for each."""

    #: Of the block.
    space: BlockSpace
    #: Start and end of the row.
    low: ast.expr
    high: ast.expr

    def slot_index(self, name: str) -> ast.expr:
        return _block_index(self.space)

    def is_outside_loops(self, condition: ast.expr, expanded: ast.expr) -> bool:
        return False

    def loops(self, body: list[ast.stmt], bounds: LoopBounds) -> list[ast.stmt]:
        return row_loops(body, self.low, self.high, self.variables)

    def threads(self, item: Threads) -> list[ast.stmt]:
        """Write one item; where the whole row meets its guards, without them."""
        pure = self.variables.pure
        conditions, body = peel(item, pure)
        if does_nothing(body):
            return []
        bounds = narrow(conditions, ("kd_tx",), pure)
        if bounds.assumptions:
            bounds = narrow(conditions, (), pure)
        lows, highs = bounds.low.get("kd_tx", ()), bounds.high.get("kd_tx", ())
        rest = bounds.rest

        def inner(body: list[ast.stmt]) -> list[ast.stmt]:
            bounds.rest = list(rest)
            return self.under(bounds, self.fetches(item), [*body, *self.saves(item)])

        def part(body: list[ast.stmt]) -> list[ast.stmt]:
            if self.selects(item):
                under_mask = guarded(list(conditions), copy_tree(body))
                fetches = self.fetches(item, saves_all=True)
                statements = [*fetches, *under_mask, *self.saves(item)]
                return [thread_loop("kd_tx", self.low, self.high, statements)]
            low, high = limited(self.low, self.high, lows, highs)
            return row_loops(copy_tree(inner(body)), low, high, self.variables)

        def whole_or_part(body: list[ast.stmt]) -> list[ast.stmt]:
            whole = self.loops(inner(body), bounds)
            test = all_of(within(self.low, self.high, lows, highs))
            return whole if test is None else [ast.If(test, whole, part(body))]

        if item.alternative is None:
            return whole_or_part(body)
        condition, replacement = item.alternative
        return [ast.If(condition, whole_or_part(replacement), part(body))]

    def selects(self, item: Threads) -> bool:
        """Return whether a part of the row is run as the whole, under a mask.

        A warp is a vector or two; what it saves is stored in whole vectors.
        """
        saved = self.variables.liveness.saves(item) & self.variables.slots.keys()
        return (
            isinstance(self.space, WarpSpace)
            and item.is_masked
            and all(len(self.variables.slots[name].names) == 1 for name in saved)
        )


@dataclass(frozen=True)
class ElementEmitter(_OuterEmitter):
    """Writes the statements of an element kernel: a loop over the indices of a row segment."""

    #: Which loops run over threads.
    space: ElementSpace

    @property
    def loop_names(self) -> tuple[str, ...]:
        return self.space.loop_names

    def slot_index(self, name: str) -> ast.expr:
        return _lane_index()

    def range_of(self, name: str) -> tuple[ast.expr, ast.expr]:
        return load("kd_first_x"), load("kd_last_x")

    def loops(self, body: list[ast.stmt], bounds: LoopBounds) -> list[ast.stmt]:
        if SPREAD_START in loaded_names(body):
            body = [assign(SPREAD_START, load("kd_x")), *body]
        body = element_loops(body, *self.limits("kd_x", bounds), self.variables)
        outside, bounds.rest = bounds.rest, []
        return guarded(outside, body)

    def interchanged(self, item: Threads, bounds: LoopBounds) -> list[ast.stmt]:
        rest, bounds.rest = [self.variables.pure.expanded(c) for c in bounds.rest], []
        low, high = self.limits("kd_x", bounds)
        return guarded(rest, self.strips(item, item.lanes or STRIP, low, high))


@dataclass(frozen=True)
class _StripEmitter(_Emitter):
    """Writes the items of one strip of a row: a loop over lanes for each."""

    #: Variable with the index of the thread in its row.
    name: str
    #: Threads of the strip.
    width: ast.expr
    #: Writes what is outside of the strip.
    outer: _OuterEmitter
    #: Whether all guards hold of which the ends of the strip can tell.
    is_guard_free: bool = False

    def slot_index(self, name: str) -> ast.expr:
        return _lane_index() if name in self.variables.by_lane else self.outer.slot_index(name)

    def is_outside_loops(self, condition: ast.expr, expanded: ast.expr) -> bool:
        return False

    def loops(self, body: list[ast.stmt], bounds: LoopBounds) -> list[ast.stmt]:
        place = assign(self.name, ast.BinOp(load("kd_strip"), ast.Add(), load("kd_lane")))
        return [thread_loop("kd_lane", ast.Constant(0), self.width, [place, *body])]

    def head(self) -> list[ast.stmt]:
        return [ast.Expr(call("kd_keep_preheader"))] if isinstance(self.width, ast.Constant) else []

    def threads(self, item: Threads) -> list[ast.stmt]:
        conditions, body = peel(item, self.variables.pure)
        if does_nothing(body):
            return []
        guard_free = self.guard_free(item) if self.is_guard_free else None
        if guard_free is not None:
            body = guard_free.body
        bounds = narrow(conditions, (), self.variables.pure)
        return self.loops(
            self.under(bounds, self.fetches(item), [*body, *self.saves(item)]), bounds
        )

    def guard_free(self, item: Item) -> GuardFree | None:
        """Return what threads run where their guards hold, if there are any."""
        if not isinstance(item, Threads):
            return None
        _, body = peel(item, self.variables.pure)
        return without_guards(body, self.name, self.variables.pure)

    def versions(self, items: Sequence[Item]) -> list[ast.stmt]:
        """Write the items of a full strip; twice where guards hold for whole strips."""
        found = [each for each in map(self.guard_free, items) if each is not None]
        if not found or not all(isinstance(item, Threads) for item in items):
            return self.items(items)
        low = load("kd_strip")
        high = ast.BinOp(low, ast.Add(), self.width)
        tests = [test for each in found for test in each.conditions]
        for each in found:
            tests += within(low, high, each.low, each.high)
        fast = replace(self, is_guard_free=True).items(items)
        test = all_of(copy_tree(tests))
        return fast if test is None else [ast.If(test, fast, self.items(items))]


def _block_index(space: BlockSpace) -> ast.expr:
    names: list[ast.expr] = [load(n) for n in reversed(space.loop_names)]
    return names[0] if len(names) == 1 else ast.Tuple(names, ast.Load())


def _lane_index() -> ast.expr:
    return load("kd_lane")


def _less(end: ast.expr, lanes: int) -> ast.expr:
    """Return a constant end of a row that is less by so many threads."""
    assert isinstance(end, ast.Constant)
    assert isinstance(end.value, int)
    return ast.Constant(end.value - lanes)
