"""The errors that are raised when a kernel cannot be read or compiled.

CPython's `copy` and `ast`, and Numba, walk trees by recursion; a sum of hundreds of terms is a tree
as deep as it has terms. It is not rebalanced, since that would change its rounding.
"""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any

from kerneldsl.errors import CompileError, KernelError, SourceLocation, UnsupportedConstructError
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.frontend.user_places import move_to_user
from kerneldsl.utilities.address_space import out_of_addresses
from kerneldsl.utilities.tracebacks import causes_of

__all__ = ["compile_error", "too_deep"]


def compile_error(error: Exception, unit: FunctionUnit) -> Exception:
    """Return what to raise for an error of compiling a kernel: itself, or one that says more.

    Errors over names that a release of Numba or llvmlite has moved say which. Others say that an
    expression nests too deeply, or that there is a limit on addresses. A place in our files becomes
    the user's.
    """
    if isinstance(error, ImportError | AttributeError):
        from kerneldsl.lowering.numba_internals.moved import moved_name

        error = moved_name(error) or error
    if isinstance(error, KernelError):
        move_to_user(error, unit)
    elif isinstance(error, MemoryError):
        where = unit.locate(unit.tree)
        return out_of_addresses(f"compiling {unit.qualname}", where) or error
    return too_deep(error, None) or error


def too_deep(error: Exception, function: Any) -> UnsupportedConstructError | None:
    """Return the error of an expression beyond the recursion limit; ``None`` for other errors.

    `function` is the Python function that was read, if its place is not in the error.
    """
    if not isinstance(error, RecursionError | CompileError):
        return None
    if not any(isinstance(each, RecursionError) for each in causes_of(error)):
        return None
    where = error.where if isinstance(error, CompileError) else None
    if isinstance(function, FunctionType):
        code = function.__code__
        where = SourceLocation(
            code.co_filename, code.co_firstlineno, function=function.__qualname__
        )
    return UnsupportedConstructError(
        "an expression, or a chain of elif, nests too deeply to be compiled",
        where=where,
        limit="Each operator of a long sum, and each elif, is one more level; Python follows "
        f"{sys.getrecursionlimit()} levels of calls, several for each",
        remedy="Divide a sum into statements, such as total = a + b and then total += c. Take the "
        "values of a long chain from a table, such as a captured array",
    )
