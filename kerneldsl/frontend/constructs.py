"""Constructs, parameters and results that a kernel cannot have, each with what to write instead."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from kerneldsl.frontend.report import Reporter
from kerneldsl.frontend.trees import children_of, is_text, walk_here
from kerneldsl.language.reserved import RESERVED_PREFIX

__all__ = [
    "BUILTINS",
    "NO_RESULT",
    "check_parameters",
    "check_returns",
    "refuse_assigned",
    "refuse_unsupported",
]

#: Message for a kernel that returns a value.
NO_RESULT = "A kernel must have void return type"

_LOOP = "Write a loop over kd.local.array or an array argument"
_OUTSIDE = "Do it outside the kernel"

#: Refused constructs and remedies, by the class name of the node; some versions of Python lack
#: some.
_REFUSED: dict[str, tuple[str, str]] = {
    "Try": ("try/except", "Test for the condition with if; use debug=True to find faults"),
    "TryStar": ("try/except*", "Test for the condition with if; use debug=True to find faults"),
    "With": ("with", _OUTSIDE),
    "AsyncWith": ("async with", _OUTSIDE),
    "AsyncFor": ("async for", "Write for"),
    "AsyncFunctionDef": ("async def", "Write a @kd.func function outside the kernel"),
    "ClassDef": ("a class", "Define it outside the kernel"),
    "Yield": ("yield", "Write the values into an array argument"),
    "YieldFrom": ("yield from", "Write the values into an array argument"),
    "Await": ("await", _OUTSIDE),
    "Global": ("global", "Pass an array and write into it"),
    "Nonlocal": ("nonlocal", "Pass an array and write into it"),
    "Import": ("import", "Import at the top of the file"),
    "ImportFrom": ("import", "Import at the top of the file"),
    "Delete": ("del", "Leave it out: a kernel's variables end with the thread"),
    "ListComp": ("a list comprehension", _LOOP),
    "SetComp": ("a set comprehension", _LOOP),
    "DictComp": ("a dict comprehension", _LOOP),
    "GeneratorExp": ("a generator expression", "Write a loop"),
    "List": ("a list", "Use a tuple, or kd.local.array(shape, dtype)"),
    "Set": ("a set", "Compare with ==, one value after the other"),
    "Dict": ("a dict", "Use an array argument, indexed by an integer"),
    "JoinedStr": ("an f-string", "Give print the values, separated by commas"),
    "Match": ("match", "Write if/elif/else"),
    "NamedExpr": (":=", "Assign in a separate statement"),
    "TypeAlias": ("a type alias", "Define it outside the kernel"),
    "TemplateStr": ("a template string", "Give print the values, separated by commas"),
}

_TEXT = "A kernel makes no text: give print the values, separated by commas"
_FLAG = "Join single conditions by and/or, or set a flag in a loop"
_COUNT_DOWN = "Count down, range(n - 1, -1, -1), or reverse a tuple, t[::-1]"
_SORT = "Sort before the launch, and pass the result; or sort a kd.local.array in loops"
_MEMBER = "Write the attribute itself, such as x.size"

#: Python's built-in functions that can never be compiled, by name, each with its replacement.
BUILTINS: dict[str, str] = {
    "reversed": _COUNT_DOWN,
    "sorted": _SORT,
    **dict.fromkeys(("all", "any"), _FLAG),
    **{name.lower(): _REFUSED[name][1] for name in ("List", "Set", "Dict")},
    "frozenset": _REFUSED["Set"][1],
    **dict.fromkeys(("ascii", "bin", "chr", "format", "hex", "oct", "repr", "str"), _TEXT),
    **dict.fromkeys(("delattr", "getattr", "setattr"), _MEMBER),
    **dict.fromkeys(
        (
            *("breakpoint", "bytearray", "callable", "compile", "dir", "eval", "exec", "globals"),
            *("hash", "id", "input", "issubclass", "locals", "memoryview", "object", "open"),
            *("super", "vars", "__import__"),
        ),
        _OUTSIDE,
    ),
}


def refuse_unsupported(function: ast.FunctionDef, reporter: Reporter) -> None:
    """Raise for the first construct of a function's body that cannot be compiled.

    - `function`: the function as the user wrote it; its decorators are not looked at.
    - raises `UnsupportedConstructError` with the construct's place and what to write instead.
    """
    for parameter in function.args.args:
        _refuse_reserved(parameter.arg, parameter, reporter)
    for statement in function.body:
        _visit(statement, reporter)


def _visit(node: ast.AST, reporter: Reporter) -> None:
    check = _CHECKS.get(type(node))
    if check is not None:
        check(node, reporter)
    else:
        _refuse_kind(node, reporter)
    if isinstance(node, ast.Raise):
        return  # its text is for the host alone: an f-string there is a message
    if isinstance(node, ast.Assert):
        _visit(node.test, reporter)
        return
    # Annotations are dropped, so what is in them is of no account.
    dropped = getattr(node, "annotation", None)
    for child in children_of(node):
        if child is not dropped:
            _visit(child, reporter)


def _refuse_kind(node: ast.AST, reporter: Reporter) -> None:
    refused = _REFUSED.get(type(node).__name__)
    if refused is not None:
        _refuse(node, *refused, reporter)


def _check_sequence(node: ast.List | ast.Tuple, reporter: Reporter) -> None:
    if not isinstance(node.ctx, ast.Store):
        _refuse_kind(node, reporter)
        return
    for element in node.elts:
        if isinstance(element, ast.Starred):
            _refuse(element, "* in an assignment", "Name each value", reporter)


def _check_raise(node: ast.Raise, reporter: Reporter) -> None:
    if node.cause is not None:
        _refuse(node.cause, "raise … from", "Raise without a cause", reporter)


def _check_name(node: ast.Name, reporter: Reporter) -> None:
    _refuse_reserved(node.id, node, reporter)


def _check_parameter(node: ast.arg, reporter: Reporter) -> None:
    _refuse_reserved(node.arg, node, reporter)


def _check_operator(node: ast.BinOp | ast.AugAssign, reporter: Reporter) -> None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and is_text(node.left):
        _refuse_formatting(node, reporter)
    if isinstance(node.op, ast.MatMult):
        operator = "@" if isinstance(node, ast.BinOp) else "@="
        remedy = "Write the loops, or call stdlib_kernels.linalg.matmul outside the kernel"
        _refuse(node, operator, remedy, reporter)


def _check_call(node: ast.Call, reporter: Reporter) -> None:
    if isinstance(node.func, ast.Attribute) and is_text(node.func.value):
        _refuse_formatting(node, reporter)
    if isinstance(node.func, ast.Name) and node.func.id == "print":
        odd = [each for each in node.keywords if each.arg in ("sep", "end", "file", "flush")]
        if odd:
            remedy = "Give print the values alone: it writes them on a line, with spaces between"
            _refuse(odd[0], f"{odd[0].arg}= of print", remedy, reporter)


def _refuse_formatting(node: ast.AST, reporter: Reporter) -> None:
    _refuse(node, "string formatting", "Give print the values, separated by commas", reporter)


#: Checks of nodes, by type; a node of another type is refused by its name alone.
_CHECKS: dict[type[ast.AST], Callable[[Any, Reporter], None]] = {
    ast.List: _check_sequence,
    ast.Tuple: _check_sequence,
    ast.Raise: _check_raise,
    ast.Name: _check_name,
    ast.arg: _check_parameter,
    ast.BinOp: _check_operator,
    ast.AugAssign: _check_operator,
    ast.Call: _check_call,
}


def _refuse(node: ast.AST, what: str, remedy: str, reporter: Reporter) -> None:
    reporter.fail(node, f"{what} cannot be used in a kernel", remedy)


def _refuse_reserved(name: str, node: ast.AST, reporter: Reporter) -> None:
    if name.startswith(RESERVED_PREFIX):
        reporter.fail(
            node,
            f"The name {name} begins with {RESERVED_PREFIX}",
            "Give it another name",
            limit=f"Names that begin with {RESERVED_PREFIX} are reserved for kerneldsl",
        )


def check_parameters(
    node: ast.FunctionDef, constants: Mapping[str, Any], is_device: bool, reporter: Reporter
) -> None:
    """Refuse parameters that a kernel, or a device function, cannot have."""
    arguments = node.args
    if not is_device:
        _check_compile_time(node, constants, reporter)
    odd = [(arguments.kwarg, "**")]
    if not is_device:
        odd.append(
            (arguments.posonlyargs[0] if arguments.posonlyargs else None, "positional-only ")
        )
    for parameter, kind in odd:
        if parameter is not None:
            reporter.fail(
                parameter,
                f"{node.name} has a {kind}parameter, {parameter.arg}",
                "Name each parameter, without *, ** or /",
            )


def _check_compile_time(
    node: ast.FunctionDef, constants: Mapping[str, Any], reporter: Reporter
) -> None:
    """Refuse keyword-only parameters that no space has values for, or that are assigned to."""
    for parameter in node.args.kwonlyargs:
        if parameter.arg not in constants:
            known = ", ".join(constants)
            reporter.fail(
                parameter,
                f"{node.name} has a keyword-only parameter, {parameter.arg}, without a value",
                f"Give it a value, kernel.member({parameter.arg}=…), or write it without *",
                limit="A launch or a space gives keyword-only parameters their values, which are "
                "compile-time constants" + (f"; this one has {known}" if known else ""),
            )
    refuse_assigned(node, constants, reporter)


def refuse_assigned(
    node: ast.FunctionDef, constants: Mapping[str, Any], reporter: Reporter
) -> None:
    """Refuse an assignment to a compile-time parameter."""
    names = (each for each in walk_here(node) if isinstance(each, ast.Name))
    for each in names:
        if each.id in constants and not isinstance(each.ctx, ast.Load):
            reporter.fail(
                each,
                f"{node.name} assigns to {each.id}, a compile-time parameter",
                "Use another name for the variable",
            )


def check_returns(tree: ast.FunctionDef, reporter: Reporter) -> None:
    """Refuse a kernel that returns a value, and remove the value of ``return None``."""
    for node in walk_here(tree):
        if isinstance(node, ast.Return) and node.value is not None:
            if isinstance(node.value, ast.Constant) and node.value.value is None:
                node.value = None
                continue
            reporter.fail(
                node,
                f"The kernel {tree.name} returns a value",
                "Write the result into an array argument; a function that returns a value is "
                "decorated with @kd.func",
                limit=NO_RESULT,
            )
