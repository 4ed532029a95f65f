"""Modules that somebody else may have imported, or may be importing in another thread right now."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["imported", "is_masked_array", "is_of_numba"]


def imported(name: str) -> Any:
    """Return a module if it has been imported whole, else ``None``.

    ``sys.modules`` holds a module from the first moment of its import, so another thread finds it
    there half made.

    Notes
    -----
    The import system itself distinguishes the two by the same attribute of the module's spec. A
    module without one was put there by hand and counts as whole.
    """
    module = sys.modules.get(name)
    if module is None or getattr(getattr(module, "__spec__", None), "_initializing", False):
        return None
    return module


def is_of_numba(value: object, kind: str) -> bool:
    """Return whether an object is of a class of Numba's of that name; Numba is not imported."""
    return any(
        base.__name__ == kind and base.__module__.startswith(("numba.", "numba_cuda."))
        for base in type(value).__mro__
    )


def is_masked_array(kind: type) -> bool:
    """Return whether a class is NumPy's of masked arrays; ``numpy.ma`` is not imported."""
    module = imported("numpy.ma")
    return module is not None and issubclass(kind, module.MaskedArray)
