"""Which variables hold tuples, whose elements are no memory."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics import Typing

__all__ = ["tuple_lengths"]


def tuple_lengths(
    unit: FunctionUnit, parameters: Mapping[str, int] | None = None
) -> dict[str, int | None]:
    """Map variables that hold a tuple to its length; ``None`` where that is not known.

    Parameters
    ----------
    unit : FunctionUnit
        The function.
    parameters : mapping, optional
        Parameters that are tuples, and their lengths.
    """
    found: dict[str, int | None] = dict(parameters or {})
    for name, captured in unit.constants.items():
        if isinstance(captured.value, tuple):
            found[name] = len(captured.value)
    assignments = [
        (target.id, node.value)
        for node in ast.walk(unit.tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
    changed = True
    while changed:
        changed = False
        for name, value in assignments:
            if name not in found and _is_tuple(value, unit, found):
                found[name] = _length(value, unit, found)
                changed = True
    return found


def _is_tuple(node: ast.expr, unit: FunctionUnit, known: Mapping[str, int | None]) -> bool:
    match node:
        case ast.Tuple():
            return True
        case ast.Name():
            return node.id in known
        case ast.Attribute():
            return node.attr in ("shape", "strides")
        case ast.IfExp():
            return _is_tuple(node.body, unit, known)
        case ast.Call():
            use, callee = unit.use_of(node), unit.callee_of(node)
            if use is not None:
                return use.intrinsic.typing is Typing.INDEX_TUPLE and use.static["ndim"] > 1
            if callee is not None:
                return any(
                    isinstance(n, ast.Return) and isinstance(n.value, ast.Tuple)
                    for n in ast.walk(callee.tree)
                )
    return False


def _length(node: ast.expr, unit: FunctionUnit, known: Mapping[str, int | None]) -> int | None:
    if isinstance(node, ast.Tuple):
        return len(node.elts)
    if isinstance(node, ast.Name):
        return known[node.id]
    use = unit.use_of(node)
    return use.static["ndim"] if use is not None else None
