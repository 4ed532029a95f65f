"""Numba's errors in the words of this project, with the kernel's line first."""

from __future__ import annotations

import ast
import re

from numba import config

from kerneldsl.analysis.expressions import text_of
from kerneldsl.errors import (
    CompileError,
    KernelError,
    KernelTypingError,
    SourceLocation,
    UnsupportedConstructError,
)
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import Kind
from kerneldsl.lowering.error_findings import Finding, find_cause
from kerneldsl.lowering.float_variables import float_operand
from kerneldsl.lowering.numba_internals.moved import moved_name
from kerneldsl.lowering.numba_text import first_line, message_of
from kerneldsl.utilities.signal_errors import error_of_handler

__all__ = ["NO_JIT", "translate"]

#: What is wrong, and what to do, where Numba is told to compile nothing.
NO_JIT = (
    "NUMBA_DISABLE_JIT is set, so Numba compiles nothing",
    "Unset NUMBA_DISABLE_JIT; to look into a kernel, use @kd.kernel(debug=True)",
)


def translate(error: BaseException, unit: FunctionUnit, kinds: tuple[Kind, ...]) -> KernelError:
    """Turn an error of Numba or LLVM into ours.

    The result, of which the error becomes the cause, is a `KernelTypingError` where types do not
    fit, an `UnsupportedConstructError` where a construct is not supported, else a `CompileError`.
    An error that is one of ours already is returned as it is; one over a name that a release has
    moved says which.

    Raises what a handler of a signal raised meanwhile, which is no error of the compiler's.
    """
    raised = error_of_handler(error)
    if raised is not None:
        raise raised
    own = _own_error(error) or moved_name(error)
    if own is not None:
        return own
    if config.DISABLE_JIT:
        what, remedy = NO_JIT
        disabled = CompileError(what, value=unit.name, remedy=remedy)
        disabled.__cause__ = error
        return disabled
    text = message_of(error)
    finding = find_cause(text, unit, kinds)
    where, expression = _locate(error, unit, finding)
    arguments = ", ".join(
        f"{name}: {kind}" for name, kind in zip(unit.parameters, kinds, strict=False)
    )
    what = finding.what if finding is not None else first_line(text)
    if expression is not None and finding is not None:
        what = f"{what}, in `{expression}`"
    is_of_types = finding is not None and finding.is_of_types
    kind = KernelTypingError if is_of_types else _class_of(error)
    reason = float_operand(unit, kinds, where.lineno) if kind is KernelTypingError else None
    if reason is not None:
        what = f"{what}; {reason}"
    result = kind(
        f"{unit.name}({arguments}) cannot be compiled: {what}",
        where=where,
        value=error,
        remedy=finding.remedy
        if finding is not None
        else "error.details has the compiler's own text",
    )
    result.__cause__ = error
    return result


def _own_error(error: BaseException | None) -> KernelError | None:
    """Return an error of ours that Numba passed on, alone or wrapped in one of its own."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KernelError):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def _class_of(error: BaseException) -> type[KernelError]:
    if isinstance(error, TypeError):  # NumPy's, of two types that nothing holds
        return KernelTypingError
    names = {base.__name__ for base in type(error).__mro__}
    if names & {"UnsupportedError", "UnsupportedBytecodeError", "UnsupportedParforsError"}:
        return UnsupportedConstructError
    if names & {"TypingError", "NotDefinedError", "NumbaTypeError", "IRError"}:
        return KernelTypingError
    return CompileError


def _locate(
    error: BaseException, unit: FunctionUnit, finding: Finding | None
) -> tuple[SourceLocation, str | None]:
    """Return the innermost place that Numba names, or else the one that the finding is about."""
    text = message_of(error)
    for match in _TYPED_AT.finditer(text):
        filename, line = match[1], int(match[2])
        if any(_holds(reached, filename, line) for reached in unit.reachable()):
            return _locate_line(unit, filename, line, finding)
    place = getattr(error, "loc", None)
    return _locate_line(
        unit, getattr(place, "filename", None), getattr(place, "line", None), finding
    )


#: Numba says from the innermost function to the outermost what it was doing.
_TYPED_AT = re.compile(r"^During: typing of .* at (.+) \((\d+)\)$", re.MULTILINE)


def _holds(unit: FunctionUnit, filename: str | None, line: int | None) -> bool:
    tree = unit.tree
    last = tree.end_lineno or tree.lineno
    return line is not None and filename == unit.filename and tree.lineno <= line <= last


def _locate_line(
    unit: FunctionUnit, filename: str | None, line: int | None, finding: Finding | None
) -> tuple[SourceLocation, str | None]:
    if all(filename != reached.filename for reached in unit.reachable()):
        line = None  # a place in Numba itself
    for reached in unit.reachable():
        tree = reached.tree
        is_inside = _holds(reached, filename, line)
        # What Numba cannot place it places at the function's head.
        is_placed = is_inside and line != tree.lineno
        if is_inside or (line is None and finding is not None):
            node = _node_of(tree, line if is_placed else None, finding)
            if node is not None:
                where = reached.locate(node)
                return where, text_of(node, where.line)
        if is_inside and line is not None:
            return SourceLocation(reached.filename, line, function=reached.qualname), None
    return unit.locate(unit.tree), None


def _node_of(tree: ast.FunctionDef, line: int | None, finding: Finding | None) -> ast.expr | None:
    if finding is None:
        return None
    nodes = [
        node
        for node in walk_here(tree)
        if isinstance(node, ast.expr)
        and (line is None or node.lineno <= line <= (node.end_lineno or node.lineno))
    ]
    found = next(filter(finding.matches, nodes), None)
    if found is not None or finding.may_match is None:
        return found
    possible = list(filter(finding.may_match, nodes))
    return possible[0] if len({ast.dump(node) for node in possible}) == 1 else None
