"""Which index expressions are never negative.

Python lets a negative index count from an array's end. That costs a comparison and a select at
every access and keeps LLVM from vectorizing, so targets drop it where this analysis proves that the
index cannot be negative: from what thread ids, sizes and ranges are, and from the conditions that
guard an access.

The function is walked along its control flow with an environment of facts about its variables. At
a join only what holds on both sides is kept; a loop is walked until nothing changes. ``assert`` and
``raise`` prove nothing, because they are compiled out without debug mode.

Signed 64-bit overflow is taken not to happen, as in C. Numba widens the narrower integers to 64
bits before it computes. Nothing is assumed of the types of parameters: a fact that would be wrong
for a float serves only where the expression in question makes the variable an integer, as an index
does.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from kerneldsl.analysis.bounds import Bounds, Environment
from kerneldsl.analysis.expressions import assigned_names
from kerneldsl.analysis.integers import Integers
from kerneldsl.analysis.linear_forms import LinearForms
from kerneldsl.analysis.transfer import Transfer
from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["nonnegative_indices"]

_MAX_ROUNDS = 6


def nonnegative_indices(
    tree_or_unit: ast.FunctionDef | FunctionUnit,
    nonnegative_calls: Callable[[ast.Call], bool] | None = None,
    constants: Mapping[str, Any] | None = None,
    *,
    namespace: Mapping[str, Any] | None = None,
) -> set[ast.expr]:
    """Find the index expressions that cannot be negative.

    Parameters
    ----------
    tree_or_unit : ast.FunctionDef or FunctionUnit
        The function, in normal form. A unit brings its constants and its intrinsics.
    nonnegative_calls : callable, optional
        Says of a call that its result, or each element of a tuple it gives, is an integer that is
        not negative and is the same each time in one thread if the call has no arguments. By
        default the indices and sizes among a unit's intrinsics.
    constants : mapping, optional
        Values of outside names; by default those of the unit.
    namespace : mapping, optional
        Other outside names to their objects; by default those of the unit. A call of what is not
        there, or is no function of Python's or NumPy's, proves nothing.

    Returns
    -------
    set of ast.expr
        Nodes of the tree: an index, or one element of a tuple of indices, inside the brackets of
        an ``ast.Subscript`` of an array. Slices are never among them.
    """
    if isinstance(tree_or_unit, FunctionUnit):
        unit = tree_or_unit
        tree = unit.tree
        if nonnegative_calls is None:
            nonnegative_calls = lambda call: _is_index_intrinsic(unit, call)  # noqa: E731
        if constants is None:
            constants = {name: captured.value for name, captured in unit.constants.items()}
        if namespace is None:
            namespace = unit.namespace
    else:
        tree = tree_or_unit
    integers = Integers(
        tree, nonnegative_calls or (lambda call: False), constants or {}, namespace or {}
    )
    walk = _Walk(Bounds(LinearForms(integers)))
    walk.block(tree.body, Environment())
    return {node for node, is_proven in walk.proven.items() if is_proven}


def _is_index_intrinsic(unit: FunctionUnit, call: ast.Call) -> bool:
    use = unit.use_of(call)
    return use is not None and use.intrinsic.is_index


class _Loop:
    """Environments that leave a loop's body early."""

    def __init__(self) -> None:
        self.breaks: list[Environment] = []
        self.continues: list[Environment] = []


class _Walk:
    """Walks statements; ``None`` stands for the environment of code that is never reached."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.transfer = Transfer(bounds)
        self.proven: dict[ast.expr, bool] = {}
        self.loops: list[_Loop] = []

    def block(self, body: list[ast.stmt], env: Environment | None) -> Environment | None:
        for statement in body:
            if env is None:
                return None
            env = self.statement(statement, env)
        return env

    def statement(self, node: ast.stmt, env: Environment) -> Environment | None:
        match node:
            case ast.Assign():
                self.expression(node.value, env)
                for target in node.targets:
                    self.expression(target, env)
                for target in node.targets:
                    env = self.transfer.assign(target, node.value, env)
                return env
            case ast.AugAssign():
                self.expression(node.value, env)
                self.expression(node.target, env)
                if isinstance(node.target, ast.Name):
                    old = ast.Name(node.target.id, ast.Load())
                    value = ast.BinOp(old, node.op, node.value)
                    return self.transfer.assign(node.target, value, env)
                return env
            case ast.If():
                self.expression(node.test, env)
                then = self.block(node.body, self.bounds.assume(node.test, True, env))
                other = self.block(node.orelse, self.bounds.assume(node.test, False, env))
                return self.transfer.join(then, other)
            case ast.While():
                return self._loop(node, env)
            case ast.For():
                self.expression(node.iter, env)
                return self._loop(node, env)
            case ast.Return():
                if node.value is not None:
                    self.expression(node.value, env)
                return None
            case ast.Break():
                self.loops[-1].breaks.append(env)
                return None
            case ast.Continue():
                self.loops[-1].continues.append(env)
                return None
            case ast.Expr() | ast.Assert() | ast.Raise():
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.expression(child, env)
                return env
            case ast.Pass():
                return env
        return self.transfer.forget(assigned_names(node), env)

    def _loop(self, node: ast.While | ast.For, entry: Environment) -> Environment | None:
        changed = assigned_names(node)
        head = entry
        for round_ in range(_MAX_ROUNDS + 1):
            if round_ == _MAX_ROUNDS:
                head = self.transfer.forget(changed, entry)
            loop = _Loop()
            self.loops.append(loop)
            if isinstance(node, ast.While):
                self.expression(node.test, head)
                start = self.bounds.assume(node.test, True, head)
            else:
                start = self.transfer.enter_for(node, entry, head, changed)
            end = self.block(node.body, start)
            self.loops.pop()
            for early in loop.continues:
                end = self.transfer.join(end, early)
            following = self.transfer.join(head, end)
            if following is None or round_ == _MAX_ROUNDS:
                break
            if round_ >= 1:
                following = self.transfer.widen(head, following)
            if following == head:
                break
            head = following
        if isinstance(node, ast.While):
            after = self.bounds.assume(node.test, False, head)
        else:
            after = head
        for left in loop.breaks:
            after = self.transfer.join(after, left)
        return after

    def expression(self, node: ast.expr, env: Environment | None) -> None:
        """Look at every index below an expression, each under the conditions of its place."""
        if env is None:
            return
        match node:
            case ast.IfExp():
                self.expression(node.test, env)
                self.expression(node.body, self.bounds.assume(node.test, True, env))
                self.expression(node.orelse, self.bounds.assume(node.test, False, env))
                return
            case ast.BoolOp():
                reached: Environment | None = env
                for value in node.values:
                    self.expression(value, reached)
                    if reached is not None:
                        truth = isinstance(node.op, ast.And)
                        reached = self.bounds.assume(value, truth, reached)
                return
            case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp():
                return
            case ast.GeneratorExp():
                return
            case ast.Subscript() if not _is_tuple(node.value):
                parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                for part in parts:
                    if not isinstance(part, ast.Slice):
                        is_proven = self.bounds.is_nonnegative_index(part, env)
                        self.proven[part] = self.proven.get(part, True) and is_proven
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.expression(child, env)
            elif isinstance(child, ast.keyword):
                self.expression(child.value, env)


def _is_tuple(node: ast.expr) -> bool:
    """Whether what is subscripted is plainly no array."""
    return isinstance(node, ast.Tuple) or (
        isinstance(node, ast.Attribute) and node.attr in ("shape", "strides")
    )
