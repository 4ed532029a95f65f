"""Mark loops of a medium size that ptxas cannot unroll: LLVM unrolls them by four.

LLVM unrolls a loop by eight, four or two, so that its body has a limited size. Of a loop with
twelve operations that is two, and ptxas does not unroll the result again. NVVM unrolls such loops
by four. Loops with fewer operations are left to LLVM and ptxas. Most loops that access arrays are,
too: there the number of loads at once matters, and ptxas decides it. It cannot unroll a loop that
keeps a branch, such as one before a square root (:mod:`.square_roots`).

References
----------
LLVM Language Reference, "llvm.loop.unroll.count".
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from kerneldsl.contract import Report, ignore_remark
from kerneldsl.frontend.syntax import call
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.lowering.passes.mark_nonnegative_indices import UNSIGNED
from targets.cuda.intrinsics.unroll import BY_FOUR, BY_FOUR_NAME

__all__ = ["unroll_arithmetic"]

#: Operations in a turn of a loop that is unrolled by four.
_LEAST, _MOST = 12, 40
_STATEMENTS = (ast.Assign, ast.AugAssign, ast.If, ast.Pass)
_OPERATIONS = (ast.BinOp, ast.AugAssign, ast.UnaryOp, ast.Compare, ast.BoolOp)
_OPERANDS = (ast.Name, ast.Constant, ast.Tuple)
#: What takes many instructions.
_LONG = (ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult)


def unroll_arithmetic(
    unit: FunctionUnit, tree: ast.FunctionDef, report: Report = ignore_remark
) -> tuple[ast.FunctionDef, dict[str, Any]]:
    """Return the tree with marks in such loops, and what they call.

    They count through a range that is not a number, and have no loops inside. They call only
    functions on numbers that are as simple. The tree is changed.
    """
    count = rooted = 0
    for node in ast.walk(tree):
        match node:
            case ast.For(ast.Name(), ast.Call(ast.Name("range"), [*_, bound] as ends, []), body):
                if len(ends) > 2 or unit.literal(bound) is not None:
                    continue
                has_root = _has_guarded_root(unit, body)
                operations = _operations(unit, body, may_load=has_root)
                if operations is not None and _LEAST <= operations <= _MOST:
                    mark = ast.Expr(call(BY_FOUR_NAME))
                    ast.fix_missing_locations(ast.copy_location(mark, body[-1]))
                    body.append(mark)
                    count += not has_root
                    rooted += has_root
    report("loop", "unrolled by four, as it only computes", count)
    report("loop", "unrolled by four, as it tests before it takes a square root", rooted)
    return tree, {BY_FOUR_NAME: BY_FOUR} if count or rooted else {}


def _has_guarded_root(unit: FunctionUnit, statements: Iterable[ast.stmt]) -> bool:
    return any(
        isinstance(each, ast.If) and any(_is_root(unit, node) for node in walk_here(each.body))
        for each in walk_here(statements)
    )


def _is_root(unit: FunctionUnit, node: ast.AST) -> bool:
    match node:
        case ast.Call(ast.Attribute(ast.Name(name), "sqrt"), [_], []):
            return unit.namespace.get(name) is math
    return False


def _operations(
    unit: FunctionUnit, statements: Iterable[ast.stmt], *, may_load: bool = False
) -> int | None:
    """Return how many operations statements make; ``None`` if they do more than compute.

    With `may_load` they may also read arrays and take square roots.
    """
    count = 0
    for node in walk_here(statements):
        match node:
            case ast.Subscript(ctx=ast.Load()) | ast.Attribute() if may_load:
                pass
            case ast.Call(ast.Name(name), [_], []) if may_load and name == UNSIGNED:
                pass
            case ast.Call() if may_load and _is_root(unit, node):
                pass
            case ast.Call(ast.Name(name), _, []) if name in unit.callees:
                callee = unit.callees[name]
                *body, last = callee.tree.body
                if not isinstance(last, ast.Return) or last.value is None:
                    return None
                found = _operations(callee, [*body, ast.Expr(last.value)])
                if found is None:
                    return None
                count += found
            case ast.Call(ast.Name(name), [_], []) if _is_number(unit.namespace.get(name)):
                pass
            case ast.BinOp(op=operation) | ast.AugAssign(op=operation) if isinstance(
                operation, _LONG
            ):
                if not _is_constant(node):
                    return None
            case ast.Expr() | ast.IfExp():
                pass
            case _ if not isinstance(node, (*_STATEMENTS, *_OPERATIONS, *_OPERANDS)):
                return None
        count += isinstance(node, _OPERATIONS)
    return count


def _is_constant(node: ast.AST) -> bool:
    return not any(isinstance(each, ast.Name) for each in walk_here(node))


def _is_number(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, (int, float, np.number))
