"""Test quickly whether a kernel may need a rewrite, without importing the rewrite."""

from __future__ import annotations

import ast

from kerneldsl.frontend.library_names import library_name
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["REDUCED", "may_have_rows"]

#: Methods of arrays that become loops.
REDUCED = ("sum", "prod", "mean", "max", "min", "argmax", "argmin", "any", "all")


def may_have_rows(unit: FunctionUnit, rank: int, *, has_tuples: bool) -> bool:
    """Return whether a function has more than elements of arrays with one axis; quickly.

    `rank` is the largest of its arguments, and `has_tuples` says whether some are tuples.
    """
    if rank > 1 or has_tuples:
        return True
    reachable = list(unit.reachable())
    uses = (use for each in reachable for use in each.uses.values())
    if any(len(use.static.get("shape", ())) > 1 for use in uses):
        return True
    return any(
        isinstance(node, ast.Slice)
        or (isinstance(node, ast.Attribute) and node.attr in REDUCED)
        or (isinstance(node, ast.Call) and library_name(node.func, each.namespace) == "numpy.dot")
        for each in reachable
        for node in walk_here(each.tree)
    )
