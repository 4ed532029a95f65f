"""Floats given to ``range``, which Python refuses, and Numba cuts off without a word.

Only what is certain is found: the types are those that are inferred without Numba.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from kerneldsl.analysis.inferred_types import InferredTypes
from kerneldsl.analysis.library_names import library_name
from kerneldsl.errors import KernelTypingError
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.kinds import Kind

__all__ = ["refuse_float_ranges"]


def refuse_float_ranges(unit: FunctionUnit, kinds: Sequence[Kind]) -> None:
    """Look at each ``range`` of a kernel, and of what it calls, for arguments of given kinds.

    Raises `KernelTypingError` if a float is given to one.
    """
    if not any(_ranges(each) for each in unit.reachable()):
        return
    for types in InferredTypes(unit, kinds).of_calls():
        for call in _ranges(types.unit):
            for argument in call.args:
                name = types.of(argument)
                if name is not None and ELEMENT_TYPES[name].is_float:
                    raise _refusal(types.unit, argument, name)


def _ranges(unit: FunctionUnit) -> list[ast.Call]:
    """Return the calls of ``range`` that are given more than a constant integer."""
    return [
        node
        for node in walk_here(unit.tree)
        if isinstance(node, ast.Call)
        and not all(isinstance(a, ast.Constant) and type(a.value) is int for a in node.args)
        and library_name(node.func, unit.namespace) == "range"
    ]


def _refusal(unit: FunctionUnit, argument: ast.expr, name: str) -> KernelTypingError:
    text = ast.unparse(argument)
    remedy = f"Write int({text})"
    if isinstance(argument, ast.BinOp) and isinstance(argument.op, ast.Div):
        remedy += f", or {ast.unparse(argument.left)} // {ast.unparse(argument.right)}"
    return KernelTypingError(
        f"{unit.qualname} gives {text}, a {name}, to range",
        where=unit.locate(argument),
        value=text,
        limit="range takes integers, as in Python",
        remedy=remedy,
    )
