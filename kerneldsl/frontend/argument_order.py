"""Bring the arguments of a call into the order of the parameters."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from types import FunctionType
from typing import Any

from kerneldsl.frontend.report import Reporter
from kerneldsl.utilities.formatting import format_count

__all__ = ["bind_arguments", "default_values"]


def bind_arguments(
    call: ast.Call,
    name: str,
    parameters: Sequence[str],
    required: int,
    *,
    reporter: Reporter,
    aliases: Mapping[str, str] | None = None,
    optional: Collection[str] = (),
    positional_count: int | None = None,
) -> dict[str, ast.expr]:
    """Map parameters to the expressions that a call gives them.

    Parameters
    ----------
    call : ast.Call
        The call.
    name : str
        What is called, for the message.
    parameters : sequence of str
        Its parameters, in order.
    required : int
        How many of them have no default.
    reporter : Reporter
        Raises where the call does not fit.
    aliases : mapping, optional
        Other spellings of parameters.
    optional : collection of str, optional
        Parameters with a default, wherever they are.
    positional_count : int, optional
        How many of them can be given by position; by default all.

    Returns
    -------
    dict
        In the order of the parameters; parameters that are left out are missing.
    """
    aliases = aliases or {}
    given: dict[str, ast.expr] = {}
    shown = list(parameters)
    if positional_count is not None and positional_count < len(parameters):
        shown.insert(positional_count, "*")
    signature = f"{name}({', '.join(shown)})"
    most = len(parameters) if positional_count is None else positional_count
    if len(call.args) > most:
        takes = format_count(most, "argument" if most == len(parameters) else "positional argument")
        reporter.fail(
            call,
            f"{name} takes {takes}, and {len(call.args)} were given",
            f"Call it as {signature}",
        )
    given.update(zip(parameters, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg is None:
            reporter.fail(call, "** cannot be used in a kernel", "Name each argument")
        parameter = aliases.get(keyword.arg, keyword.arg)
        if parameter not in parameters:
            reporter.fail(
                keyword, f"{name} has no parameter {keyword.arg!r}", f"Call it as {signature}"
            )
        if parameter in given:
            reporter.fail(
                keyword, f"{name}: {keyword.arg!r} is given twice", f"Call it as {signature}"
            )
        given[parameter] = keyword.value
    missing = [p for p in parameters[:required] if p not in given and p not in optional]
    if missing:
        reporter.fail(call, f"{name}: {', '.join(missing)} not given", f"Call it as {signature}")
    return {p: given[p] for p in parameters if p in given}


def default_values(function: FunctionType) -> dict[str, Any]:
    """Return the parameters of a Python function that have default values, with those."""
    code = function.__code__
    defaults = function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    found = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    return found | (function.__kwdefaults__ or {})
