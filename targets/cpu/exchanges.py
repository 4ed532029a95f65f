"""Take an exchange between the lanes of a warp apart into what stands before and after a cut."""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass

from kerneldsl.analysis.hoisting import place_at
from kerneldsl.frontend.syntax import load

__all__ = ["Room", "post_name"]


def post_name(take: str) -> str:
    """Return the name of the first half of an exchange whose second half is `take`."""
    return f"{take}_post"


@dataclass(frozen=True)
class Room:
    """The memory of a block through which its warps exchange values."""

    #: Variables of the generated code that hold an int64 for each thread, and one for each warp.
    values: str
    lanes: str
    #: This thread's index in its block.
    thread: ast.expr
    #: Threads of the block.
    threads: int

    def begin(self, *, is_guarded: bool) -> ast.stmt:
        """Write the block's first step: say who takes part. Behind a guard, no thread does yet."""
        count = ast.Constant(0 if is_guarded else self.threads)
        return ast.Expr(ast.Call(load("kd_expect"), [load(self.lanes), count], []))

    def post(self, call: ast.Call, *, is_guarded: bool) -> list[ast.stmt]:
        """Return what each thread does that takes part, before any of them takes its result."""
        assert isinstance(call.func, ast.Name)
        statements: list[ast.stmt] = []
        if is_guarded:
            here: list[ast.expr] = [load(self.lanes), copy.deepcopy(self.thread)]
            statements.append(ast.Expr(ast.Call(load("kd_arrive"), here, [])))
        statements.append(ast.Expr(self._half(post_name(call.func.id), call)))
        return [place_at(statement, call) for statement in statements]

    def take(self, call: ast.Call) -> ast.Call:
        """Return what gives a thread its result."""
        assert isinstance(call.func, ast.Name)
        return place_at(self._half(call.func.id, call), call)

    def _half(self, name: str, call: ast.Call) -> ast.Call:
        room: list[ast.expr] = [load(self.values), load(self.lanes), copy.deepcopy(self.thread)]
        return ast.Call(load(name), [*room, *copy.deepcopy(call.args)], [])
