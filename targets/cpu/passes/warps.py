"""Run the warps of a block one after the other, where its threads never wait for all of it.

A kernel whose only barriers are those of warps says nothing of the order of its warps. Each of
them then goes through the whole kernel as a block of 32 threads does: what its lanes share has one
value, branches and loops that they take together are branches and loops of the warp, and one in
which they take turns runs for all of them at once.

What lanes share is often an index that is divided by the size of a warp. A warp begins at a
multiple of that, so that its lane is what remains: ``(start + lane) // 32`` becomes
``start // 32``, and ``(start + lane) % 32`` the lane.
"""

from __future__ import annotations

import ast

from kerneldsl.contract import Specialization
from kerneldsl.frontend.syntax import load
from kerneldsl.frontend.trees import Transformer, walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Effect, Scope
from targets.cpu.intrinsics.table import Together, lowering_of
from targets.cpu.passes.ids import WARP_SIZE
from targets.cpu.passes.rematerialization import Rematerializable

__all__ = ["divide_by_warps", "runs_by_warps"]

_LANE = "kd_tx"
#: Coordinates that are multiples of the size of a warp.
_STARTS = frozenset({"kd_wx"})


def runs_by_warps(unit: FunctionUnit, spec: Specialization) -> bool:
    """Return whether a kernel, with its block-level functions inlined, runs one warp at a time.

    In debug mode none does: it is what others are compared with.
    """
    if spec.block_dim is None or spec.block_dim[0] % WARP_SIZE or spec.options.debug:
        return False
    uses = unit.uses.values()
    return (
        any(use.intrinsic.is_barrier for use in uses)
        and not any(
            use.intrinsic.synchronizes(Scope.BLOCK)
            or isinstance(lowering_of(use.intrinsic), Together)
            for use in uses
        )
        and not any(_may_wait(node, unit) for node in walk_here(unit.tree))
    )


def _may_wait(node: ast.AST, unit: FunctionUnit) -> bool:
    """Return whether a loop may go on until another warp has done something.

    So may one that ends by what an atomic operation finds, or a function that is called.
    """
    if not isinstance(node, ast.While):
        return False
    inner = list(walk_here(node))
    uses = [use for use in map(unit.use_of, inner) if use is not None]
    return any(use.intrinsic.is_barrier for use in uses) and (
        any(use.intrinsic.effect & (Effect.ATOMIC | Effect.FENCE) for use in uses)
        or any(unit.callee_of(each) is not None for each in inner if isinstance(each, ast.Call))
    )


def divide_by_warps(tree: ast.FunctionDef, pure: Rematerializable) -> None:
    """Rewrite divisions of a thread's index that are the same in its warp, in place.

    Ids in the tree are replaced by those of a warp space.
    """
    _Division(pure).visit(tree)


class _Division(Transformer):
    def __init__(self, pure: Rematerializable) -> None:
        self.pure = pure

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        divided = self._divided(node)
        if divided is not None:
            return divided
        self.generic_visit(node)
        return node

    def _divided(self, node: ast.BinOp) -> ast.expr | None:
        """Return an operation without the lane in it, or as a sum with the lane."""
        divisor = self._divisor(node)
        if divisor is None or divisor % WARP_SIZE:
            return None
        expanded = self.pure.expanded(node.left)
        form = self.pure.affine(expanded, _LANE)
        if form is None or form.coefficient != 1 or not self._is_multiple(form.rest):
            return None
        if isinstance(node.op, ast.FloorDiv | ast.RShift):
            return ast.BinOp(form.rest, node.op, node.right)
        if divisor == WARP_SIZE:
            return load(_LANE)
        return ast.BinOp(ast.BinOp(form.rest, node.op, node.right), ast.Add(), load(_LANE))

    def _divisor(self, node: ast.BinOp) -> int | None:
        """Return by what a quotient or a remainder divides, if that is a positive constant."""
        right = self._constant(node.right)
        if right is None or right < 0:
            return None
        match node.op:
            case ast.FloorDiv() | ast.Mod() if right > 0:
                return right
            case ast.RShift() if right < 32:
                return 1 << right
            case ast.BitAnd() if right & (right + 1) == 0:
                return right + 1
        return None

    def _constant(self, node: ast.expr) -> int | None:
        """Return the integer that an expression of literals and captured numbers is."""
        match node:
            case ast.Constant(value=int(value)) if not isinstance(value, bool):
                return value
            case ast.Name(id=name) if name in self.pure.unit.constants:
                value = self.pure.unit.constants[name].value
                return value if type(value) is int else None
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult()):
                left, right = self._constant(node.left), self._constant(node.right)
                if left is None or right is None:
                    return None
                if isinstance(node.op, ast.Mult):
                    return left * right
                return left + right if isinstance(node.op, ast.Add) else left - right
        return None

    def _is_multiple(self, node: ast.expr) -> bool:
        """Return whether an int64 is a multiple of the size of a warp."""
        match node:
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                return self._is_multiple(node.left) and self._is_multiple(node.right)
            case ast.BinOp(op=ast.Mult()):
                sides = (node.left, node.right)
                return all(map(self.pure.is_integer, sides)) and any(map(self._is_multiple, sides))
            case ast.UnaryOp(op=ast.USub()):
                return self._is_multiple(node.operand)
            case ast.Name() if node.id in _STARTS:
                return True
        constant = self._constant(node)
        return constant is not None and constant % WARP_SIZE == 0
