"""Large captured arrays: code has a symbol for each. Its name is a hash of the contents.

The loader of the code provides the addresses. As text, each byte would take five characters that
are written, read and assembled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from kerneldsl.frontend.unit import FunctionUnit

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "CAPTURED",
    "captured_addresses",
    "elements",
    "is_captured",
    "large_arrays",
    "offering",
    "symbol_of",
]

#: Bytes beyond which an array is no part of the code.
_LARGE = 1 << 16
#: Prefix of the symbols of captured arrays.
CAPTURED = "kd_captured_"
#: Names of the large arrays of the kernel being compiled; guarded by Numba's compiler lock.
_offered: frozenset[str] = frozenset()


def large_arrays(unit: FunctionUnit) -> dict[str, NDArray[Any]]:
    """Return the large arrays that a kernel and the functions it calls captured, by their symbols.

    They are as long there as the unit.
    """
    return {_name(array): array for array in _arrays(unit) if array.nbytes > _LARGE}


def captured_addresses(unit: FunctionUnit) -> dict[str, int]:
    """Return where the elements of those are that lie side by side, in this process."""
    return {
        name: array.ctypes.data
        for name, array in large_arrays(unit).items()
        if array.flags.c_contiguous or array.flags.f_contiguous
    }


@contextmanager
def offering(unit: FunctionUnit) -> Iterator[None]:
    """Have a kernel's large arrays compiled as symbols. The caller holds Numba's compiler lock.

    Those of a plain Numba function are text: no loader would provide their addresses.
    """
    global _offered  # noqa: PLW0603
    before, _offered = _offered, frozenset(large_arrays(unit))
    try:
        yield
    finally:
        _offered = before


def symbol_of(array: NDArray[Any]) -> str | None:
    """Return the symbol of an array's elements, in their order; ``None`` if it is text."""
    name = _name(array) if array.nbytes > _LARGE and _offered else None
    return name if name in _offered else None


def is_captured(name: str) -> bool:
    """Return whether a name is that of such a symbol."""
    return name.startswith(CAPTURED)


def elements(array: NDArray[Any]) -> NDArray[Any]:
    """Return the contiguous elements of a symbol: by columns if they are in Fortran order."""
    is_by_columns = array.flags.f_contiguous and not array.flags.c_contiguous
    return np.ravel(array, order="F" if is_by_columns else "C")


def _name(array: NDArray[Any]) -> str:
    return CAPTURED + hashlib.sha256(elements(array).tobytes()).hexdigest()[:32]


def _arrays(unit: FunctionUnit) -> Iterator[NDArray[Any]]:
    if all(each.arrays is None for each in unit.captured):
        return
    for reached in unit.reachable():
        pending = [constant.value for constant in reached.constants.values()]
        while pending:
            value = pending.pop()
            if isinstance(value, np.ndarray):
                yield value
            elif isinstance(value, tuple):
                pending += value
