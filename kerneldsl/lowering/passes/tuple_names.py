"""Analysis of variables that hold tuples, whose elements are not memory."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from kerneldsl.analysis.bindings import bindings
from kerneldsl.analysis.library_names import library_name
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Typing
from kerneldsl.language.kinds import Kind, TupleKind

__all__ = ["TupleLengths", "tuple_arguments", "tuple_lengths"]

#: Functions that give a tuple.
_TUPLE_FUNCTIONS = frozenset(
    ("divmod", "math.modf", "math.frexp", "numpy.divmod", "numpy.modf", "numpy.frexp")
)

#: Parameters or variables that hold a tuple, to its length; ``None`` where that is not known.
TupleLengths: TypeAlias = Mapping[str, int | None]


def tuple_arguments(
    kernel: FunctionUnit, kinds: Sequence[Kind]
) -> dict[FunctionUnit, dict[str, int | None]]:
    """Find the parameters that are given a tuple, of a kernel and of all functions it calls.

    The result maps each function to its parameters that are tuples somewhere.
    """
    units = list(kernel.reachable())
    found: dict[FunctionUnit, dict[str, int | None]] = {unit: {} for unit in units}
    for name, kind in zip(kernel.parameters, kinds, strict=True):
        if isinstance(kind, TupleKind):
            found[kernel][name] = len(kind.elements)
    changed = True
    while changed:
        changed = False
        for unit in units:
            known = tuple_lengths(unit, found[unit])
            for node in walk_here(unit.tree):
                callee = unit.callee_of(node)
                if callee is None or not isinstance(node, ast.Call):
                    continue
                for name, argument in zip(callee.parameters, node.args, strict=False):
                    if name not in found[callee] and _is_tuple(argument, unit, known):
                        found[callee][name] = None
                        changed = True
    return found


def tuple_lengths(
    unit: FunctionUnit, parameters: TupleLengths | None = None
) -> dict[str, int | None]:
    """Map variables that hold a tuple to its length; ``None`` where that is not known.

    `parameters` are those that are tuples, with their lengths.
    """
    found: dict[str, int | None] = dict(parameters or {})
    for name, captured in unit.constants.items():
        if isinstance(captured.value, tuple):
            found[name] = len(captured.value)
    assignments = [
        (binding.target.id, _first(binding.value) if binding.is_item else binding.value)
        for binding in bindings(unit.tree)
        if isinstance(binding.target, ast.Name)
    ]
    changed = True
    while changed:
        changed = False
        for name, value in assignments:
            if name not in found and _is_tuple(value, unit, found):
                found[name] = _length(value, unit, found)
                changed = True
    return found


def _first(node: ast.expr) -> ast.expr:
    """Return the first item of a tuple; what any other value gives is taken for no tuple."""
    match node:
        case ast.Tuple([first, *_]) | ast.List([first, *_]):
            return first
        case ast.Call(ast.Name("enumerate"), [items, *_]):
            return ast.Tuple([ast.Constant(0), _first(items)], ast.Load())
        case ast.Call(ast.Name("zip"), several):
            return ast.Tuple([_first(each) for each in several], ast.Load())
    return ast.Constant(None)


def _is_tuple(node: ast.expr, unit: FunctionUnit, known: TupleLengths) -> bool:
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
                    for n in walk_here(callee.tree)
                )
            return library_name(node.func, unit.namespace) in _TUPLE_FUNCTIONS
    return False


def _length(node: ast.expr, unit: FunctionUnit, known: TupleLengths) -> int | None:
    if isinstance(node, ast.Tuple):
        return len(node.elts)
    if isinstance(node, ast.Name):
        return known[node.id]
    use = unit.use_of(node)
    return use.static["ndim"] if use is not None else None
