"""Refusals of the front end, and how things are spelled in them."""

from __future__ import annotations

import ast
import builtins
import enum
import types
from typing import NoReturn

from kerneldsl.frontend.captured import CAPTURABLE, holds_functions
from kerneldsl.frontend.constructs import BUILTINS
from kerneldsl.frontend.foreign import foreign_group, foreign_remedy, is_numba_type
from kerneldsl.frontend.report import Reporter
from kerneldsl.frontend.resolve import HOST_LIBRARIES, Resolved
from kerneldsl.language.intrinsics.intrinsic import Dim3, Intrinsic, IntrinsicGroup, Typing

__all__ = [
    "WRITE_FUNCTION",
    "is_bound",
    "is_read",
    "message_of",
    "refuse_builtin",
    "refuse_foreign",
    "refuse_group",
    "refuse_unknown",
    "spelling",
]


#: What to do about an object that can be called, and is no function that can be compiled.
WRITE_FUNCTION = (
    "Write a function that computes the same of numbers, decorate it with @kd.func, and give it "
    "what the object holds as arguments"
)
#: Members of a group that a message lists.
_MOST_LISTED = 40


def refuse_group(reporter: Reporter, node: ast.expr, path: str, group: IntrinsicGroup) -> None:
    """Say which members there are of a group that is used bare."""
    members = [m if isinstance(group, Dim3) else f"{m}(…)" for m in dir(group)]
    reporter.fail(
        node,
        f"{path} is used without naming a member",
        f"Write {' or '.join(f'{path}.{m}' for m in members)}"
        if len(members) <= _MOST_LISTED
        else f"Write {path}.{members[0]}, or another of the {len(members)} of dir({path})",
    )


def refuse_foreign(reporter: Reporter, node: ast.expr, name: str) -> NoReturn:
    """Refuse a name of numba.cuda's that has no meaning here."""
    if foreign_group(name):
        from kerneldsl.language.intrinsics.table import INTRINSICS

        members = [n for n in INTRINSICS if n.startswith(name + ".")]
        remedy = f"Write {' or '.join(f'kd.{m}' for m in members)}"
        reporter.fail(node, f"cuda.{name} is used without naming a member", remedy)
    reporter.fail(node, f"numba.cuda's {name} is not available in a kernel", foreign_remedy(name))


def refuse_builtin(reporter: Reporter, node: ast.expr, resolved: Resolved) -> None:
    """Refuse a call of one of Python's own functions that can never be compiled."""
    name = getattr(resolved.value, "__name__", None)
    if isinstance(name, str) and getattr(builtins, name, None) is resolved.value:
        remedy = BUILTINS.get(name)
        if remedy is not None:
            reporter.fail(node, f"{name}() cannot be used in a kernel", remedy)


def refuse_unknown(reporter: Reporter, node: ast.expr, resolved: Resolved) -> None:
    """Refuse an outside object, unless it is one that Numba may know."""
    value, path = resolved.value, resolved.path
    if isinstance(value, types.FunctionType):
        if (value.__module__ or "").partition(".")[0] in HOST_LIBRARIES:
            reporter.fail(
                node,
                f"{path} is a function for the host",
                "Call it outside the kernel",
                value=value,
            )
        return
    is_fine = (
        isinstance(value, type | types.ModuleType)
        or (isinstance(value, types.BuiltinFunctionType) and not is_bound(value))
        or is_numba_type(value)
        or type(value).__module__.partition(".")[0] in ("numpy", "numba", "numba_cuda")
        or getattr(builtins, path, None) is value
    )
    # A module's generic functions: np.sqrt is a ufunc, np.sum an array function dispatcher.
    if not is_fine:
        remedy = f"Pass {path} as an argument, or capture the numbers that are needed of it"
        if isinstance(value, list):
            remedy = f"Capture tuple({path}) or np.array({path}) instead, under its own name"
        elif isinstance(value, enum.Enum):
            remedy = f"Write {path}.value, or make the class an IntEnum or IntFlag"
        elif holds_functions(value):
            remedy = f"Call its functions, {path}[0](…), or loop over them, for f in {path}"
        elif callable(value):
            remedy = WRITE_FUNCTION
        elif isinstance(value, dict):
            remedy = "Give each value that is needed a name of its own, and capture that"
        reporter.fail(
            node,
            f"The kernel captures {path}, which is of type {type(value).__name__}",
            remedy,
            limit=CAPTURABLE,
            value=value,
        )


def is_bound(value: object) -> bool:
    """Return whether a value is a method of an object, other than a module's function in C."""
    owner = getattr(value, "__self__", None)
    return owner is not None and not isinstance(owner, types.ModuleType)


def is_read(intrinsic: Intrinsic) -> bool:
    """Return whether an intrinsic is read, as ``threadIdx.x``, and not called."""
    return intrinsic.typing is Typing.INDEX


def spelling(intrinsic: Intrinsic) -> str:
    """Return how an intrinsic is written."""
    if is_read(intrinsic):
        return f"kd.{intrinsic.name}"
    return f"kd.{intrinsic.name}({', '.join(intrinsic.parameters)})"


def message_of(arguments: list[ast.expr]) -> ast.expr:
    """Return the text of an exception, which is made on the host: what was written, as a string."""
    first = arguments[0]
    if len(arguments) == 1 and isinstance(first, ast.Constant):
        text = str(first.value)
    elif len(arguments) == 1 and isinstance(first, ast.JoinedStr):
        text = "".join(
            str(part.value) if isinstance(part, ast.Constant) else "{" + _inside(part) + "}"
            for part in first.values
        )
    else:
        text = ", ".join(ast.unparse(a) for a in arguments)
    return ast.copy_location(ast.Constant(text), first)


def _inside(part: ast.expr) -> str:
    return ast.unparse(part.value) if isinstance(part, ast.FormattedValue) else ast.unparse(part)
