"""Inline the device functions that a block meets together.

A device function that holds a barrier, a warp barrier or a shared array is part of its caller's
control flow: whether its barrier is uniform depends on the call, and a target that splits a kernel
at barriers must see them. Such calls are replaced by the function's body; every other call stays.

The result is a unit like any other. An inlined node keeps its place in its own file and names its
unit as ``kd_origin``. A local ``x`` of ``f`` becomes ``kd_f1_x``, with a number for each call.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeVar

from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics import Effect

__all__ = ["inline_block_functions"]

N = TypeVar("N", bound=ast.AST)
_BLOCK_EFFECTS = Effect.BLOCK_BARRIER | Effect.WARP_BARRIER | Effect.ALLOCATE_SHARED


def inline_block_functions(unit: FunctionUnit) -> FunctionUnit:
    """Return the unit with its block-level device functions inlined.

    Parameters
    ----------
    unit : FunctionUnit
        A kernel.

    Returns
    -------
    FunctionUnit
        The unit itself where nothing had to be inlined.

    Raises
    ------
    UnsupportedConstructError
        Where such a function is called in a place that is only sometimes evaluated, such as the
        right side of ``and``.
    """
    if not any(_is_block_function(callee) for callee in unit.callees.values()):
        return unit
    return _Inliner(unit).run()


def _is_block_function(unit: FunctionUnit) -> bool:
    return any(
        use.intrinsic.effect & _BLOCK_EFFECTS
        for reached in unit.reachable()
        for use in reached.uses.values()
    )


class _Inliner:
    """Rewrites statements; names of everything that is merged into the kernel's unit."""

    def __init__(self, unit: FunctionUnit) -> None:
        self.unit = unit
        self.uses = dict(unit.uses)
        self.callees = {
            name: callee for name, callee in unit.callees.items() if not _is_block_function(callee)
        }
        self.block_callees = {
            name: callee for name, callee in unit.callees.items() if _is_block_function(callee)
        }
        self.constants = dict(unit.constants)
        self.namespace = dict(unit.namespace)
        self.calls = 0
        self.temporaries = 0

    def run(self) -> FunctionUnit:
        tree = copy.deepcopy(self.unit.tree)
        tree.body = self.block(tree.body)
        return replace(
            self.unit,
            tree=tree,
            uses=self.uses,
            callees=self.callees,
            constants=self.constants,
            namespace=self.namespace,
        )

    # -- statements ---------------------------------------------------------------------------

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        return [new for old in statements for new in self.statement(old)]

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        before: list[ast.stmt] = []
        match node:
            case ast.If():
                node.test = self.hoist(node.test, before)
                node.body = self.block(node.body)
                node.orelse = self.block(node.orelse)
            case ast.For():
                node.iter = self.hoist(node.iter, before)
                node.body = self.block(node.body)
            case ast.While():
                node.body = self.block(node.body)
                in_test: list[ast.stmt] = []
                node.test = self.hoist(node.test, in_test)
                if in_test:
                    leave = ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Break()], [])
                    node.body = [*in_test, _at(leave, node.test), *node.body]
                    node.test = _at(ast.Constant(True), node.test)
            case ast.Expr(value=ast.Call() as call) if self.block_callee(call) is not None:
                self.inline(call, before)
                return before
            case _:
                for name, value in ast.iter_fields(node):
                    if isinstance(value, ast.expr) and name != "targets":
                        setattr(node, name, self.hoist(value, before))
        return [*before, node]

    # -- expressions --------------------------------------------------------------------------

    def block_callee(self, node: ast.AST) -> FunctionUnit | None:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return self.block_callees.get(node.func.id)
        return None

    def contains_call(self, node: ast.AST) -> bool:
        return any(self.block_callee(n) is not None for n in ast.walk(node))

    def hoist(self, node: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """Move block-level calls out of an expression, keeping the order of evaluation."""
        if not self.contains_call(node):
            return node
        if isinstance(node, ast.BoolOp | ast.IfExp) or (
            isinstance(node, ast.Compare) and len(node.ops) > 1
        ):
            first = node.test if isinstance(node, ast.IfExp) else None
            if isinstance(node, ast.BoolOp):
                first = node.values[0]
            rest = [c for c in ast.iter_child_nodes(node) if c is not first]
            for child in rest:
                if self.contains_call(child):
                    raise UnsupportedConstructError(
                        "a device function with a barrier or a shared array is called where it is "
                        "only sometimes evaluated",
                        where=self.unit.locate(child),
                        remedy="Assign the call's result to a variable in a statement of its own",
                    )
        children = list(_expressions(node))
        last = max(i for i, (_, _, c) in enumerate(children) if self.contains_call(c))
        for index, (name, position, child) in enumerate(children):
            if index > last:
                break
            new = self.hoist(child, before)
            if index < last and not isinstance(new, ast.Name | ast.Constant):
                new = self.save(new, before)
            if position is None:
                setattr(node, name, new)
            else:
                getattr(node, name)[position] = new
        if self.block_callee(node) is not None:
            assert isinstance(node, ast.Call)
            return self.inline(node, before)
        return node

    def save(self, value: ast.expr, before: list[ast.stmt]) -> ast.expr:
        self.temporaries += 1
        name = f"kd_saved_{self.temporaries}"
        before.append(_at(ast.Assign([ast.Name(name, ast.Store())], value), value))
        return _at(ast.Name(name, ast.Load()), value)

    # -- calls --------------------------------------------------------------------------------

    def inline(self, call: ast.Call, before: list[ast.stmt]) -> ast.expr:
        """Append the callee's body to `before`; return what the call's value became."""
        callee = self.block_callee(call)
        assert callee is not None
        self.calls += 1
        prefix = f"kd_{callee.name}{self.calls}_"
        body = copy.deepcopy(callee.tree.body)
        for statement in body:
            for inner in ast.walk(statement):
                if not hasattr(inner, "kd_origin"):
                    inner.kd_origin = callee  # type: ignore[attr-defined]
        stored = _stored_names(body)
        rename: dict[str, ast.expr] = {}
        for name in stored - set(callee.parameters):
            rename[name] = ast.Name(prefix + name, ast.Load())
        for name, argument in zip(callee.parameters, call.args, strict=True):
            if isinstance(argument, ast.Name | ast.Constant) and name not in stored:
                rename[name] = argument
            else:
                target = ast.Name(prefix + name, ast.Store())
                before.append(_at(ast.Assign([target], argument), call))
                rename[name] = ast.Name(prefix + name, ast.Load())
        self.merge(callee, prefix, rename)
        result = prefix + "result"
        lowered = _ReturnLowering(result, prefix + "done").function(body)
        renamer = _Renamer(rename)
        for statement in lowered:
            before.extend(self.statement(renamer.visit(statement)))
        return _at(ast.Name(result, ast.Load()), call)

    def merge(self, callee: FunctionUnit, prefix: str, rename: dict[str, ast.expr]) -> None:
        """Bring the callee's outside names into the kernel's unit under names of their own."""
        tables: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
            (callee.uses, self.uses),
            (callee.constants, self.constants),
            (callee.namespace, self.namespace),
        )
        for theirs, ours in tables:
            for name, value in theirs.items():
                if ours.get(name) is value:
                    continue
                new = prefix + name.removeprefix("kd_")
                ours[new] = value
                rename[name] = ast.Name(new, ast.Load())
        for name, value in callee.callees.items():
            new = prefix + name
            (self.block_callees if _is_block_function(value) else self.callees)[new] = value
            rename[name] = ast.Name(new, ast.Load())


class _Renamer(ast.NodeTransformer):
    def __init__(self, names: dict[str, ast.expr]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        new = self.names.get(node.id)
        if new is None:
            return node
        if isinstance(new, ast.Constant):
            return _at(ast.Constant(new.value), node)
        assert isinstance(new, ast.Name)
        renamed = _at(ast.Name(new.id, node.ctx), node)
        if hasattr(node, "kd_origin"):
            renamed.kd_origin = node.kd_origin  # type: ignore[attr-defined]
        return renamed


class _ReturnLowering:
    """Turns ``return`` into an assignment and structured control flow.

    What follows an ``if`` that may return moves into its other branch, so that no flag is needed
    unless a ``return`` stands in a loop or in one of two branches that both may go on.
    """

    def __init__(self, result: str, done: str) -> None:
        self.result = result
        self.done = done
        self.uses_flag = False

    def function(self, body: list[ast.stmt]) -> list[ast.stmt]:
        lowered = self.block(body, in_loop=False)
        if self.uses_flag:
            first = body[0]
            lowered = [self.set_done(False, first), *lowered]
        return lowered

    def set_done(self, value: bool, place: ast.AST) -> ast.stmt:
        target = ast.Name(self.done, ast.Store())
        return _at(ast.Assign([target], ast.Constant(value)), place)

    def block(
        self, statements: list[ast.stmt], *, in_loop: bool, flagged: bool = False
    ) -> list[ast.stmt]:
        """Lower a list; `flagged` says that what follows it asks whether the function is over."""
        done: list[ast.stmt] = []
        for index, node in enumerate(statements):
            rest = statements[index + 1 :]
            if isinstance(node, ast.Return):
                return [*done, *self.leave(node, in_loop=in_loop, flagged=flagged)]
            if not _has_return(node):
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
            flag = ast.Name(self.done, ast.Load())
            is_loop = isinstance(node, ast.For | ast.While)
            assert isinstance(node, ast.If | ast.For | ast.While)
            node.body = self.block(node.body, in_loop=in_loop or is_loop, flagged=True)
            if isinstance(node, ast.If):
                node.orelse = self.block(node.orelse, in_loop=in_loop, flagged=True)
            done.append(node)
            if in_loop:
                if is_loop:
                    done.append(_at(ast.If(flag, [ast.Break()], []), node))
                done += self.block(rest, in_loop=True, flagged=True)
            elif rest:
                body = self.block(rest, in_loop=False, flagged=flagged)
                done.append(_at(ast.If(ast.UnaryOp(ast.Not(), flag), body, []), node))
            return done
        return done

    def leave(self, node: ast.Return, *, in_loop: bool, flagged: bool) -> list[ast.stmt]:
        new: list[ast.stmt] = []
        if node.value is not None:
            target = ast.Name(self.result, ast.Store())
            new.append(_at(ast.Assign([target], node.value), node))
        if in_loop or flagged:
            self.uses_flag = True
            new.append(self.set_done(True, node))
        if in_loop:
            new.append(_at(ast.Break(), node))
        return new or [_at(ast.Pass(), node)]


def _has_return(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Return) for n in ast.walk(node))


def _always_returns(statements: list[ast.stmt]) -> bool:
    if not statements:
        return False
    last = statements[-1]
    if isinstance(last, ast.If):
        return _always_returns(last.body) and _always_returns(last.orelse)
    return isinstance(last, ast.Return)


def _stored_names(body: list[ast.stmt]) -> set[str]:
    return {
        node.id
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _expressions(node: ast.expr) -> Iterator[tuple[str, int | None, ast.expr]]:
    """Child expressions in the order of evaluation, with their places in the node."""
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.expr):
            yield name, None, value
        elif isinstance(value, list):
            for position, item in enumerate(value):
                if isinstance(item, ast.expr):
                    yield name, position, item


def _at(node: N, place: ast.AST) -> N:
    """Give a new node, and all below it without a place, the place of another."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.expr | ast.stmt) and not hasattr(inner, "lineno"):
            ast.copy_location(inner, place)
            if hasattr(place, "kd_origin"):
                inner.kd_origin = place.kd_origin  # type: ignore[attr-defined]
    return node
