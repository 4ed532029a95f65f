"""Unroll loops with the stride of a grid by four, so that loads come ahead of their uses.

The number of turns of ``while i < x.size: …; i += stride`` is a quotient. LLVM avoids the division,
and so neither LLVM nor ptxas unrolls the loop: each load is waited for. For ``range(i, x.size,
stride)`` Numba divides. The loops written here need no division. Four turns run while the last of
them is before the end, and a plain loop runs the others:

.. code-block:: python

    last = x.size - 3 * stride
    while i < last:
        for _ in range(4):
            …
            i += stride
    while i < x.size:
        …
        i += stride

The stride is known to be positive. The end is known not to be negative and far from overflow, as a
size is, or the kernel tests that. Each of the four turns computes its addresses from the counter,
which is hidden from LLVM at the start of the loop. LLVM would have a register for the address of
each array in each turn (seen with 22, "LoopStrengthReduce"), and ptxas no registers for the loads.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from kerneldsl.analysis.expressions import assigned_names, loaded_names
from kerneldsl.analysis.inferred_types import InferredTypes
from kerneldsl.analysis.integer_limits import IntegerLimits
from kerneldsl.analysis.trips import is_range
from kerneldsl.contract import Report, ignore_remark
from kerneldsl.frontend.syntax import assign, call, load, store
from kerneldsl.frontend.trees import copy_tree, walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Effect
from kerneldsl.language.kinds import ArrayKind, Kind
from kerneldsl.transforms.copying import CopyingTransformer
from targets.cuda.intrinsics.unroll import ROLLED, ROLLED_NAME, SAME, SAME_NAME, UNROLL, UNROLL_NAME

__all__ = ["hide_counters", "unroll_strides"]

_TURNS = 4
#: Loads of a turn; those of all turns are in registers at once.
_MOST_LOADS = 4
_MOST_STATEMENTS = 8
#: No counter of an int64 overflows in a step from here.
_LARGEST_END = 2**62
_SIGNED = {"int32", "int64"}
_STATEMENTS = (ast.Assign, ast.AugAssign, ast.If)
_COUNTER, _STEP, _STOP, _LAST = "kd_counter", "kd_step", "kd_stop", "kd_last"
_RANGE, _TURN = "kd_range", "kd_turn"


def unroll_strides(
    unit: FunctionUnit, kinds: Sequence[Kind], report: Report = ignore_remark
) -> FunctionUnit:
    """Return a kernel with such loops unrolled; `kinds` are those of its arguments."""
    search = _Search(unit, kinds, report)
    loops: dict[ast.AST, _Loop] = {loop.node: loop for loop in search.loops()}
    if not loops:
        return unit
    tree = _Unroller(loops).visit(unit.tree)
    known = {SAME_NAME: SAME, UNROLL_NAME: UNROLL, ROLLED_NAME: ROLLED, _RANGE: range}
    return replace(unit, tree=tree, namespace={**unit.namespace, **known})


def hide_counters(tree: ast.FunctionDef) -> ast.FunctionDef:
    """Return the tree of an unrolled kernel with the counters of its loops hidden from LLVM.

    What is known of an index is known before, so that it is not tested for a sign.
    """
    for node in ast.walk(tree):
        match node:
            case ast.While(ast.Compare(ast.Name(counter), [ast.Lt()], [ast.Name(last)])) if (
                last.startswith(_LAST)
            ):
                hidden = assign(counter, call(SAME_NAME, load(counter)))
                node.body.insert(0, _at(node, hidden))
    return tree


class _Loop(NamedTuple):
    """A loop with a stride."""

    node: ast.While | ast.For
    #: The variable that it counts in.
    counter: str
    #: Its first value; of ``while`` the counter as it is compared.
    start: ast.expr
    stop: ast.expr
    step: ast.expr
    body: list[ast.stmt]
    #: Whether the kernel has to test that nothing overflows.
    is_tested: bool = False


class _Search:
    """Finds the loops of a kernel."""

    def __init__(self, unit: FunctionUnit, kinds: Sequence[Kind], report: Report) -> None:
        self._unit = unit
        self._kinds = kinds
        self._report = report
        arrays = [
            n for n, k in zip(unit.parameters, kinds, strict=True) if isinstance(k, ArrayKind)
        ]
        self._limits = IntegerLimits(unit, arrays)

    def loops(self) -> Iterator[_Loop]:
        """Yield them, and report the others."""
        strided = [c for node in ast.walk(self._unit.tree) if (c := self._candidate(node))]
        candidates = [each for each in strided if self._is_fit(each, self._refusal(each))]
        if not candidates:
            return
        types = InferredTypes(self._unit, self._kinds)
        for loop in candidates:
            if self._is_fit(loop, self._refusal_by_types(loop, types)):
                self._report("loop", "unrolled by four", where=[self._unit.locate(loop.node)])
                of_stop = self._limits.of(loop.stop)
                yield loop._replace(is_tested=of_stop is None or of_stop[0] < 0)

    def _is_fit(self, loop: _Loop, refusal: str | None) -> bool:
        if refusal is not None:
            where = [self._unit.locate(loop.node)]
            self._report("loop", f"not unrolled: {refusal}", where=where, is_missed=True)
        return refusal is None

    def _candidate(self, node: ast.AST) -> _Loop | None:
        """Return a loop with a stride that is no constant."""
        match node:
            case ast.While(
                ast.Compare(ast.Name(counter) as start, [ast.Lt()], [stop]),
                [*body, ast.AugAssign(ast.Name(target), ast.Add(), step)],
                [],
            ) if counter == target and counter not in assigned_names(body):
                pass
            case ast.For(ast.Name(counter), ast.Call(args=[start, stop, step]) as items, body, []):
                if not is_range(items, self._unit.namespace):
                    return None
                pass
            case _:
                return None
        if isinstance(step, ast.Constant):
            return None
        return _Loop(node, counter, start, stop, step, body)

    def _refusal(self, loop: _Loop) -> str | None:
        """Return why a loop stays as it is, if it does whatever its types are.

        Its body has to be a few simple statements that affect this thread alone.
        """
        if assigned_names(loop.node) & loaded_names([loop.stop, loop.step]):
            return "the end or the stride changes in the loop"
        of_step = self._limits.of(loop.step)
        if of_step is None or of_step[0] <= 0:
            return "the stride is not known to be positive"
        statements = [each for each in walk_here(loop.body) if isinstance(each, ast.stmt)]
        if len(statements) > _MOST_STATEMENTS:
            return f"more than {_MOST_STATEMENTS} statements"
        if not all(isinstance(each, _STATEMENTS) for each in statements):
            return "statements other than assignments and conditions"
        for node in walk_here(loop.body):
            use = self._unit.use_of(node)
            if self._unit.callee_of(node) or (use and use.intrinsic.effect != Effect.NONE):
                return "a call that may affect other threads"
        return None

    def _refusal_by_types(self, loop: _Loop, types: InferredTypes) -> str | None:
        """Return why a loop stays as it is: no loads to be ahead of, or no registers for them."""
        if not {types.of(loop.start), types.of(loop.stop)} <= _SIGNED:
            return "the counter or the end is not a signed integer"
        loads = [
            node
            for node in walk_here(loop.body)
            if isinstance(node, ast.Subscript)
            and isinstance(node.ctx, ast.Load)
            and types.is_array(node.value)
        ]
        if not loads:
            return "no load of an element"
        return f"more than {_MOST_LOADS} loads" if len(loads) > _MOST_LOADS else None


class _Unroller(CopyingTransformer):
    """Writes the loops that were found otherwise, in a copy of the tree."""

    def __init__(self, loops: Mapping[ast.AST, _Loop]) -> None:
        self._loops = loops
        self._count = 0

    def visit_While(self, node: ast.While) -> ast.AST | list[ast.stmt]:
        loop = self._loops.get(node)
        return self.generic_visit(node) if loop is None else [*self._turns(loop), node]

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.stmt]:
        loop = self._loops.get(node)
        if loop is None:
            return self.generic_visit(node)
        number = self._count
        counter, stop, step = (f"{name}{number}" for name in (_COUNTER, _STOP, _STEP))
        body = [assign(loop.counter, load(counter)), *loop.body]
        counted = _Loop(node, counter, loop.start, load(stop), loop.step, body)
        beginning = [assign(counter, loop.start), assign(stop, loop.stop)]
        turns = self._turns(counted)
        rest = ast.While(
            ast.Compare(load(counter), [ast.Lt()], [load(stop)]),
            [*copy_tree(body), ast.AugAssign(store(counter), ast.Add(), load(step))],
            [],
        )
        written = [*turns, rest]
        if loop.is_tested:
            items = call(_RANGE, load(counter), load(stop), copy_tree(loop.step))
            mark = ast.Expr(call(ROLLED_NAME))
            other = ast.For(store(loop.counter), items, [*copy_tree(loop.body), mark], [])
            ends: list[ast.expr] = [load(stop), ast.Constant(_LARGEST_END)]
            test = ast.Compare(ast.Constant(0), [ast.LtE(), ast.LtE()], ends)
            written = [ast.If(test, written, [other])]
        return [_at(node, each) for each in (*beginning, *written)]

    def _turns(self, loop: _Loop) -> list[ast.stmt]:
        """Return what runs four turns at a time."""
        number, self._count = self._count, self._count + 1
        step, last, turn = (f"{name}{number}" for name in (_STEP, _LAST, _TURN))
        ahead = ast.BinOp(ast.Constant(_TURNS - 1), ast.Mult(), load(step))
        body = [
            *copy_tree(loop.body),
            ast.AugAssign(store(loop.counter), ast.Add(), load(step)),
            ast.Expr(call(UNROLL_NAME)),
        ]
        turns = ast.For(store(turn), call(_RANGE, ast.Constant(_TURNS)), body, [])
        written: list[ast.stmt] = [
            assign(step, copy_tree(loop.step)),
            assign(last, ast.BinOp(copy_tree(loop.stop), ast.Sub(), ahead)),
            ast.While(ast.Compare(load(loop.counter), [ast.Lt()], [load(last)]), [turns], []),
        ]
        if loop.is_tested:
            test = ast.Compare(copy_tree(loop.stop), [ast.GtE()], [ast.Constant(0)])
            written = [ast.If(test, written, [])]
        return [_at(loop.node, each) for each in written]


def _at(place: ast.stmt, node: ast.stmt) -> ast.stmt:
    return ast.fix_missing_locations(ast.copy_location(node, place))
