"""One kernel of the corpus: our function, its text in CUDA C, and arguments for both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

__all__ = ["Arguments", "Case", "Dim", "source_of"]

#: Arguments of our kernel: arrays and NumPy scalars.
Arguments: TypeAlias = tuple[Any, ...]
#: Blocks or threads, x first.
Dim: TypeAlias = int | tuple[int, ...]
_FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Case:
    """A kernel and its CUDA C.

    Parameters
    ----------
    kernel : Kernel
        Our kernel. The function of CUDA C has its name.
    source : str
        The file of CUDA C in this folder, without its suffix.
    grid, block : int or tuple of int
        Launch configuration of both.
    make : callable
        Takes a random generator, and returns the arguments of our kernel, with host arrays.
    passed : callable
        Takes those arguments, and returns those of CUDA C: the same arrays, and scalars of the
        types of its parameters.
    outputs : tuple of int
        Positions of the arrays that the kernel writes.
    tolerance : float, optional
        Largest difference of the two results, relative to the largest magnitude in them; 0 where
        both must be equal.
    strays : float, optional
        Part of the elements that may differ by more, where the last bit decides a comparison.
    extent : tuple of int, optional
        Of an element kernel: what ``forall`` is given.
    moved_bytes : int, optional
        Bytes that must be read and written, of a kernel that memory limits.
    is_typed_by_numba : bool, optional
        Whether numba-cuda can compile the kernel's function as it is.
    """

    kernel: Any
    source: str
    grid: Dim
    block: Dim
    make: Callable[[np.random.Generator], Arguments]
    passed: Callable[[Arguments], Arguments]
    outputs: tuple[int, ...]
    tolerance: float = 0.0
    strays: float = 0.0
    extent: tuple[int, ...] | None = None
    moved_bytes: int = 0
    is_typed_by_numba: bool = True

    @property
    def name(self) -> str:
        """The name of both functions."""
        return str(self.kernel.__name__)

    def compare(self, ours: Arguments, theirs: Arguments) -> None:
        """Raise `AssertionError` if the outputs of the two differ."""
        for position in self.outputs:
            mine, other = (np.asarray(each[position]) for each in (ours, theirs))
            if mine.dtype.names is not None or mine.dtype.kind == "c":
                mine, other = (each.view(np.float32) for each in (mine, other))
            mine, other = mine.astype(np.float64), other.astype(np.float64)
            errors = np.abs(mine - other) / max(np.abs(other).max(initial=0.0), 1e-300)
            wrong = np.count_nonzero(~(errors <= self.tolerance))
            if wrong > self.strays * errors.size:
                raise AssertionError(
                    f"{self.name}: {wrong} of {errors.size} elements of argument {position} "
                    f"differ, by up to {errors.max():.3g} of the largest"
                )


def source_of(name: str) -> str:
    """Return the text of a file of CUDA C."""
    return (_FOLDER / f"{name}.cu").read_text()
