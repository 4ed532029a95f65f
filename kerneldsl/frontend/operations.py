"""Functions that an intrinsic is given, such as the operation of a reduction."""

from __future__ import annotations

import ast

from kerneldsl.frontend.lambdas import function_of_lambda
from kerneldsl.frontend.local_functions import LocalFunction
from kerneldsl.frontend.report import Reporter
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Effect

__all__ = ["checked_operation", "is_none", "local_lambda"]


def is_none(node: ast.expr | None) -> bool:
    """Return whether no function is given."""
    return node is None or (isinstance(node, ast.Constant) and node.value is None)


def local_lambda(node: ast.Lambda, name: str) -> LocalFunction:
    """Return a lambda that is in a call as a function in the function around it."""
    function = function_of_lambda(node, name)
    parameters = tuple(each.arg for each in (*node.args.posonlyargs, *node.args.args))
    return LocalFunction(name, function, parameters, len(parameters), {})


def checked_operation(
    reporter: Reporter,
    node: ast.expr,
    callee: FunctionUnit | None,
    local: LocalFunction | None,
    what: str,
) -> FunctionUnit:
    """Return the unit of what a node names, and refuse what is no function of two values alone.

    `callee` is that unit, or ``None`` where kernels can call no such function; `local` is the
    function inside the surrounding one. `what` says in a message what is given it.
    """
    what = f"{what} is {ast.unparse(node)}"
    if callee is None:
        reporter.fail(
            node,
            f"{what}, which is not a function that a kernel can call",
            "Name a function of two values that returns one, such as lambda a, b: a * b",
        )
    parameters = callee.parameters if local is None else local.parameters
    if len(parameters) != 2:
        reporter.fail(
            node,
            f"{what}, which takes {', '.join(parameters) or 'no arguments'}",
            "Give a function of two values",
        )
    hidden = callee.parameters[2:]
    if hidden:
        reporter.fail(
            node,
            f"{what}, which reads {hidden[0]}, a variable of the function around it",
            "Compute from the two values, and from names outside of the kernel",
            limit="It combines values of several threads, which may have different values of it",
        )
    for unit in callee.reachable():
        if unit.linked is not None and not unit.linked.is_pure:
            reporter.fail(
                node,
                f"{what}, which calls code that is linked, {unit.name}",
                "Declare that with pure=True if its result depends on its arguments alone",
                limit="Which thread calls it, and how often, is not defined",
            )
        for use in unit.uses.values():
            if use.intrinsic.effect is not Effect.NONE or use.intrinsic.uniform_in is not None:
                reporter.fail(
                    node,
                    f"{what}, which uses kd.{use.intrinsic.name}",
                    "Compute from the two values alone",
                    limit="Which thread calls it, and how often, is not defined",
                )
    return callee
