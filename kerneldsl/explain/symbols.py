"""Symbols of indices, and what formulas of them say."""

from __future__ import annotations

from typing import Any, TypeAlias

from kerneldsl.utilities import modules

__all__ = [
    "Expression",
    "coordinate",
    "import_sympy",
    "is_of_thread",
    "neighbour_stride",
    "symbol",
    "variable",
]

#: A SymPy expression.
Expression: TypeAlias = Any


def import_sympy() -> Any:
    """Return the module ``sympy``.

    - raises `ToolMissingError` if it is not installed.
    """
    return modules.import_sympy("Explanations are SymPy expressions")


def symbol(name: str) -> Expression:
    """Return the symbol of an integer that is not negative, as coordinates and extents are."""
    return import_sympy().Symbol(name, integer=True, nonnegative=True)


def variable(name: str) -> Expression:
    """Return the symbol of a parameter, or of a variable with several values."""
    return import_sympy().Symbol(name, integer=True)


def coordinate(name: str, axis: int) -> Expression:
    """Return a coordinate along an axis, such as ``threadIdx.x``."""
    return symbol(f"{name}.{'xyz'[axis]}")


def is_of_thread(expression: Expression) -> bool:
    """Return whether an expression has coordinates of a thread in it."""
    return any(
        str(each).startswith("threadIdx.") or str(each) == "laneid"
        for each in expression.free_symbols
    )


def neighbour_stride(offset: Expression) -> Expression | None:
    """Return the elements from a thread's access to that of its neighbour along x.

    ``None`` if that is not the same for all, or not known.

    Examples
    --------
    >>> x, pitch = coordinate("threadIdx", 0), symbol("a.shape[1]")
    >>> neighbour_stride(pitch * x + 3)
    a.shape[1]
    >>> neighbour_stride(x**2) is None
    True
    """
    along = coordinate("threadIdx", 0)
    step = import_sympy().expand(offset.subs(along, along + 1) - offset)
    return None if is_of_thread(step) else step
