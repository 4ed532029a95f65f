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

and of the body what is after a ``break`` or ``continue`` that not all threads run becomes
conditional. Loops around barriers of the whole block are left alone.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from dataclasses import replace

from kerneldsl.analysis.hoisting import place_at
from kerneldsl.analysis.uniformity import UniformityResult
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, call, load
from kerneldsl.frontend.trees import Transformer, children_of, walk_here
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.language.intrinsics.intrinsic import Scope
from kerneldsl.language.intrinsics.table import INTRINSICS
from targets.cpu.passes.counted_loops import counted, is_range
from targets.cpu.passes.masks import Loop, MaskedBody, exits_of
from targets.cpu.passes.statements import truth_of

__all__ = ["mask_divergent_loops"]

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
    for child in children_of(node):
        if (
            isinstance(child, Loop)
            and child not in known
            and _synchronizes_warps_alone(child, unit)
            and _is_divergent(child, unit, uniformity)
        ):
            found.add(child)
        elif isinstance(child, ast.stmt):
            found |= _outermost(child, unit, uniformity, known)
    return found


def _synchronizes_warps_alone(loop: Loop, unit: FunctionUnit) -> bool:
    calls = [node for node in walk_here(loop) if isinstance(node, ast.Call)]
    uses = [unit.use_of(node) for node in calls if ast.unparse(node.func) != _VOTE]
    barriers = [use.intrinsic for use in uses if use is not None and use.intrinsic.is_barrier]
    return bool(barriers) and not any(each.synchronizes(Scope.BLOCK) for each in barriers)


def _is_divergent(loop: Loop, unit: FunctionUnit, uniformity: UniformityResult) -> bool:
    test = loop.test if isinstance(loop, ast.While) else loop.iter
    if not uniformity.is_uniform(test):
        return isinstance(loop, ast.While) or is_range(loop.iter, unit)
    return any(not uniformity.is_uniform_place(exit_) for exit_ in exits_of(loop.body))


class _Masking(Transformer):
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
        body = MaskedBody(self.names, node.body)
        return self.placed(self.while_inside(body, body.statements, node.test), node)

    def visit_For(self, node: ast.For) -> ast.stmt | list[ast.stmt]:
        if node not in self.loops:
            self.generic_visit(node)
            return node
        body = MaskedBody(self.names, node.body)
        if self.uniformity.is_uniform(node.iter):
            return self.placed(self.for_together(node, body), node)
        return self.placed(self.for_alone(node, body), node)

    def for_together(self, node: ast.For, body: MaskedBody) -> list[ast.stmt]:
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

    def made_loop(self, loop: Loop) -> Loop:
        self.made.add(loop)
        return loop

    def for_alone(self, node: ast.For, body: MaskedBody) -> list[ast.stmt]:
        """Write a loop over a range that differs between threads."""
        loop = counted(node, self.names.make)
        return [*loop.before, *self.while_inside(body, [*loop.head, *body.statements], loop.test)]

    def while_inside(
        self, body: MaskedBody, statements: list[ast.stmt], test: ast.expr
    ) -> list[ast.stmt]:
        """Write the loop of a block that goes on while any of its threads is inside."""
        more = self.names.make("more")

        def ask() -> ast.stmt:
            return assign(body.inside, truth_of(copy.deepcopy(test)))

        def vote() -> ast.stmt:
            return assign(more, call(_VOTE, load(body.inside)))

        rounds: list[ast.stmt] = [ast.If(load(body.inside), statements, [])]
        if not (isinstance(test, ast.Constant) and test.value):
            rounds.append(ast.If(load(body.inside), [ask()], []))
        loop = ast.While(load(more), [*rounds, vote()], [])
        return [ask(), vote(), self.made_loop(loop)]

    def placed(self, statements: list[ast.stmt], node: ast.stmt) -> list[ast.stmt]:
        return [place_at(statement, node) for statement in statements]
