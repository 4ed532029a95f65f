"""Assignments of many threads at once."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from kerneldsl.analysis.expressions import assigned_names
from kerneldsl.explain.intrinsics import IntrinsicEvaluator
from kerneldsl.explain.values import UNKNOWN, Value, View, as_dtype, choose

__all__ = ["Assigner"]


class Assigner(IntrinsicEvaluator):
    """Assignments of one function, which hold for the lanes that are `active`."""

    def merged(self, old: Value, new: Value) -> Value:
        """Return the new value for the lanes at work, the old one for others."""
        if old is None or self.active.mask.all():
            return new
        if isinstance(old, View) or isinstance(new, View):
            return new
        mask = self.active.mask | ~self.threads.exists
        return new if mask.all() else choose(mask, new, old)

    def assign(self, target: ast.expr, value: Value) -> None:
        """Give a variable or an element a value."""
        match target:
            case ast.Name(id=name):
                value = as_dtype(value, self.typed.type_of(target))
                self.names[name] = self.merged(self.names.get(name), value)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                for number, each in enumerate(targets):
                    is_known = isinstance(value, tuple) and len(value) == len(targets)
                    self.assign(each, value[number] if is_known else UNKNOWN)
            case ast.Subscript():
                found = self.element(target.value, target.slice)
                if isinstance(found, View) and not found.shape:
                    self.access(target, found, is_store=True)
            case ast.Attribute(value=ast.Subscript() as base):
                self.assign(base, value)

    def augment(self, node: ast.AugAssign) -> None:
        """Assign in place, as in ``x += y``."""
        value = self.value(node.value)
        target = node.target
        if isinstance(target, ast.Subscript):
            found = self.element(target.value, target.slice)
            if isinstance(found, View) and not found.shape:
                self.access(target, found)
                self.operation(node, node.op, UNKNOWN, value)
                self.access(target, found, is_store=True)
        elif isinstance(target, ast.Name):
            old = self.names.get(target.id, UNKNOWN)
            self.assign(target, self.operation(node, node.op, old, value))

    def forget(self, body: Sequence[ast.stmt]) -> None:
        """Forget the variables that statements assign."""
        for statement in body:
            for name in assigned_names(statement):
                self.names[name] = UNKNOWN
