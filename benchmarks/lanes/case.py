"""One comparison: a kernel, its rivals, and what all of them must give."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["Case", "CompiledC", "Contender", "compile_c"]

#: Writes results into arrays; is called without arguments.
Contender = Callable[[], object]
_FOLDER = Path(__file__).resolve().parent
_FLAGS = ("-O3", "-march=native", "-fopenmp", "-shared", "-fPIC")


@dataclass(frozen=True)
class Case:
    """A kernel with arrays for it.

    Parameters
    ----------
    name : str
        Of the kernel, with its size.
    outputs : tuple of ndarray
        What every contender writes.
    expected : tuple of ndarray
        What must be there afterwards, in float64.
    tolerance : float
        Allowed error as a part of the largest expected magnitude.
    ours : callable
        Launches our kernel.
    rivals : mapping of str to callable
        By name: ``"prange"``, ``"numpy"``, ``"C"`` and ``"C fastmath"``.
    """

    name: str
    outputs: tuple[np.ndarray, ...]
    expected: tuple[np.ndarray, ...]
    tolerance: float
    ours: Contender
    rivals: Mapping[str, Contender]

    def check(self, label: str, contender: Contender) -> None:
        """Run a contender from outputs filled with NaN, and raise where it is wrong."""
        for output in self.outputs:
            output.fill(np.nan)
        contender()
        for output, expected in zip(self.outputs, self.expected, strict=True):
            scale = np.abs(expected).max()
            error = np.abs(output.astype(np.float64) - expected).max() / scale
            if not error <= self.tolerance:
                raise AssertionError(f"{self.name}, {label}: relative error {error:.3g}")


@dataclass(frozen=True)
class CompiledC:
    """A library made from one of the stored sources."""

    library: ctypes.CDLL

    def call(self, function: str, *arguments: object) -> Contender:
        """Return a call of a function; arrays are pointers, floats float32, integers int64."""
        passed = []
        for each in arguments:
            if isinstance(each, np.ndarray):
                passed.append(ctypes.c_void_p(each.ctypes.data))
            elif isinstance(each, int):
                passed.append(ctypes.c_int64(each))
            else:
                passed.append(ctypes.c_float(float(each)))
        found = getattr(self.library, function)
        found.restype = None
        return lambda: found(*passed)


def compile_c(source: str, folder: Path) -> dict[str, CompiledC]:
    """Compile a stored source with the system's gcc, with and without fastmath.

    Returns nothing where there is no gcc.
    """
    found: dict[str, CompiledC] = {}
    for name, more in (("C", ()), ("C fastmath", ("-ffast-math",))):
        library = folder / f"{source}-{len(found)}.so"
        command = ("gcc", *_FLAGS, *more, "-o", library, _FOLDER / f"{source}.c", "-lm")
        try:
            subprocess.run(command, check=True, capture_output=True)
        except FileNotFoundError:
            return {}
        found[name] = CompiledC(ctypes.CDLL(str(library)))
    return found
