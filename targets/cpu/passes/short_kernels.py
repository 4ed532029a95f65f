"""Kernels with threads as short as their statements: no thread needs to be interrupted.

What is not known to be short counts as long: a loop, a function of a library that may have one
(``y.mean()``), a slice, an operation of all threads.
"""

from __future__ import annotations

import ast

from kerneldsl.analysis.operations import CONVERSIONS, SELECTIONS, called_function
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Typing

__all__ = ["is_short"]

#: Nodes that may stand for a loop.
_LOOPS = (ast.For, ast.While, ast.Slice, ast.MatMult, ast.In, ast.NotIn)
_SHORT_FUNCTIONS = CONVERSIONS | SELECTIONS | {"len", "sqrt", "exp", "log", "sin", "cos", "tanh"}
#: They take numbers, or one array.
_LEAST_OR_LARGEST = ("max", "min")
_PLACES = (Typing.INDEX, Typing.INDEX_TUPLE)


def is_short(unit: FunctionUnit) -> bool:
    """Return whether a thread of a kernel runs each statement at most once."""
    units = list(unit.reachable())
    return not any(
        each in callee.reachable() for each in units for callee in each.callees.values()
    ) and all(_is_short(node, each) for each in units for node in walk_here(each.tree))


def _is_short(node: ast.AST, unit: FunctionUnit) -> bool:
    if not isinstance(node, ast.Call):
        return not isinstance(node, _LOOPS)
    use = unit.use_of(node)
    if use is not None:
        return use.intrinsic.typing in _PLACES
    if unit.callee_of(node) is not None:
        return True
    name = called_function(node, unit.namespace)
    is_of_array = name in _LEAST_OR_LARGEST and len(node.args) == 1
    return name in _SHORT_FUNCTIONS and not is_of_array
