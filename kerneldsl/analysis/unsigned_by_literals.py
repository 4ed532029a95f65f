"""Values that are uint64 because a literal was given that type, and int64 in Numba."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from kerneldsl.analysis.library_names import conversion_dtype
from kerneldsl.analysis.reaching import Reaching
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.reserved import RESERVED_PREFIX

__all__ = ["UnsignedByLiterals"]


class UnsignedByLiterals:
    """Such values of a kernel and of what it calls.

    Parameters
    ----------
    functions : iterable of (FunctionUnit, Reaching)
        The functions, with their reaching definitions.
    """

    def __init__(self, functions: Iterable[tuple[FunctionUnit, Reaching]]) -> None:
        #: Expressions, targets and parameters.
        self._found: set[ast.AST] = set()
        self._results: set[FunctionUnit] = set()
        parts = [(unit, reaching, list(walk_here(unit.tree))) for unit, reaching in functions]
        for _, _, nodes in parts:
            nodes.reverse()  # operands before operations
        before = -1
        while before < len(self._found) + len(self._results):
            before = len(self._found) + len(self._results)
            for unit, reaching, nodes in parts:
                for node in nodes:
                    self._look_at(unit, reaching, node)

    def __contains__(self, node: ast.AST) -> bool:
        return node in self._found

    def _look_at(self, unit: FunctionUnit, reaching: Reaching, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value) if value in self._found:
                for target in targets:
                    self._found.update(n for n in walk_here(target) if isinstance(n, ast.Name))
            case ast.AugAssign(target=target, op=op, value=value):
                parts = [target] if isinstance(op, ast.LShift | ast.RShift) else [target, value]
                reached = reaching.stores.get(target, frozenset())
                if reached & self._found or any(each in self._found for each in parts):
                    self._found.add(target)
            case ast.Return(value=ast.expr() as value) if value in self._found:
                self._results.add(unit)
            case ast.Name(ctx=ast.Load()):
                if reaching.stores.get(node, frozenset()) & self._found:
                    self._found.add(node)
            case ast.Call():
                self._look_at_call(unit, node)
            case ast.expr():
                if any(part in self._found for part in _parts(node)):
                    self._found.add(node)

    def _look_at_call(self, unit: FunctionUnit, node: ast.Call) -> None:
        callee = unit.callee_of(node)
        if callee is not None:
            parameters = callee.tree.args.args
            for parameter, given in zip(parameters, node.args, strict=False):
                if given in self._found:
                    self._found.add(parameter)
            if callee in self._results:
                self._found.add(node)
            return
        dtype = conversion_dtype(node.func, unit.namespace)
        if dtype is not None:
            # What is written by the pass that types literals; any other is the program's own.
            is_ours = isinstance(node.func, ast.Name) and node.func.id.startswith(RESERVED_PREFIX)
            if is_ours and dtype == "uint64":
                self._found.add(node)
        elif any(each in self._found for each in node.args):
            self._found.add(node)


def _parts(node: ast.expr) -> list[ast.expr]:
    """Return the operands with the type that decides that of an expression."""
    match node:
        case ast.BinOp(left=left, op=ast.LShift() | ast.RShift()):
            return [left]
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.UnaryOp(operand=operand) | ast.Starred(value=operand):
            return [operand]
        case ast.IfExp(body=body, orelse=other):
            return [body, other]
        case ast.BoolOp(values=values):
            return values
        case ast.Tuple(elts=elements):
            return elements
        case ast.Subscript(value=value, ctx=ast.Load()):
            return [value]
    return []
