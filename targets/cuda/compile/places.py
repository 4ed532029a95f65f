"""Finds the line of a kernel that a message of the back end is about."""

from __future__ import annotations

import ast

from kerneldsl.errors import SourceLocation
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from targets.cuda.compile.math_symbols import user_name

__all__ = ["find_call"]

_OPERATORS: dict[str, tuple[type[ast.operator], ...]] = {
    "pow": (ast.Pow,),
    "% (fmod)": (ast.Mod, ast.FloorDiv),
}


def find_call(unit: FunctionUnit, function: str) -> SourceLocation:
    """Return the first place where a kernel or what it calls uses a mathematical function.

    Where the use cannot be found (it may come from an operation on complex numbers, say), that is
    the kernel's ``def``.
    """
    operators = _OPERATORS.get(function, ())
    for reachable in unit.reachable():
        for node in ast.walk(reachable.tree):
            if isinstance(node, ast.Call) and function in (
                _called_name(node),
                _libdevice_name(reachable.use_of(node)),
            ):
                return reachable.locate(node)
            if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, operators):
                return reachable.locate(node)
    return unit.locate(unit.tree)


def _libdevice_name(use: IntrinsicUse | None) -> str | None:
    """Return what messages call a function of libdevice that is called by its own name."""
    group, _, name = (use.intrinsic.name if use else "").partition(".")
    return user_name(f"__nv_{name}") if group == "libdevice" else None


def _called_name(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""
