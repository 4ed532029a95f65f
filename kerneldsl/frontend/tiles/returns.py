"""Turn ``return`` into structured control flow, for a body that becomes part of another."""

from __future__ import annotations

import ast

from kerneldsl.frontend.syntax import assign, load
from kerneldsl.frontend.tiles.hoisting import place_at
from kerneldsl.frontend.trees import walk_here

__all__ = ["contains_return", "lower_returns"]


def lower_returns(
    body: list[ast.stmt], *, result: str | None, flag: str, always_flag: bool = False
) -> list[ast.stmt]:
    """Return the body without ``return`` statements.

    The body is changed in place if it can be. The variable `result` takes the returned value,
    and `flag`, which says that the function is over, is set to False first if it is needed. With
    `always_flag` it is set at every return, and setting it to False is left to the caller, who
    wants to know afterwards which way was taken.
    """
    if not body:
        return []
    lowering = _ReturnLowering(result, flag)
    lowered = lowering.block(body, in_loop=False, flagged=always_flag)
    if lowering.uses_flag and not always_flag:
        lowered = [lowering.set_done(False, body[0]), *lowered]
    return lowered


class _ReturnLowering:
    """Turns ``return`` into an assignment and structured control flow.

    What follows an ``if`` that may return moves into its other branch, so that no flag is needed
    unless a ``return`` is in a loop or in one of two branches that both may go on.
    """

    def __init__(self, result: str | None, done: str) -> None:
        self.result = result
        self.done = done
        self.uses_flag = False

    def set_done(self, value: bool, place: ast.AST) -> ast.stmt:
        return place_at(assign(self.done, ast.Constant(value)), place)

    def block(
        self, statements: list[ast.stmt], *, in_loop: bool, flagged: bool = False
    ) -> list[ast.stmt]:
        """Lower a list; `flagged` says that what follows it asks whether the function is over."""
        done: list[ast.stmt] = []
        for index, node in enumerate(statements):
            rest = statements[index + 1 :]
            if isinstance(node, ast.Return):
                return [*done, *self.leave(node, in_loop=in_loop, flagged=flagged)]
            if not contains_return(node):
                done.append(node)
                continue
            if isinstance(node, ast.If) and not in_loop and _always_returns(node.body):
                node.body = self.block(node.body, in_loop=False, flagged=flagged)
                node.orelse = self.block([*node.orelse, *rest], in_loop=False, flagged=flagged)
                return [*done, node]
            if isinstance(node, ast.If) and not in_loop and _always_returns(node.orelse):
                node.orelse = self.block(node.orelse, in_loop=False, flagged=flagged)
                node.body = self.block([*node.body, *rest], in_loop=False, flagged=flagged)
                return [*done, node]
            # The general case: remember that the function is over, and skip what follows.
            self.uses_flag = True
            flag = load(self.done)
            is_loop = isinstance(node, ast.For | ast.While)
            assert isinstance(node, ast.If | ast.For | ast.While)
            node.body = self.block(node.body, in_loop=in_loop or is_loop, flagged=True)
            if isinstance(node, ast.If):
                node.orelse = self.block(node.orelse, in_loop=in_loop, flagged=True)
            done.append(node)
            if in_loop:
                if is_loop:
                    done.append(place_at(ast.If(flag, [ast.Break()], []), node))
                done += self.block(rest, in_loop=True, flagged=True)
            elif rest:
                body = self.block(rest, in_loop=False, flagged=flagged)
                done.append(place_at(ast.If(ast.UnaryOp(ast.Not(), flag), body, []), node))
            return done
        return done

    def leave(self, node: ast.Return, *, in_loop: bool, flagged: bool) -> list[ast.stmt]:
        new: list[ast.stmt] = []
        if node.value is not None and self.result is not None:
            new.append(place_at(assign(self.result, node.value), node))
        if in_loop or flagged:
            self.uses_flag = True
            new.append(self.set_done(True, node))
        if in_loop:
            new.append(place_at(ast.Break(), node))
        return new or [place_at(ast.Pass(), node)]


def contains_return(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Return) for n in walk_here(node))


def _always_returns(statements: list[ast.stmt]) -> bool:
    if not statements:
        return False
    last = statements[-1]
    if isinstance(last, ast.If):
        return _always_returns(last.body) and _always_returns(last.orelse)
    return isinstance(last, ast.Return)
