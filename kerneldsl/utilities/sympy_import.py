"""SymPy, imported when something first needs it."""

from __future__ import annotations

from typing import Any

from kerneldsl.errors import ToolMissingError

__all__ = ["import_sympy"]


def import_sympy(purpose: str) -> Any:
    """Return the module ``sympy``.

    - `purpose`: what is done with it, as a sentence of the error.
    - raises `ToolMissingError` if it is not installed.
    """
    try:
        import sympy
    except ImportError as error:
        raise ToolMissingError(
            "SymPy is not installed", limit=purpose, remedy='pip install "kerneldsl[sym]"'
        ) from error
    return sympy
