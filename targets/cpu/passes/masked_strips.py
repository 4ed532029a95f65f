"""Run loops that threads leave one by one for a strip of them at once, under a mask.

The threads of a strip are the lanes of vectors. ``while test: body`` with a test that
differs between threads becomes ::

    for each lane: inside = test
    more = whether any lane is inside
    while more:
        for each lane:
            what the body and the test compute, for new values of the variables
            if inside: take them
        more = whether any lane is inside

A loop over lanes has no other control in it than selections, so that LLVM vectorizes it. A lane
that has left goes on computing unused values: only bodies are rewritten that touch no memory
and call only arithmetic. Each thread does what it did, in the same order.

References
----------
Pharr and Mark, "ispc: A SPMD Compiler for High-Performance CPU Programming", InPar 2012.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Mapping
from dataclasses import field

from kerneldsl.analysis.expressions import assigned_names, does_nothing, names_read
from kerneldsl.analysis.hoisting import place_at
from kerneldsl.analysis.uniformity import UniformityResult
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, load
from kerneldsl.frontend.trees import Transformer, walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Effect
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.math.vector.define import FUNCTIONS
from targets.cpu.passes.counted_loops import counted, is_range
from targets.cpu.passes.items import Item, Threads, Vote, WhileLoop
from targets.cpu.passes.liveness import flow_of
from targets.cpu.passes.masks import MaskedBody
from targets.cpu.passes.rematerialization import Rematerializable
from targets.cpu.passes.statements import truth_of

__all__ = ["LANES", "MaskedStrips"]

#: Threads of a strip: one vector of the widest processors for 32-bit values.
LANES = 16
_ARITHMETIC = frozenset({"min", "max", "abs", "int", "float", "bool"})
#: What LLVM has vectors of beside :data:`FUNCTIONS`.
_INSTRUCTIONS = frozenset(
    {
        *("sqrt", "fabs", "absolute", "copysign", "floor", "ceil", "trunc", "rint"),
        *("isnan", "isinf", "isfinite", "minimum", "maximum", "fmin", "fmax"),
    }
)


@dataclass
class MaskedStrips:
    """Finds the loops of one kernel that profit, and writes them as items of strips."""

    unit: FunctionUnit
    uniformity: UniformityResult
    pure: Rematerializable
    names: FreshNames
    #: How often each name is read in the whole kernel.
    reads: Counter[str]
    #: Variables of each thread that were added here.
    made: set[str] = field(default_factory=set)

    def rows(self, body: list[ast.stmt]) -> list[Item] | None:
        """Return a body as items of a strip, or ``None`` where no loop of it profits."""
        if not any(self.profits(node) for node in body):
            return None
        items: list[Item] = []
        pending: list[ast.stmt] = []
        for node in body:
            if not self.profits(node):
                pending.append(node)
                continue
            before, loop = self.masked(node)
            items += [Threads([*pending, *before]), *loop]
            pending = []
        if not does_nothing(pending):
            items.append(Threads(pending))
        return items

    def profits(self, node: ast.stmt) -> bool:
        """Return whether threads leave a loop one by one, and its body is arithmetic alone."""
        if not isinstance(node, ast.For | ast.While) or node.orelse:
            return False
        if isinstance(node, ast.For):
            if not isinstance(node.target, ast.Name) or not is_range(node.iter, self.unit):
                return False
            if self.uniformity.is_uniform(node.iter) and not self._leaves(node):
                return False
            heads = list(node.iter.args)  # type: ignore[attr-defined]
        else:
            if self.uniformity.is_uniform(node.test) and not self._leaves(node):
                return False
            heads = [node.test]
        return all(map(self._is_arithmetic, heads)) and all(map(self._is_plain, node.body))

    def _leaves(self, node: ast.For | ast.While) -> bool:
        return any(isinstance(inner, ast.Break) for inner in walk_here(node))

    # -- what lanes may compute that have left ---------------------------------------------------

    def _is_plain(self, node: ast.stmt) -> bool:
        """Return whether a statement only computes values of variables."""
        match node:
            case ast.Assign(targets=[ast.Name()], value=value):
                return self._is_arithmetic(value)
            case ast.AugAssign(target=ast.Name(), value=value):
                return self._is_operator(node.op, value) and self._is_arithmetic(value)
            case ast.If():
                inner = [*node.body, *node.orelse]
                return self._is_arithmetic(node.test) and all(map(self._is_plain, inner))
            case ast.Pass() | ast.Break() | ast.Continue():
                return True
            case _:
                return False

    def _is_arithmetic(self, node: ast.expr) -> bool:
        for inner in walk_here(node):
            match inner:
                case ast.BinOp():
                    if not self._is_operator(inner.op, inner.right):
                        return False
                case ast.Call():
                    if not self._is_vectorized(inner):
                        return False
                case ast.Subscript():
                    if not self.pure.is_pure(inner):
                        return False
                case (
                    ast.Tuple()
                    | ast.List()
                    | ast.Dict()
                    | ast.Lambda()
                    | ast.NamedExpr()
                    | ast.Starred()
                    | ast.JoinedStr()
                ):
                    return False
        return True

    @staticmethod
    def _is_operator(operator: ast.operator, right: ast.expr) -> bool:
        """Return whether LLVM has vectors of an operation: not of divisions of integers."""
        if isinstance(operator, ast.FloorDiv | ast.Mod):
            return isinstance(right, ast.Constant) and bool(right.value)
        return not isinstance(operator, ast.MatMult)

    def _is_vectorized(self, node: ast.Call) -> bool:
        if node.keywords:
            return False
        use = self.unit.use_of(node)
        if use is not None:
            return use.intrinsic.effect is Effect.NONE and not use.intrinsic.is_barrier
        if self.unit.callee_of(node) is not None:
            return False
        name = self.pure.called(node.func)
        if name is None:
            return self.pure.is_pure(ast.Call(node.func, [], []))
        module, _, function = name.rpartition(".")
        if not module:
            return function in _ARITHMETIC
        known = function in FUNCTIONS or function in _INSTRUCTIONS
        return known or self.pure.is_pure(ast.Call(node.func, [], []))

    # -- loops -----------------------------------------------------------------------------------

    def masked(self, node: ast.stmt) -> tuple[list[ast.stmt], list[Item]]:
        """Return what each thread does before a loop, and the loop of the strip."""
        assert isinstance(node, ast.For | ast.While)
        outside = self.reads - Counter(names_read(node))
        node = copy.deepcopy(node)  # the item keeps its body, which may run as it is
        body = MaskedBody(self.names, node.body)
        inside = body.inside
        self.made |= {inside, body.runs}
        before: list[ast.stmt] = []
        if isinstance(node, ast.While):
            test, statements = node.test, body.statements
        else:
            counts = counted(node, self._variable)
            before, test = counts.before, counts.test
            statements = [*(place_at(each, node) for each in counts.head), *body.statements]
        before = [*before, assign(inside, _truth(test))]
        loop = self._rounds(inside, test, statements, frozenset(outside), leaves=body.is_left)
        for statement in before:
            place_at(statement, node)
        return before, loop

    def _rounds(
        self,
        inside: str,
        test: ast.expr,
        statements: list[ast.stmt],
        outside: frozenset[str],
        *,
        leaves: bool,
    ) -> list[Item]:
        """Return the rounds of a strip, in which lanes compute new values and take them."""
        where = statements[0]
        flow = flow_of([*statements, place_at(ast.Expr(copy.deepcopy(test)), where)])
        assigned = assigned_names(statements)
        carried = sorted((assigned & (flow.exposed | outside)) - {inside})
        new = {name: self._variable(name) for name in carried}
        unsure = [name for name in carried if name in flow.exposed or name not in flow.surely]
        rename = _Renaming(new)
        go_on = _truth(copy.deepcopy(test))
        follows = self._variable("follows")
        computed: list[ast.stmt] = [assign(new[name], load(name)) for name in unsure]
        if leaves:
            new[inside] = self._variable("stays")
            computed.append(assign(new[inside], ast.Constant(True)))
            go_on = ast.BoolOp(ast.And(), [load(inside), go_on])
        computed += [rename.visit(each) for each in statements]
        computed.append(assign(follows, rename.visit(go_on)))
        taken: list[ast.stmt] = [assign(name, load(new[name])) for name in carried]
        taken.append(assign(inside, load(follows)))
        computed.append(ast.If(load(inside), taken, []))
        more = self.names.make("more")
        threads = Threads([place_at(each, where) for each in computed])
        return [
            Vote(more, "any", load(inside)),
            WhileLoop(load(more), [threads, Vote(more, "any", load(inside))]),
        ]

    def _variable(self, stem: str) -> str:
        name = self.names.make(stem)
        self.made.add(name)
        return name


def _truth(test: ast.expr) -> ast.expr:
    return truth_of(copy.deepcopy(test))


class _Renaming(Transformer):
    def __init__(self, new: Mapping[str, str]) -> None:
        self.new = new

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.new:
            return ast.copy_location(ast.Name(self.new[node.id], node.ctx), node)
        return node
