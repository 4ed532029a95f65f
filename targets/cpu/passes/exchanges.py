"""Split an exchange between threads into the parts before, at and after a cut.

Every barrier gets its own statement: ``if kd.syncthreads_or(p):`` becomes
``vote = kd.syncthreads_or(p)`` and ``if vote:``, so that the kernel can be cut there. Arguments of
an exchange become variables, since both sides of the cut read them.
"""

from __future__ import annotations

import ast
import copy

from kerneldsl.analysis.hoisting import CallHoister, place_at
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, load
from kerneldsl.frontend.trees import copy_tree
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.intrinsics.table import Exchange, Together, lowering_of

__all__ = [
    "ExchangeBuffer",
    "combine_name",
    "exchange_of",
    "isolate_barriers",
    "post_name",
    "with_value",
]


def combine_name(take: str) -> str:
    """Return the name of the step between the halves of an exchange."""
    return f"{take}_combine"


def post_name(take: str) -> str:
    """Return the name of the first half of an exchange with the second half `take`."""
    return f"{take}_post"


def exchange_of(node: ast.stmt, unit: FunctionUnit) -> ast.Call | None:
    """Return the call of a statement in which threads exchange values."""
    if isinstance(node, ast.Assign | ast.Expr) and isinstance(node.value, ast.Call):
        use = unit.use_of(node.value)
        if use is not None and isinstance(lowering_of(use.intrinsic), Exchange):
            return node.value
    return None


def with_value(node: ast.stmt, value: ast.expr) -> ast.stmt:
    """Return a statement of :func:`exchange_of` with another value."""
    new = copy.copy(node)
    assert isinstance(new, ast.Assign | ast.Expr)
    new.value = value
    return new


@dataclass(frozen=True)
class ExchangeBuffer:
    """The memory of a block through which its threads exchange values."""

    #: Variables of the generated code that hold as many int64 for each lane of the block's warps as
    #: a thread's values take, and one for each warp.
    values: str
    lanes: str
    #: This thread's index in its block.
    thread: ast.expr
    #: Threads of the block.
    threads: int
    #: Whether they are a warp that runs alone.
    is_warp: bool = False

    def is_window(self, exchange: Exchange, *, is_guarded: bool) -> bool:
        """Return whether an exchange is one of a whole warp, which needs no words of warps."""
        return self.is_warp and exchange.has_window and not is_guarded

    def begin(
        self, *, is_guarded: bool, posted: str | None, is_window: bool = False
    ) -> list[ast.stmt]:
        """Write the block's first steps: say who takes part. After a guard, no thread does yet.

        `posted` is the variable of :meth:`post`; it has a value where no thread takes part, too.
        """
        if is_window:
            return []
        count = ast.Constant(0 if is_guarded else self.threads)
        statements: list[ast.stmt] = [
            ast.Expr(ast.Call(load("kd_expect"), [load(self.lanes), count], []))
        ]
        if posted is not None:
            statements.append(assign(posted, ast.Call(load("kd_nothing_posted"), [], [])))
        return statements

    def post(
        self, call: ast.Call, *, is_guarded: bool, posted: str | None, is_window: bool = False
    ) -> list[ast.stmt]:
        """Return what each thread does that takes part, before any of them takes its result.

        The variable `posted` gets the types of what is exchanged, if it is to be combined.
        """
        assert isinstance(call.func, ast.Name)
        statements: list[ast.stmt] = []
        if is_guarded:
            here: list[ast.expr] = [load(self.lanes), copy_tree(self.thread)]
            statements.append(ast.Expr(ast.Call(load("kd_arrive"), here, [])))
        half = self._half(post_name(call.func.id), call, is_window=is_window)
        statements.append(ast.Expr(half) if posted is None else assign(posted, half))
        return [place_at(statement, call) for statement in statements]

    def combine(self, call: ast.Call, posted: str) -> ast.stmt:
        """Return what is done once for the block, when all threads have posted."""
        assert isinstance(call.func, ast.Name)
        room: list[ast.expr] = [load(self.values), load(self.lanes), ast.Constant(self.threads)]
        combined = ast.Call(load(combine_name(call.func.id)), [*room, load(posted)], [])
        return place_at(ast.Expr(combined), call)

    def take(self, call: ast.Call, *, is_window: bool = False, is_vote: bool = False) -> ast.Call:
        """Return what gives a thread its result."""
        assert isinstance(call.func, ast.Name)
        half = self._half(call.func.id, call, is_window=is_window)
        if is_vote:
            # What a thread gave it need not remember.
            half.args[-1] = ast.Constant(True)
        return place_at(half, call)

    def take_common(self, call: ast.Call, posted: str) -> ast.Call:
        """Return what gives the block the result that all its threads share."""
        assert isinstance(call.func, ast.Name)
        room: list[ast.expr] = [load(self.values), load(self.lanes), ast.Constant(0)]
        return place_at(ast.Call(load(call.func.id), [*room, load(posted)], []), call)

    def _half(self, name: str, call: ast.Call, *, is_window: bool) -> ast.Call:
        lanes = ast.Constant(None) if is_window else load(self.lanes)
        room: list[ast.expr] = [load(self.values), lanes, copy_tree(self.thread)]
        return ast.Call(load(name), [*room, *copy_tree(call.args)], [])


def isolate_barriers(
    tree: ast.FunctionDef, unit: FunctionUnit, names: FreshNames
) -> ast.FunctionDef:
    """Rewrite `tree` in place."""
    tree.body = _Isolation(unit, names).block(tree.body)
    return tree


class _Isolation(CallHoister):
    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        match (
            node
        ):  # already alone: `syncthreads()`, or `x = syncthreads_count(p)` of a simple name
            case (
                ast.Expr(value=ast.Call() as call)
                | ast.Assign(targets=[ast.Name()], value=ast.Call() as call)
            ) if self.wants(call):
                before: list[ast.stmt] = []
                self.arguments(call, before)
                self.name_arguments(call, before)
                return [*before, node]
        return super().statement(node)

    def wants(self, node: ast.Call) -> bool:
        use = self.unit.use_of(node)
        return use is not None and use.intrinsic.is_barrier

    def take(self, node: ast.Call, before: list[ast.stmt]) -> ast.expr:
        self.name_arguments(node, before)
        name = self.names.make("vote")
        before.append(place_at(assign(name, node), node))
        return place_at(load(name), node)

    def name_arguments(self, call: ast.Call, before: list[ast.stmt]) -> None:
        """Evaluate what an exchange or the block is given, once and in order."""
        use = self.unit.use_of(call)
        assert use is not None
        if isinstance(lowering_of(use.intrinsic), Exchange | Together):
            call.args = [
                arg if isinstance(arg, ast.Name | ast.Constant) else self.save(arg, before)
                for arg in call.args
            ]
