"""Let the threads of a block run a loop with an exchange a different number of times each.

A block runs such a loop as long as any of its threads is in it; those that have left are masked.
``while test: body`` becomes ::

    inside = test
    more = syncthreads_or(inside)
    while more:
        if inside:
            body
        if inside:
            inside = test
        more = syncthreads_or(inside)

and of the body what stands behind a ``break`` or ``continue`` that not all threads run becomes
conditional. Loops around barriers of the whole block are left alone.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from dataclasses import replace

from kerneldsl.analysis.hoisting import place_at
from kerneldsl.analysis.library_names import library_name
from kerneldsl.analysis.uniformity import UniformityResult
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, call, load
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.language.intrinsics.intrinsic import Scope
from kerneldsl.language.intrinsics.table import INTRINSICS

__all__ = ["mask_divergent_loops"]

_Loop = ast.For | ast.While
#: What the generated code calls the vote of a block on whether any thread is in a loop.
_VOTE = "kd_any_in_loop"
#: Analyses the tree of a unit as it is now.
_Analyze = Callable[[FunctionUnit], UniformityResult]


def mask_divergent_loops(
    tree: ast.FunctionDef, unit: FunctionUnit, names: FreshNames, analyze: _Analyze
) -> tuple[FunctionUnit, UniformityResult]:
    """Rewrite the loops with exchanges of warps that threads leave one by one, in place.

    The unit is returned, which knows the votes on them, with what the analysis says in the end. A
    loop in another one is looked at when that is rewritten, which makes variables private.
    """
    known: set[ast.AST] = set()
    while True:
        uniformity = analyze(unit)
        loops = _outermost(tree, unit, uniformity, known)
        if not loops:
            return unit, uniformity
        masking = _Masking(loops, unit, uniformity, names)
        masking.visit(tree)
        known |= masking.made
        vote = IntrinsicUse(INTRINSICS["syncthreads_or"], {})
        unit = replace(unit, uses={**unit.uses, _VOTE: vote})


def _outermost(
    node: ast.AST, unit: FunctionUnit, uniformity: UniformityResult, known: set[ast.AST]
) -> set[ast.AST]:
    """Return the divergent loops below a node that are in no other one."""
    found: set[ast.AST] = set()
    for child in ast.iter_child_nodes(node):
        if (
            isinstance(child, _Loop)
            and child not in known
            and _synchronizes_warps_alone(child, unit)
            and _is_divergent(child, unit, uniformity)
        ):
            found.add(child)
        elif isinstance(child, ast.stmt):
            found |= _outermost(child, unit, uniformity, known)
    return found


def _synchronizes_warps_alone(loop: _Loop, unit: FunctionUnit) -> bool:
    calls = [node for node in ast.walk(loop) if isinstance(node, ast.Call)]
    uses = [unit.use_of(node) for node in calls if ast.unparse(node.func) != _VOTE]
    barriers = [use.intrinsic for use in uses if use is not None and use.intrinsic.is_barrier]
    return bool(barriers) and not any(each.synchronizes(Scope.BLOCK) for each in barriers)


def _is_divergent(loop: _Loop, unit: FunctionUnit, uniformity: UniformityResult) -> bool:
    test = loop.test if isinstance(loop, ast.While) else loop.iter
    if not uniformity.is_uniform(test):
        return isinstance(loop, ast.While) or _is_range(loop, unit)
    return any(not uniformity.is_uniform_place(exit_) for exit_ in _exits(loop.body))


def _is_range(loop: ast.For, unit: FunctionUnit) -> bool:
    return (
        isinstance(loop.iter, ast.Call)
        and library_name(loop.iter.func, unit.namespace) == "range"
        and not any(isinstance(argument, ast.Starred) for argument in loop.iter.args)
    )


def _exits(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the ``break`` and ``continue`` statements of a loop's body that belong to it."""
    found: list[ast.stmt] = []
    for node in body:
        match node:
            case ast.Break() | ast.Continue():
                found.append(node)
            case ast.If():
                found += _exits(node.body) + _exits(node.orelse)
    return found


class _Masking(ast.NodeTransformer):
    def __init__(
        self,
        loops: set[ast.AST],
        unit: FunctionUnit,
        uniformity: UniformityResult,
        names: FreshNames,
    ) -> None:
        self.loops = loops
        self.unit = unit
        self.uniformity = uniformity
        self.names = names
        #: The loops that were written in place of those.
        self.made: set[ast.AST] = set()

    def visit_While(self, node: ast.While) -> ast.stmt | list[ast.stmt]:
        if node not in self.loops:
            self.generic_visit(node)
            return node
        body = _Body(self.names, node.body)
        return self.placed(self.while_inside(body, body.statements, node.test), node)

    def visit_For(self, node: ast.For) -> ast.stmt | list[ast.stmt]:
        if node not in self.loops:
            self.generic_visit(node)
            return node
        body = _Body(self.names, node.body)
        if self.uniformity.is_uniform(node.iter):
            return self.placed(self.for_together(node, body), node)
        return self.placed(self.for_alone(node, body), node)

    def for_together(self, node: ast.For, body: _Body) -> list[ast.stmt]:
        """Write a loop that counts alike for all threads, and that some leave before others."""
        if not body.is_left:  # some iterations are cut short
            return [self.made_loop(ast.For(node.target, node.iter, body.statements, []))]
        counter, more = self.names.make("counter"), self.names.make("more")
        taken = ast.Assign([node.target], load(counter))
        loop_body = [
            ast.If(load(body.inside), [taken, *body.statements], []),
            assign(more, call(_VOTE, load(body.inside))),
            ast.If(ast.UnaryOp(ast.Not(), load(more)), [ast.Break()], []),
        ]
        loop = ast.For(ast.Name(counter, ast.Store()), node.iter, loop_body, [])
        return [assign(body.inside, ast.Constant(True)), self.made_loop(loop)]

    def made_loop(self, loop: _Loop) -> _Loop:
        self.made.add(loop)
        return loop

    def for_alone(self, node: ast.For, body: _Body) -> list[ast.stmt]:
        """Write a loop over a range that differs between threads."""
        assert isinstance(node.iter, ast.Call)
        before: list[ast.stmt] = []
        bounds: list[ast.expr] = []
        for argument in node.iter.args:
            name = self.names.make("bound")
            before.append(assign(name, argument))
            bounds.append(load(name))
        step, count = self.names.make("step"), self.names.make("count")
        before.append(assign(count, call("kd_len", call("kd_range", *bounds))))
        before.append(assign(step, ast.Constant(0)))
        item = call("kd_range_item", load(step), *copy.deepcopy(bounds))
        following = ast.BinOp(load(step), ast.Add(), ast.Constant(1))
        statements = [
            ast.Assign([node.target], item),
            assign(step, following),
            *body.statements,
        ]
        test = ast.Compare(load(step), [ast.Lt()], [load(count)])
        return [*before, *self.while_inside(body, statements, test)]

    def while_inside(
        self, body: _Body, statements: list[ast.stmt], test: ast.expr
    ) -> list[ast.stmt]:
        """Write the loop of a block that goes on while any of its threads is inside."""
        more = self.names.make("more")

        def ask() -> ast.stmt:
            truth = ast.IfExp(copy.deepcopy(test), ast.Constant(True), ast.Constant(False))
            return assign(body.inside, truth)

        def vote() -> ast.stmt:
            return assign(more, call(_VOTE, load(body.inside)))

        rounds: list[ast.stmt] = [ast.If(load(body.inside), statements, [])]
        if not (isinstance(test, ast.Constant) and test.value):
            rounds.append(ast.If(load(body.inside), [ask()], []))
        loop = ast.While(load(more), [*rounds, vote()], [])
        return [ask(), vote(), self.made_loop(loop)]

    def placed(self, statements: list[ast.stmt], node: ast.stmt) -> list[ast.stmt]:
        return [place_at(statement, node) for statement in statements]


class _Body:
    """The body of a loop whose exits have become assignments.

    A thread has left the loop when `inside` is false; what it does not run any more of an
    iteration is conditional.
    """

    def __init__(self, names: FreshNames, body: list[ast.stmt]) -> None:
        self.inside = names.make("inside")
        self.runs = names.make("runs")
        exits = _exits(body)
        self.is_left = any(isinstance(exit_, ast.Break) for exit_ in exits)
        self.statements = self.lowered(body)
        if exits:
            self.statements.insert(0, assign(self.runs, ast.Constant(True)))

    def lowered(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Return statements without exits."""
        out: list[ast.stmt] = []
        for position, node in enumerate(body):
            match node:
                case ast.Break():
                    stays = [self.inside, self.runs]
                    out += [place_at(assign(n, ast.Constant(False)), node) for n in stays]
                    return out
                case ast.Continue():
                    out.append(place_at(assign(self.runs, ast.Constant(False)), node))
                    return out
                case ast.If() if _exits([node]):
                    node.body = self.lowered(node.body)
                    node.orelse = self.lowered(node.orelse)
                    out.append(node)
                    rest = self.lowered(body[position + 1 :])
                    if rest:
                        out.append(place_at(ast.If(load(self.runs), rest, []), rest[0]))
                    return out
            out.append(node)
        return out
