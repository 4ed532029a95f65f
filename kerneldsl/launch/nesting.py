"""Errors for expressions that nest beyond the recursion limit, and for names that moved.

CPython's `copy` and `ast`, and Numba, walk trees by recursion; a sum of hundreds of terms is a tree
as deep as it has terms. It is not rebalanced, since that would change its rounding.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from kerneldsl.errors import CompileError, SourceLocation, UnsupportedConstructError

__all__ = ["refuse_deep_nesting", "refuse_moved_names"]


@contextmanager
def refuse_moved_names() -> Iterator[None]:
    """Raise a `CompileError` if a release of Numba or llvmlite has moved a name."""
    try:
        yield
    except (ImportError, AttributeError) as error:
        from kerneldsl.lowering.numba_internals.moved import moved_name

        moved = moved_name(error)
        if moved is None:
            raise
        raise moved from error


@contextmanager
def refuse_deep_nesting(function: Any) -> Iterator[None]:
    """Raise a `RecursionError` again as an `UnsupportedConstructError`.

    `function` is the Python function that the block reads or compiles.
    """
    try:
        yield
    except (RecursionError, CompileError) as error:
        if not _is_of_depth(error):
            raise
        where = error.where if isinstance(error, CompileError) else None
        if isinstance(function, FunctionType):
            code = function.__code__
            where = SourceLocation(
                code.co_filename, code.co_firstlineno, function=function.__qualname__
            )
        raise UnsupportedConstructError(
            "an expression nests too deeply to be compiled",
            where=where,
            limit="Each operator of a long sum is one more level; Python follows "
            f"{sys.getrecursionlimit()} levels of calls, several for each operator",
            remedy="Divide it into statements, such as total = a + b and then total += c, or write "
            "a loop",
        ) from error


def _is_of_depth(error: BaseException | None) -> bool:
    """Return whether an error, or one that led to it, is a `RecursionError`."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, RecursionError):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False
