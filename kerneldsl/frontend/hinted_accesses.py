"""Make subscripts of ``kd.load`` and ``kd.store``, so that every analysis sees an access.

In the normal form ``kd.load(a, i)`` is ``kd_load_0(a[i])``, and ``kd.store(a, i, v)`` the statement
``a[i] = kd_store_0(v)``. A target that has hints for caches takes call and access together.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from kerneldsl.frontend.report import Reporter
from kerneldsl.frontend.syntax import assign, load
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.language.intrinsics.intrinsic import Intrinsic, Typing

__all__ = ["access_of", "statements_of_access"]


def access_of(
    node: ast.Call,
    intrinsic: Intrinsic,
    arguments: list[ast.expr],
    statement: ast.expr | None,
    reporter: Reporter,
) -> list[ast.expr]:
    """Return the arguments with a subscript in the place of the array and its index.

    `statement` is the expression that is a separate statement, which a store must be.
    """
    array, index, *value = arguments
    if value and node is not statement:
        reporter.fail(
            node,
            f"kd.{intrinsic.name} is used as a value",
            f"Write kd.{intrinsic.name}(…) in a separate statement",
            limit="It gives none, as an assignment",
        )
    element = ast.Subscript(array, index, ast.Store() if value else ast.Load())
    return [ast.copy_location(element, node), *value]


def statements_of_access(node: ast.Expr, uses: Mapping[str, IntrinsicUse]) -> list[ast.stmt]:
    """Return the assignment that a statement is if it is a store, else the statement.

    The index is computed before the value, as Python does with the arguments of a call.
    """
    match node.value:
        case ast.Call(ast.Name(name), [ast.Subscript() as element, value]) as call if (
            name in uses and uses[name].intrinsic.typing is Typing.ELEMENT
        ):
            made: list[ast.stmt] = []
            if _calls(element.slice) and _calls(value):
                place = f"{name}_index"
                made.append(assign(place, element.slice))
                element.slice = load(place)
            call.args = [value]
            made.append(ast.Assign([element], call))
            return [ast.fix_missing_locations(ast.copy_location(each, node)) for each in made]
    return [node]


def _calls(node: ast.expr) -> bool:
    return any(isinstance(each, ast.Call) for each in walk_here(node))
