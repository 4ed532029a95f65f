"""From items to the Python statements of one block.

A :class:`~targets.cpu.items.Threads` item becomes a loop over the threads of the block: private
variables that earlier items left are fetched from their slots, pure ones are computed anew, the
body runs, and what later items need is stored.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kerneldsl.analysis.expressions import loaded_names
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.lowering.trees import copy_tree
from targets.cpu.ids import BlockSpace, ElementSpace, Space
from targets.cpu.interchange import peel
from targets.cpu.items import Branch, ForLoop, Item, Leave, Once, Threads, Vote, WhileLoop
from targets.cpu.liveness import Liveness
from targets.cpu.narrowing import Bounds, narrow
from targets.cpu.purity import PureValues
from targets.cpu.versions import without_guards

__all__ = [
    "BUILTINS",
    "STRIP",
    "Emitter",
    "Probe",
    "Slot",
    "once_definitions",
    "render_for_typing",
]

#: What generated code calls Python's own functions, whose names a program may use for its own.
BUILTINS: Mapping[str, Any] = {"kd_max": max, "kd_min": min, "kd_range": range}

#: Threads of an element kernel that run one step of an interchanged loop together.
STRIP = 64


@dataclass(frozen=True)
class Slot:
    """Where a private variable is kept, for each type it has at the items that fetch it.

    Parameters
    ----------
    names : tuple of str
        Variables of the generated code, one for each type.
    makers : tuple of str
        Operations that make them.
    """

    names: tuple[str, ...]
    makers: tuple[str, ...]


class Probe(NamedTuple):
    """Where Numba is asked for the types that variables have when an item begins.

    Parameters
    ----------
    variable : str
        A variable of the generated code that is assigned a tuple of them.
    names : list of str
        The variables, in order.
    """

    variable: str
    names: list[str]


@dataclass
class Emitter:
    """Writes the statements of one block.

    Parameters
    ----------
    space : ElementSpace or BlockSpace
        Which loops run over threads.
    pure : PureValues
        Variables that are computed anew.
    liveness : Liveness
        Of the items, those along rows included.
    slots : mapping
        Variable to slot.
    fetched : mapping
        For each item, the type index of each variable it fetches.
    once : frozenset of str
        Pure variables that are computed before the items, once for a unit of work.
    """

    space: Space
    pure: PureValues
    liveness: Liveness
    slots: Mapping[str, Slot]
    fetched: Mapping[Item, Mapping[str, int]]
    once: frozenset[str]
    _rows: bool = field(default=False, init=False)
    _row_limits: tuple[ast.expr, ast.expr] = field(
        default_factory=lambda: (ast.Constant(0), ast.Constant(0)), init=False
    )
    _width: ast.expr = field(default_factory=lambda: ast.Constant(STRIP), init=False)

    # -- items -----------------------------------------------------------------------------------

    def items(self, items: Sequence[Item]) -> list[ast.stmt]:
        """The statements of a list of items; never empty."""
        out: list[ast.stmt] = []
        for item in items:
            match item:
                case Threads():
                    out += self.threads(item)
                case Vote():
                    out += self.vote(item)
                case Once():
                    needed = self.pure.needed(loaded_names(item.statement))
                    out += [*self.definitions(needed), item.statement]
                case Branch():
                    needed = self.pure.needed(loaded_names(item.test))
                    orelse = self.items(item.orelse) if item.orelse else []
                    out += self.definitions(needed)
                    out.append(ast.If(item.test, self.items(item.body), orelse))
                case ForLoop():
                    needed = self.pure.needed(loaded_names(item.iterable))
                    out += self.definitions(needed)
                    out.append(ast.For(item.target, item.iterable, self.items(item.body), []))
                case WhileLoop():
                    test = self.pure.expanded(item.test)
                    out.append(ast.While(test, self.items(item.body), []))
                case Leave():
                    out.append(item.statement)
        return out or [ast.Pass()]

    def definitions(self, names: Sequence[str]) -> list[ast.stmt]:
        """Compute pure variables anew."""
        return [_definition(self.pure, n) for n in names if n not in self.once]

    # -- loops over threads ----------------------------------------------------------------------

    def threads(self, item: Threads) -> list[ast.stmt]:
        conditions, body = peel(item, self.pure)
        if not body or all(isinstance(node, ast.Pass) for node in body):
            return []
        if self._rows and isinstance(self.space, BlockSpace):
            return self.row_of_block(item, conditions, body)

        def plain(bounds: Bounds) -> list[ast.stmt]:
            inner = self.under(bounds, self.fetches(item), [*body, *self.saves(item)])
            return self.loops(inner, bounds)

        def chosen(bounds: Bounds) -> list[ast.stmt]:
            return plain(bounds) if item.rows is None else self.interchanged(item.rows, bounds)

        return self.narrowed(conditions, chosen, plain)

    def narrowed(
        self,
        conditions: list[ast.expr],
        write: Callable[[Bounds], list[ast.stmt]],
        write_without: Callable[[Bounds], list[ast.stmt]],
    ) -> list[ast.stmt]:
        """Write loops over threads with bounds, and without where assumptions may not hold."""
        bounds = narrow(conditions, self.loop_names(), self.pure)
        test = self.all_of(bounds.assumptions)
        statements = write(bounds)
        if test is None:
            return statements
        otherwise = write_without(narrow(conditions, (), self.pure))
        return [ast.If(test, statements, copy_tree(otherwise))]

    def interchanged(self, rows: list[Item], bounds: Bounds) -> list[ast.stmt]:
        """The loops over z and y, with the items of one row inside."""
        rest, bounds.rest = [self.pure.expanded(c) for c in bounds.rest], []
        if isinstance(self.space, ElementSpace):
            return self.guarded(rest, self.strips(rows, bounds))
        low, high = self.limits("kd_tx", bounds)
        setup: list[ast.stmt] = []
        if not isinstance(low, ast.Constant) or not isinstance(high, ast.Constant):
            setup = [_assign("kd_low", low), _assign("kd_high", high)]
            low, high = _load("kd_low"), _load("kd_high")
        self._rows, self._row_limits = True, (low, high)
        inner = self.items(rows)
        self._rows = False
        return self.loops(self.guarded(rest, [*setup, *inner]), bounds, skip={"kd_tx"})

    def strips(self, rows: list[Item], bounds: Bounds) -> list[ast.stmt]:
        """An element kernel's row, :data:`STRIP` threads at a time; full strips are their own code.

        A constant number of threads lets LLVM keep their values in registers.
        """
        low, high = self.limits("kd_x", bounds)
        self._rows = True
        self._width = ast.Constant(STRIP)
        full = self.items(rows)
        self._width = _load("kd_width")
        part = self.items(rows)
        self._rows = False
        width = _call("kd_min", ast.Constant(STRIP), _sub(_load("kd_high"), _load("kd_strip")))
        is_full = ast.Compare(_load("kd_width"), [ast.Eq()], [ast.Constant(STRIP)])
        body = [_assign("kd_width", width), ast.If(is_full, full, copy.deepcopy(part))]
        loop = ast.For(
            _store("kd_strip"),
            _call("kd_range", _load("kd_low"), _load("kd_high"), ast.Constant(STRIP)),
            body,
            [],
        )
        return [_assign("kd_low", low), _assign("kd_high", high), loop]

    def loop_names(self) -> tuple[str, ...]:
        """Variables that loops over threads run over, innermost first; none within a row."""
        return () if self._rows else self.space.loop_names

    def limits(self, name: str, bounds: Bounds) -> tuple[ast.expr, ast.expr]:
        """Start and end of the loop over one variable."""
        if isinstance(self.space, BlockSpace):
            position = self.space.thread_names.index(name)
            low: ast.expr = ast.Constant(0)
            high: ast.expr = ast.Constant(self.space.block_dim[position])
        else:
            low, high = _load("kd_first_x"), _load("kd_last_x")
        for limit in bounds.low.get(name, ()):
            low = _extreme("kd_max", low, limit)
        for limit in bounds.high.get(name, ()):
            high = _extreme("kd_min", high, limit)
        return low, high

    def loops(
        self, body: list[ast.stmt], bounds: Bounds, skip: frozenset[str] | set[str] = frozenset()
    ) -> list[ast.stmt]:
        """Wrap a thread's statements into the loops over threads."""
        if self._rows:
            return [self.row_loop(body)]
        for name in self.loop_names():
            if name not in skip:
                low, high = self.limits(name, bounds)
                if name == "kd_tx":
                    body = self.versions(body, low, high)
                else:
                    body = [_thread_loop(name, low, high, body)]
        outside, bounds.rest = bounds.rest, []
        return self.guarded(outside, body)

    def versions(self, body: list[ast.stmt], low: ast.expr, high: ast.expr) -> list[ast.stmt]:
        """The loop along x of a block; twice where guards hold for whole rows."""
        guard_free = without_guards(body, "kd_tx", self.pure)
        if guard_free is None:
            return [_thread_loop("kd_tx", low, high, body)]
        tests: list[ast.expr] = list(guard_free.conditions)
        for limit in guard_free.low:
            tests.append(ast.Compare(limit, [ast.LtE()], [low]))
        for limit in guard_free.high:
            tests.append(ast.Compare(high, [ast.LtE()], [limit]))
        fast = [_thread_loop("kd_tx", low, high, guard_free.body)]
        careful = [_thread_loop("kd_tx", copy_tree(low), copy_tree(high), body)]
        test = self.all_of(tests)
        return fast if test is None else [ast.If(test, fast, careful)]

    def row_of_block(
        self, item: Threads, conditions: list[ast.expr], body: list[ast.stmt]
    ) -> list[ast.stmt]:
        """One item of an interchanged row; where the whole row meets its guards, without them."""
        bounds = narrow(conditions, ("kd_tx",), self.pure)
        if bounds.assumptions:
            bounds = narrow(conditions, (), self.pure)
        low, high = self._row_limits
        lows, highs = bounds.low.get("kd_tx", []), bounds.high.get("kd_tx", [])
        inner = self.under(bounds, self.fetches(item), [*body, *self.saves(item)])
        tests: list[ast.expr] = [ast.Compare(limit, [ast.LtE()], [low]) for limit in lows]
        tests += [ast.Compare(high, [ast.LtE()], [limit]) for limit in highs]
        whole = self.row_loop(inner)
        test = self.all_of(tests)
        if test is None:
            return [whole]
        for limit in lows:
            low = _extreme("kd_max", low, limit)
        for limit in highs:
            high = _extreme("kd_min", high, limit)
        part = _thread_loop("kd_tx", low, high, copy_tree(inner))
        return [ast.If(test, [whole], [part])]

    def row_loop(self, body: list[ast.stmt]) -> ast.stmt:
        """The loop along x of one item of an interchanged row."""
        if isinstance(self.space, BlockSpace):
            return _thread_loop("kd_tx", *self._row_limits, body)
        place = _assign("kd_x", ast.BinOp(_load("kd_strip"), ast.Add(), _load("kd_lane")))
        return _thread_loop("kd_lane", ast.Constant(0), self._width, [place, *body])

    def under(
        self, bounds: Bounds, fetches: list[ast.stmt], inner: list[ast.stmt]
    ) -> list[ast.stmt]:
        """Put the conditions that stay around a thread's statements, inside or outside the loops.

        A pure condition that no loop variable enters is tested once, outside; `bounds.rest` is left
        with those.
        """
        names = set(self.loop_names())
        inside: list[ast.expr] = []
        outside: list[ast.expr] = []
        for condition in bounds.rest:
            depends = loaded_names(self.pure.expanded(condition)) & names
            is_outside = self.pure.is_steady(condition) and not depends and not self._rows
            (outside if is_outside else inside).append(self.pure.expanded(condition))
        bounds.rest = outside
        return [*fetches, *self.guarded(inside, inner)]

    def guarded(self, conditions: list[ast.expr], body: list[ast.stmt]) -> list[ast.stmt]:
        """Wrap statements into one ``if``."""
        test = self.all_of(conditions)
        return body if test is None else [ast.If(test, body, [])]

    @staticmethod
    def all_of(conditions: list[ast.expr]) -> ast.expr | None:
        """One test for several, or ``None`` where there is nothing to test."""
        if len(conditions) > 1:
            return ast.BoolOp(ast.And(), conditions)
        return conditions[0] if conditions else None

    def vote(self, item: Vote) -> list[ast.stmt]:
        """Count threads over the block, and make the vote's result of the count."""
        predicate = item.predicate
        if item.form == "and":
            predicate = ast.UnaryOp(ast.Not(), predicate)
        one_or_none = ast.IfExp(predicate, ast.Constant(1), ast.Constant(0))
        if isinstance(predicate, ast.Constant) and predicate.value is True:
            one_or_none = ast.Constant(1)  # type: ignore[assignment]
        count = ast.AugAssign(_store("kd_count"), ast.Add(), one_or_none)

        def loops(bounds: Bounds) -> list[ast.stmt]:
            return self.loops(self.under(bounds, self.fetches(item), [count]), bounds)

        counting = self.narrowed(list(item.guards), loops, loops)
        out: list[ast.stmt] = [_assign("kd_count", ast.Constant(0)), *counting]
        result: ast.expr = _load("kd_count")
        if item.form != "count":
            operator: ast.cmpop = ast.Eq() if item.form == "and" else ast.NotEq()
            is_met = ast.Compare(result, [operator], [ast.Constant(0)])
            result = ast.IfExp(is_met, ast.Constant(1), ast.Constant(0))
        out.append(_assign(item.target, _call("kd_int32", result)))
        return out

    # -- variables -------------------------------------------------------------------------------

    def fetches(self, item: Threads | Vote) -> list[ast.stmt]:
        """What a thread does before an item's body: compute pure variables, fetch the others."""
        body = [*item.body] if isinstance(item, Threads) else [ast.Expr(item.predicate)]
        names = loaded_names(body) | loaded_names(item.guards)
        out: list[ast.stmt] = []
        for name in sorted(self.liveness.loads(item)):
            slot = self.slots.get(name)
            if slot is not None:
                which = slot.names[self.fetched[item][name]]
                out.append(_assign(name, _call("kd_load", _load(which), self.slot_index())))
        return [*self.definitions(self.pure.needed(names)), *out]

    def saves(self, item: Threads) -> list[ast.stmt]:
        """Store what later items fetch."""
        return [
            ast.Expr(_call("kd_store", _load(which), self.slot_index(), _load(name)))
            for name in sorted(self.liveness.saves(item))
            if name in self.slots
            for which in self.slots[name].names
        ]

    def slot_index(self) -> ast.expr:
        """This thread's place in a slot."""
        if isinstance(self.space, BlockSpace):
            names = reversed(self.space.thread_names)
            return ast.Tuple([_load(n) for n in names], ast.Load())
        return ast.Tuple([_load("kd_lane")], ast.Load())


def once_definitions(pure: PureValues, names: Sequence[str]) -> list[ast.stmt]:
    """Compute pure variables that are the same for a whole unit of work."""
    return [_definition(pure, name) for name in names]


def render_for_typing(
    items: Sequence[Item],
    pure: PureValues,
    liveness: Liveness,
    names: FreshNames,
    probes: dict[Item, Probe],
) -> list[ast.stmt]:
    """The items as one thread runs them, with probes for the types of what is fetched.

    Each probe is ``types = (x, y, …)`` at the place where an item begins; Numba's type of that
    variable tells the types at that place. `probes` is filled.
    """
    out: list[ast.stmt] = []

    def render(inner: Sequence[Item]) -> list[ast.stmt]:
        return render_for_typing(inner, pure, liveness, names, probes)

    def ask(item: Threads | Vote) -> None:
        fetched = sorted(liveness.loads(item))
        if fetched:
            probe = probes[item] = Probe(names.make("types"), fetched)
            values = ast.Tuple([_load(n) for n in fetched], ast.Load())
            out.append(_assign(probe.variable, values))

    for item in items:
        if isinstance(item, Threads | Vote):
            ask(item)
        match item:
            case Threads(rows=list() as rows):
                conditions, _ = peel(item, pure)
                needed = pure.needed(set().union(*map(loaded_names, conditions), set()))
                inner = render(rows)
                for condition in reversed(conditions):
                    inner = [ast.If(condition, inner, [])]
                out += [_definition(pure, n) for n in needed] + inner
            case Threads() | Vote():
                body: list[ast.stmt] = (
                    item.body if isinstance(item, Threads) else [ast.Expr(item.predicate)]
                )
                out += [
                    _definition(pure, n)
                    for n in pure.needed(loaded_names(body) | loaded_names(item.guards))
                ]
                for guard in reversed(item.guards):
                    body = [ast.If(guard, body, [])]
                out += body
                if isinstance(item, Vote):
                    out.append(_assign(item.target, _call("kd_int32", ast.Constant(1))))
            case Once():
                needed = pure.needed(loaded_names(item.statement))
                out += [*(_definition(pure, n) for n in needed), item.statement]
            case Branch():
                body = render(item.body)
                orelse = render(item.orelse)
                test = pure.expanded(item.test)
                out.append(ast.If(test, body or [ast.Pass()], orelse))
            case ForLoop():
                body = render(item.body)
                iterable = pure.expanded(item.iterable)
                out.append(ast.For(item.target, iterable, body or [ast.Pass()], []))
            case WhileLoop():
                body = render(item.body)
                test = pure.expanded(item.test)
                out.append(ast.While(test, body or [ast.Pass()], []))
            case Leave():
                out.append(item.statement)
    return out


def _definition(pure: PureValues, name: str) -> ast.stmt:
    return _assign(name, copy.deepcopy(pure.definitions[name]))


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _store(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


def _assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([_store(name)], value)


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(_load(name), list(arguments), [])


def _thread_loop(name: str, low: ast.expr, high: ast.expr, body: list[ast.stmt]) -> ast.stmt:
    """A loop over threads; a short one of constant length is kept for the vectorizer."""
    start = [] if isinstance(low, ast.Constant) and low.value == 0 else [low]
    if isinstance(high, ast.Constant) and not start and name in ("kd_tx", "kd_lane"):
        body = [*body, ast.Expr(_call("kd_keep_loop"))]
    return ast.For(_store(name), _call("kd_range", *start, high), body, [])


def _extreme(name: str, a: ast.expr, b: ast.expr) -> ast.expr:
    """``kd_min`` or ``kd_max`` of two, of constants at once."""
    if (
        isinstance(a, ast.Constant)
        and isinstance(b, ast.Constant)
        and isinstance(a.value, int)
        and isinstance(b.value, int)
    ):
        return ast.Constant(BUILTINS[name](a.value, b.value))
    return _call(name, a, b)


def _sub(left: ast.expr, right: ast.expr) -> ast.BinOp:
    return ast.BinOp(left, ast.Sub(), right)
