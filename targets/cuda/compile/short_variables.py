"""Keep variables in 32 bits that are halved or doubled in loops, if their values are known to fit.

LLVM follows sums through loops, but not products: it does not know how large `step` is after
``step //= 2``. So it keeps the variable, and what is computed from it, in 64 bits: two registers
and two instructions. Such variables are mostly distances within a block, which has 1024 threads.
They become uint32, and are int64 again wherever they are read.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.analysis.expressions import assigned_names
from kerneldsl.analysis.integer_limits import IntegerLimits
from kerneldsl.contract import Report, ignore_remark
from kerneldsl.frontend.syntax import assign, call, load
from kerneldsl.frontend.trees import Transformer
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.lowering.calls import Call
from kerneldsl.lowering.numba_internals.bound import BoundIntrinsic

__all__ = ["shorten_variables"]

_LARGEST = 2**31 - 1
_SHORT, _LONG = "kd_short", "kd_long"


def shorten_variables(
    unit: FunctionUnit,
    tree: ast.FunctionDef,
    arrays: Collection[str] = (),
    report: Report = ignore_remark,
) -> tuple[ast.FunctionDef, dict[str, Any]]:
    """Return the tree of a function with such variables shortened, and what it calls.

    `arrays` are the parameters that are arrays. The tree is changed.
    """
    limits = IntegerLimits(unit, arrays).factored_variables()
    names = {name for name, (low, high) in limits.items() if low >= 0 and high <= _LARGEST}
    if not names:
        return tree, {}
    assignments = [
        unit.locate(node)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Assign, ast.AugAssign)) and assigned_names(node) & names
    ]
    report("variable", "kept in 32 bits", len(names), where=assignments)
    changed = ast.fix_missing_locations(_Shortener(unit, names).visit(tree))
    return changed, {_SHORT: _TO_SHORT, _LONG: _TO_LONG, **_UPDATES}


class _Shortener(Transformer):
    def __init__(self, unit: FunctionUnit, names: set[str]) -> None:
        self._unit = unit
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self._names or not isinstance(node.ctx, ast.Load):
            return node
        return ast.copy_location(call(_LONG, node), node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        match node:
            case ast.Assign([ast.Name(name)], value) if name in self._names:
                return ast.copy_location(assign(name, self._given(name, value)), node)
        return self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        match node.target:
            case ast.Name(name) if name in self._names:
                value = self._given(name, ast.BinOp(load(name), node.op, node.value))
                return ast.copy_location(assign(name, value), node)
        return self.generic_visit(node)

    def _given(self, name: str, value: ast.expr) -> ast.expr:
        """Return a new value: of an update by a factor computed in 32 bits, and cut else.

        LLVM would compute an update in 64 bits if it were cut.
        """
        match value:
            case ast.BinOp(ast.Name(source), operator, factor) if source == name:
                update = f"kd_{type(operator).__name__}"
                if update in _UPDATES and self._unit.literal(factor) is not None:
                    return call(update, load(name), factor)
        return call(_SHORT, self.visit(value))


def _returning(kind: Any) -> Any:
    def rule(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
        return kind(*(each if each == types.uint32 else types.int64 for each in args))

    return rule


def _truncate(call: Call) -> ir.Value:
    return call.builder.trunc(call.args[0], _I32)


def _extend(call: Call) -> ir.Value:
    return call.builder.zext(call.args[0], ir.IntType(64))


def _update(instruction: str, call: Call) -> ir.Value:
    variable, factor = call.args
    make = getattr(call.builder, instruction)
    found: ir.Value = make(variable, call.builder.trunc(factor, _I32))
    return found


_I32 = ir.IntType(32)
_TO_SHORT = BoundIntrinsic("short", _returning(types.uint32), _truncate, {})
_TO_LONG = BoundIntrinsic("long", _returning(types.int64), _extend, {})
#: Updates, by the names that they are called by.
_UPDATES = {
    f"kd_{operator.__name__}": BoundIntrinsic(
        f"short.{instruction}", _returning(types.uint32), partial(_update, instruction), {}
    )
    for operator, instruction in (
        (ast.Mult, "mul"),
        (ast.FloorDiv, "udiv"),
        (ast.LShift, "shl"),
        (ast.RShift, "lshr"),
    )
}
