"""NumPy's functions of whole arrays, imported without SciPy.

Numba's module of them looks for a BLAS library when it is imported, and so imports SciPy's linear
algebra. That took a fifth of a first launch, and few kernels multiply matrices by such functions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache

from numba.np import linalg

__all__ = ["import_array_functions"]


class _Found:
    """Whether there is a BLAS library, which is found out when it matters."""

    def __init__(self, check: Callable[[], bool]) -> None:
        self._check = cache(check)

    def __bool__(self) -> bool:
        return self._check()


def import_array_functions() -> None:
    """Import Numba's module of the functions, which then looks for BLAS when it is needed.

    The caller holds Numba's compiler lock.
    """
    if "numba.np.arraymath" in sys.modules:
        return
    ensure_blas = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        from numba.np import arraymath
    finally:
        linalg.ensure_blas = ensure_blas
    arraymath.ensure_blas = ensure_blas
    arraymath._HAVE_BLAS = _Found(arraymath._check_blas)
