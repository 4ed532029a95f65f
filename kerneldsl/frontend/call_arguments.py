"""The arguments of a call: in the order of the parameters, and as intrinsics take them.

An intrinsic may take a function, such as the operation of a reduction, or the text of ``kd.ptx``.
``kd.load(a, i)`` is ``kd_load_0(a[i])`` in the normal form, and ``kd.store(a, i, v)`` the statement
``a[i] = kd_store_0(v)``, so that every analysis sees an access.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from inspect import CO_VARARGS
from types import FunctionType
from typing import Any

from kerneldsl.errors.values import safe_repr
from kerneldsl.frontend.local_functions import LocalFunction
from kerneldsl.frontend.report import Reporter
from kerneldsl.frontend.statics import StaticEvaluator
from kerneldsl.frontend.trees import assign, load, walk_here
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.language.intrinsics.intrinsic import Effect, Intrinsic, Typing
from kerneldsl.utilities.formatting import format_count

__all__ = [
    "access_of",
    "bind_arguments",
    "checked_operation",
    "default_values",
    "gathered",
    "is_none",
    "read_inline_call",
    "rest_in_tuple",
    "statements_of_access",
]


def bind_arguments(
    call: ast.Call,
    name: str,
    parameters: Sequence[str],
    required: int | None = None,
    *,
    reporter: Reporter,
    aliases: Mapping[str, str] | None = None,
    optional: Collection[str] = (),
    positional_count: int | None = None,
) -> dict[str, ast.expr]:
    """Map parameters to the expressions that a call gives them.

    - `name`: name of the called function, for the message.
    - `parameters`: its parameters, in order.
    - `required`: number of parameters without a default; by default all.
    - `aliases`: other spellings of parameters.
    - `optional`: parameters with a default, wherever they are.
    - `positional_count`: number of parameters that can be passed by position; by default all.
    - returns: in the order of the parameters; parameters that are left out are missing.
    """
    aliases = aliases or {}
    given: dict[str, ast.expr] = {}
    most = len(parameters) if positional_count is None else positional_count
    by_name = [f"{each}=…" for each in parameters[most:]]
    signature = f"{name}({', '.join([*parameters[:most], *by_name])})"
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


def rest_in_tuple(call: ast.Call, function: FunctionType) -> ast.Call:
    """Return a call with one tuple for the parameter ``*rest``, if the function has one."""
    code = function.__code__
    if not code.co_flags & CO_VARARGS:
        return call
    count = code.co_argcount
    return gathered(call, count, code.co_varnames[count + code.co_kwonlyargcount])


def gathered(call: ast.Call, count: int, rest: str) -> ast.Call:
    """Return a call with one tuple, by the name `rest`, for all arguments after `count`."""
    others = ast.copy_location(ast.Tuple(call.args[count:], ast.Load()), call)
    keywords = [*call.keywords, ast.keyword(rest, others)]
    return ast.copy_location(ast.Call(call.func, call.args[:count], keywords), call)


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


def is_none(node: ast.expr | None) -> bool:
    """Return whether no function is given."""
    return node is None or (isinstance(node, ast.Constant) and node.value is None)


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
        is_name = isinstance(node, ast.Name | ast.Attribute)
        example = f"{ast.unparse(node)}(a, b)" if is_name else "a * b"
        reporter.fail(
            node,
            f"{what}, which is not a function that a kernel can call",
            f"Name a function of two values that returns one, such as lambda a, b: {example}",
        )
    parameters = callee.parameters if local is None else local.parameters
    code = getattr(callee.function, "__code__", None)
    gathers = code is not None and code.co_flags & CO_VARARGS if local is None else local.rest
    if len(parameters) != 2 or gathers:
        shown = [*parameters[:-1], f"*{parameters[-1]}"] if gathers else parameters
        reporter.fail(
            node,
            f"{what}, which takes {', '.join(shown) or 'no arguments'}",
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


_CALL = 'kd.ptx("add.s32 $0, $1, $2;", a, b, out=kd.int32)'
#: A dollar sign before another one, or before an operand's number.
_DOLLAR = re.compile(r"\$(\$|\d+)?")


def read_inline_call(
    node: ast.Call, intrinsic: Intrinsic, statics: StaticEvaluator, reporter: Reporter
) -> tuple[dict[str, Any], list[ast.expr]]:
    """Return the constants of a call, and the expressions of the values that it takes.

    Raises where the text names an operand that there is not, or leaves out a result: LLVM would
    end the process over it.
    """
    static: dict[str, Any] = {"out": (), "pure": False}
    for keyword in node.keywords:
        if keyword.arg not in static:
            reporter.fail(
                keyword,
                f"kd.ptx has no parameter {keyword.arg!r}",
                f"Write {_CALL}, and pure=True where the result depends on the values alone",
            )
        static[keyword.arg] = statics.argument(intrinsic, keyword.arg, keyword.value)
    if not node.args:
        reporter.fail(node, "kd.ptx was given no text", f"Write {_CALL}")
    first, *values = node.args
    if any(isinstance(value, ast.Starred) for value in node.args):
        reporter.fail(node, "* cannot be used in kd.ptx", "Name each value")
    text = static["text"] = statics.argument(intrinsic, "text", first)
    if not isinstance(text, str) or not text.strip() or not text.isascii() or "\0" in text:
        reporter.fail(
            first,
            f"kd.ptx: the text is {safe_repr(text)}",
            f"Write {_CALL}",
            limit="It must be ASCII text of instructions, known when the kernel is compiled",
            value=text,
        )
    if not isinstance(static["pure"], bool):
        reporter.fail(node, f"kd.ptx: pure is {safe_repr(static['pure'])}", "Write pure=True")
    _check_operands(text, len(static["out"]), len(values), first, reporter)
    return static, values


def _check_operands(
    text: str, results: int, values: int, node: ast.expr, reporter: Reporter
) -> None:
    named = set()
    for found in _DOLLAR.finditer(text):
        if found[1] is None:
            reporter.fail(
                node,
                f"kd.ptx: {text[found.start() : found.start() + 6]!r} in {text!r} is not an "
                "operand",
                "Write $0, $1, … for operands, and $$ for a dollar sign",
            )
        if found[1] != "$":
            named.add(int(found[1]))
    count = results + values
    beyond = sorted(number for number in named if number >= count)
    if beyond:
        reporter.fail(
            node,
            f"kd.ptx: {text!r} names ${beyond[0]}",
            f"Pass more values, or declare the results with out=: {_CALL}",
            limit=f"There are {format_count(results, 'result')} and "
            f"{format_count(values, 'value')}, "
            + (f"$0 to ${count - 1}, results first" if count else "so the text has no operands"),
            value=beyond[0],
        )
    missing = sorted(set(range(results)) - named)
    if missing:
        reporter.fail(
            node,
            f"kd.ptx: {text!r} does not name ${missing[0]}, a result",
            "Write to it, or leave it out of out=",
            value=missing[0],
        )
