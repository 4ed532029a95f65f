"""A loop over threads; each meets the one that differs in a bit of its index.

In a stage of a butterfly, as of a bitonic sort, thread ``i`` works with thread ``i ^ step``, where
`step` is a power of two that all threads share. Threads are in groups of ``2 * step``: those of
the lower half have their partner `step` above them, those of the upper half `step` below. With the
halves in their own loops ::

    for group in range(low, high, 2 * step):
        for member in range(step):
            i = group + member          # i ^ step is i + step, which is greater than i
        for member in range(step):
            i = group + step + member   # i ^ step is i - step, which is less

all accesses are along rows, what needs the half is decided, and a half that does nothing goes.
Short steps have their own loops of a length that LLVM knows. Threads do so in another order, which
between two barriers is any.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

from kerneldsl.analysis.expressions import assigned_names, loaded_names
from kerneldsl.analysis.hoisting import place_at
from kerneldsl.frontend.syntax import assign, call, load
from kerneldsl.frontend.trees import Transformer, copy_tree, walk_here
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.passes.rematerialization import Rematerializable
from targets.cpu.passes.statements import thread_loop, writes_memory
from targets.cpu.passes.versions import ALWAYS

__all__ = ["in_halves"]

_GROUP, _MEMBER, _IS_SWAPPED = "kd_group", "kd_member", "kd_is_swapped"
#: Steps shorter than a vector of the widest processors, for 32-bit values.
_SHORT_STEPS = (1, 2, 4, 8)
#: A longer body is not worth compiling so often.
_MAX_NODES = 200


def in_halves(
    body: list[ast.stmt],
    variable: str,
    low: ast.expr,
    high: ast.expr,
    pure: Rematerializable,
    own_arrays: Collection[str],
) -> tuple[ast.expr, list[ast.stmt]] | None:
    """Return the loops of a body's threads by halves, and the test that they may run.

    ``None`` says that threads do not meet others in this way.
    """
    if sum(1 for node in body for _ in ast.walk(node)) > _MAX_NODES:
        return None
    stage = _find_stage(body, variable, pure, own_arrays)
    if stage is None:
        return None
    match stage.step:
        case ast.Constant(value=int(step)):
            if step <= 0 or step & (step - 1):
                return None
            loop = stage.loops(body, low, high, step)
            return stage.test(low, high), [loop]
    statements = [stage.loops(body, low, high)]
    for step in reversed(_SHORT_STEPS):
        is_step = ast.Compare(copy_tree(stage.step), [ast.Eq()], [ast.Constant(step)])
        statements = [ast.If(is_step, [stage.loops(body, low, high, step)], statements)]
    return stage.test(low, high), statements


def _find_stage(
    body: list[ast.stmt], variable: str, pure: Rematerializable, own_arrays: Collection[str]
) -> _Stage | None:
    known = pure.steady_values(body)
    found = [
        (places, step)
        for statement in body
        for node in walk_here(statement)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitXor)
        for left, right in [(node.left, node.right), (node.right, node.left)]
        if (places := _place(left, variable, pure, known)) is not None
        if (step := _shared(right, variable, pure, known)) is not None
    ]
    if len({(ast.dump(start), ast.dump(step)) for start, step in found}) != 1:
        return None
    start, step = found[0]
    return _Stage(variable, pure, known, start, step, own_arrays)


def _place(
    node: ast.expr, variable: str, pure: Rematerializable, known: Mapping[str, ast.expr]
) -> ast.expr | None:
    """Return what an index adds to the thread's variable, if that is all it does."""
    expanded = pure.expanded(node, known)
    if variable not in loaded_names(expanded):
        return None
    form = pure.affine(expanded, variable)
    if form is None or form.coefficient != 1 or variable in loaded_names(form.rest):
        return None
    return form.rest if pure.is_integer(form.rest) and pure.is_steady(form.rest) else None


def _shared(
    node: ast.expr, variable: str, pure: Rematerializable, known: Mapping[str, ast.expr]
) -> ast.expr | None:
    """Return an expanded integer that neighbouring threads share."""
    expanded = pure.expanded(node, known)
    if variable in loaded_names(expanded) or not pure.is_integer(expanded):
        return None
    return expanded if pure.is_steady(expanded) else None


@dataclass
class _Stage:
    """Threads at ``variable + start``; each meets the one at its index ``^ step``."""

    variable: str
    pure: Rematerializable
    known: Mapping[str, ast.expr]
    start: ast.expr
    step: ast.expr
    #: Variables that hold arrays of the block's own.
    own_arrays: Collection[str]
    #: What else an index is combined with by ``&``: multiples of a group's length.
    spans: list[ast.expr] = field(default_factory=list)

    def test(self, low: ast.expr, high: ast.expr) -> ast.expr:
        """Return whether the step is a power of two, and the row made of whole groups."""
        step, spans = self.step, {ast.dump(span): span for span in self.spans}
        last = ast.BinOp(copy_tree(step), ast.Sub(), ast.Constant(1))
        mask = ast.BinOp(ast.BinOp(ast.Constant(2), ast.Mult(), step), ast.Sub(), ast.Constant(1))
        bits: ast.expr = ast.BinOp(copy_tree(low), ast.Add(), copy_tree(self.start))
        for more in (ast.BinOp(copy_tree(high), ast.Sub(), copy_tree(low)), *spans.values()):
            bits = ast.BinOp(bits, ast.BitOr(), copy_tree(more))
        zero = ast.Constant(0)
        positive = ast.Compare(ast.Constant(0), [ast.Lt(), ast.Lt()], [step, ast.Constant(2**62)])
        power = ast.Compare(ast.BinOp(copy_tree(step), ast.BitAnd(), last), [ast.Eq()], [zero])
        whole = ast.Compare(ast.BinOp(bits, ast.BitAnd(), mask), [ast.Eq()], [zero])
        return ast.BoolOp(ast.And(), [copy_tree(positive), power, copy_tree(whole)])

    def with_selections(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Return statements in which swaps of elements have no branch.

        ``if test: a[i] = high`` becomes ``a[i] = high if test else low``, where the thread has read
        both from the array, which is the block's own. Elements that a thread reads, no other one
        writes before the next barrier.
        """
        read: dict[str, tuple[str, str]] = {}  # variable to array and element
        new: list[ast.stmt] = []
        for node in body:
            match node:
                case ast.Assign(
                    targets=[ast.Name(id=name)], value=ast.Subscript(value=ast.Name(id=array)) as e
                ) if self.pure.assignments[name] == 1:
                    read[name] = (array, ast.dump(e.slice))
                case ast.If(orelse=[]) if self.swaps(node, read):
                    new += _selections(node, read)
                    read = {}
                    continue
            if not _only_reads(node):
                read = {}
            new.append(node)
        return new

    def swaps(self, node: ast.If, read: Mapping[str, tuple[str, str]]) -> bool:
        """Return whether an ``if`` only writes elements that were read, by others of the array."""
        for each in node.body:
            match each:
                case ast.Assign(
                    targets=[ast.Subscript(value=ast.Name(id=array)) as e],
                    value=ast.Name(id=value),
                ):
                    element = (array, ast.dump(e.slice))
                    is_read = value in read and read[value][0] == array
                    once = all(self.pure.assignments[n] <= 1 for n in loaded_names(e.slice))
                    if is_read and once and element in read.values() and array in self.own_arrays:
                        continue
            return False
        return True

    def loops(
        self, body: list[ast.stmt], low: ast.expr, high: ast.expr, constant: int | None = None
    ) -> ast.stmt:
        """Return the loop over groups, for any step or a constant one."""
        step = copy_tree(self.step) if constant is None else ast.Constant(constant)
        whole: ast.expr = ast.BinOp(ast.Constant(2), ast.Mult(), copy_tree(step))
        if constant is not None:
            whole = ast.Constant(2 * constant)
        inner: list[ast.stmt] = []
        for is_upper in (False, True):
            half = _Half(self, step, is_upper=is_upper)
            statements = _without_dead([half.visit(node) for node in copy_tree(body)])
            statements = self.with_selections(statements)
            if not any(map(writes_memory, statements)):
                continue
            first: ast.expr = load(_GROUP)
            if is_upper:
                first = ast.BinOp(first, ast.Add(), copy_tree(step))
            if constant == 1:
                inner += [assign(self.variable, first), *statements]
                continue
            place = assign(self.variable, ast.BinOp(first, ast.Add(), load(_MEMBER)))
            inner.append(
                thread_loop(_MEMBER, ast.Constant(0), copy_tree(step), [place, *statements])
            )
        groups = call("kd_range", copy_tree(low), copy_tree(high), whole)
        if constant == 1:
            inner.append(ast.Expr(call("kd_end_of_threads")))
        return ast.For(ast.Name(_GROUP, ast.Store()), groups, inner or [ast.Pass()], [])


class _Half(Transformer):
    """Writes a body for the threads of one half of each group."""

    def __init__(self, stage: _Stage, step: ast.expr, *, is_upper: bool) -> None:
        self.stage = stage
        self.step = step
        self.is_upper = is_upper
        self.group = ast.BinOp(load(_GROUP), ast.Add(), stage.start)

    def is_own(self, node: ast.expr) -> bool:
        """Return whether an expression is the thread's index."""
        stage = self.stage
        start = _place(node, stage.variable, stage.pure, stage.known)
        return start is not None and ast.dump(start) == ast.dump(stage.start)

    def is_partner(self, node: ast.expr) -> bool:
        """Return whether an expression is the partner's index."""
        match self.stage.pure.expanded(node, self.stage.known):
            case ast.BinOp(op=ast.BitXor(), left=left, right=right):
                return (self.is_own(left) and self.is_step(right)) or (
                    self.is_own(right) and self.is_step(left)
                )
        return False

    def is_step(self, node: ast.expr) -> bool:
        expanded = self.stage.pure.expanded(node, self.stage.known)
        return ast.dump(expanded) == ast.dump(self.stage.step)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        if self.is_partner(node) and isinstance(node.op, ast.BitXor):
            own = node.left if self.is_own(node.left) else node.right
            sign = ast.Sub() if self.is_upper else ast.Add()
            return place_at(ast.BinOp(own, sign, copy.deepcopy(self.step)), node)
        if isinstance(node.op, ast.BitAnd):
            for own, other in ((node.left, node.right), (node.right, node.left)):
                if self.is_own(own):
                    return self.bit(node, other)
        return self.generic_visit(node)

    def bit(self, node: ast.BinOp, other: ast.expr) -> ast.AST:
        """Return the bits of a thread's index that it shares with its group."""
        stage = self.stage
        if self.is_step(other):
            value = copy.deepcopy(self.step) if self.is_upper else ast.Constant(0)
            return place_at(value, node)
        span = _shared(other, stage.variable, stage.pure, stage.known)
        if span is None:
            return node
        stage.spans.append(span)
        return place_at(ast.BinOp(copy.deepcopy(self.group), ast.BitAnd(), other), node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        match node:
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                for one, two, below in (
                    (left, right, (ast.Lt, ast.LtE)),
                    (right, left, (ast.Gt, ast.GtE)),
                ):
                    if self.is_own(one) and self.is_partner(two):
                        return place_at(self.decided(operator, below), node)
        return self.generic_visit(node)

    def decided(self, operator: ast.cmpop, below: tuple[type[ast.cmpop], ...]) -> ast.expr:
        """Return how a thread's index compares with its partner's, which is never the same."""
        if isinstance(operator, ast.Eq | ast.NotEq):
            holds = isinstance(operator, ast.NotEq)
        else:
            holds = isinstance(operator, below) != self.is_upper
        return call(ALWAYS) if holds else ast.UnaryOp(ast.Not(), call(ALWAYS))


def _selections(node: ast.If, read: Mapping[str, tuple[str, str]]) -> list[ast.stmt]:
    """Return the statements of an ``if`` that swaps elements, each a selection."""
    truth = ast.IfExp(node.test, ast.Constant(True), ast.Constant(False))
    new: list[ast.stmt] = [place_at(assign(_IS_SWAPPED, truth), node)]
    old = {element: name for name, element in read.items()}
    for each in node.body:
        match each:
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=array)) as e], value=value):
                before = load(old[array, ast.dump(e.slice)])
                selected = ast.IfExp(load(_IS_SWAPPED), value, before)
                new.append(place_at(ast.Assign([e], selected), each))
    return new


def _only_reads(node: ast.stmt) -> bool:
    """Return whether a statement only gives a variable a value, by no call that may write."""
    calls = [inner.func for inner in walk_here(node) if isinstance(inner, ast.Call)]
    is_plain = all(isinstance(f, ast.Name) and f.id in ("kd_unsigned", "kd_load") for f in calls)
    return is_plain and isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)


def _without_dead(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Return statements without those with false tests, if nothing else needs their types."""
    kept: list[ast.stmt] = []
    for node in body:
        match node:
            case ast.If(test=ast.Call(func=ast.Name(id=name)), orelse=[]) if name == ALWAYS:
                kept += node.body
                continue
            case ast.If(test=ast.UnaryOp(op=ast.Not(), operand=ast.Call(func=ast.Name(id=name)))):
                others = [other for other in body if other is not node]
                if name == ALWAYS and not assigned_names(node) & loaded_names(others):
                    kept += node.orelse
                    continue
        kept.append(node)
    return kept
