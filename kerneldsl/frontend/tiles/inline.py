"""Inline the device functions that a block meets together.

A device function that holds a barrier, a warp barrier or a shared array is part of its caller's
control flow: whether its barrier is uniform depends on the call, and a target that splits a kernel
at barriers must see them. Such calls are replaced by the function's body; every other call stays.

The result is a unit like any other. An inlined node keeps its place in its own file and names its
unit as origin. Locals of an inlined function get fresh names, another at each call.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from kerneldsl.frontend.expressions import assigned_names
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, load
from kerneldsl.frontend.tiles.hoisting import CallHoister, place_at
from kerneldsl.frontend.tiles.returns import lower_returns
from kerneldsl.frontend.trees import Transformer, copy_origin, copy_tree, set_origin, walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import BLOCK_LEVEL

__all__ = ["inline_block_functions"]


def inline_block_functions(unit: FunctionUnit, also: Collection[FunctionUnit] = ()) -> FunctionUnit:
    """Return the unit with its block-level device functions inlined, and some others.

    It is the unit itself where nothing had to be inlined.

    Raises `UnsupportedConstructError` where such a function is called in a place that is only
    sometimes evaluated, such as the right side of ``and``.
    """
    if not any(_is_block_function(c) or c in also for c in unit.callees.values()):
        return unit
    return _Inliner(unit, also).run()


def _is_block_function(unit: FunctionUnit) -> bool:
    return any(use.intrinsic.effect & BLOCK_LEVEL for use in unit.all_uses())


class _Inliner(CallHoister):
    """Rewrites statements; names of everything that is merged into the kernel's unit."""

    def __init__(self, unit: FunctionUnit, also: Collection[FunctionUnit]) -> None:
        super().__init__(unit, FreshNames.for_unit(unit))
        self.also = also
        self.uses = dict(unit.uses)
        self.callees: dict[str, FunctionUnit] = {}
        self.block_callees: dict[str, FunctionUnit] = {}
        for name, callee in unit.callees.items():
            self.table_of(callee)[name] = callee
        self.constants = dict(unit.constants)
        self.namespace = dict(unit.namespace)
        self.spellings = dict(unit.spellings)

    def run(self) -> FunctionUnit:
        tree = copy_tree(self.unit.tree)
        tree.body = self.block(tree.body)
        return replace(
            self.unit,
            tree=tree,
            uses=self.uses,
            callees=self.callees,
            constants=self.constants,
            namespace=self.namespace,
            spellings=self.spellings,
        )

    def wants(self, node: ast.Call) -> bool:
        return self.block_callee(node) is not None

    def take(self, node: ast.Call, before: list[ast.stmt]) -> ast.expr:
        return self.inline(node, before)

    def block_callee(self, node: ast.Call) -> FunctionUnit | None:
        return self.block_callees.get(node.func.id) if isinstance(node.func, ast.Name) else None

    # -- calls --------------------------------------------------------------------------------

    def inline(self, call: ast.Call, before: list[ast.stmt]) -> ast.expr:
        """Append the callee's body to `before`; return what the call's value became."""
        callee = self.block_callee(call)
        assert callee is not None
        body = copy_tree(callee.tree.body)
        for inner in walk_here(body):
            set_origin(inner, callee)
        stored = assigned_names(body)
        rename: dict[str, ast.expr] = {
            name: self.local(name, callee) for name in sorted(stored - set(callee.parameters))
        }
        for name, argument in zip(callee.parameters, call.args, strict=True):
            if isinstance(argument, ast.Name | ast.Constant) and name not in stored:
                rename[name] = argument
            else:
                local = self.local(name, callee)
                before.append(place_at(assign(local.id, argument), call))
                rename[name] = local
        self.merge(callee, rename)
        result = self.names.make(f"{callee.name}_result")
        lowered = lower_returns(body, result=result, flag=self.names.make(f"{callee.name}_done"))
        renamer = _Renamer(rename)
        for statement in lowered:
            before.extend(self.statement(renamer.visit(statement)))
        return place_at(load(result), call)

    def local(self, name: str, callee: FunctionUnit) -> ast.Name:
        """Name a local variable of one call."""
        new = self.names.make(f"{callee.name}_{name}")
        self.spellings[new] = callee.spellings.get(name, name)
        return load(new)

    def merge(self, callee: FunctionUnit, rename: dict[str, ast.expr]) -> None:
        """Bring the callee's outside names into the kernel's unit under their own names."""
        tables: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
            (callee.uses, self.uses),
            (callee.constants, self.constants),
            (callee.namespace, self.namespace),
        )
        for theirs, ours in tables:
            for name, value in theirs.items():
                if ours.get(name) is value:
                    continue
                new = self.names.make(name)
                ours[new] = value
                rename[name] = load(new)
        for name, value in callee.callees.items():
            new = self.names.make(name)
            self.table_of(value)[new] = value
            rename[name] = load(new)

    def table_of(self, callee: FunctionUnit) -> dict[str, FunctionUnit]:
        """Return the functions among which another one belongs."""
        is_inlined = _is_block_function(callee) or callee in self.also
        return self.block_callees if is_inlined else self.callees


class _Renamer(Transformer):
    def __init__(self, names: dict[str, ast.expr]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        new = self.names.get(node.id)
        if new is None:
            return node
        if isinstance(new, ast.Constant):
            return place_at(ast.Constant(new.value), node)
        assert isinstance(new, ast.Name)
        renamed = place_at(ast.Name(new.id, node.ctx), node)
        copy_origin(renamed, node)
        return renamed
