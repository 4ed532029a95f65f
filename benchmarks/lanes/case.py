"""One comparison: a kernel, its rivals, and what all of them must give."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["Case", "CompiledC", "Contender", "compile_c", "rivals_in_c"]

#: Writes results into arrays; is called without arguments.
Contender = Callable[[], object]
_FOLDER = Path(__file__).resolve().parent
_FLAGS = ("-O3", "-march=native", "-fopenmp", "-fPIC")


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
        What must be there afterwards, in float64 or integers.
    tolerance : float
        Allowed error as a part of the largest expected magnitude; 0 where it must be exact.
    ours : callable
        Launches our kernel.
    rivals : mapping of str to callable
        By name: ``"prange"``, ``"numpy"``, ``"C"`` and ``"C fastmath"``.
    prepare : callable, optional
        Fills arrays that are changed in place; runs before each contender, outside its time.
    strays : float
        Part of the elements that may miss the tolerance: those where the last bit of a
        float32 decides a comparison, such as a point's round of escape.
    """

    name: str
    outputs: tuple[np.ndarray, ...]
    expected: tuple[np.ndarray, ...]
    tolerance: float
    ours: Contender
    rivals: Mapping[str, Contender]
    prepare: Contender | None = None
    strays: float = 0.0

    def check(self, label: str, contender: Contender) -> None:
        """Run a contender from outputs that hold wrong values, and raise where it is wrong."""
        for output in self.outputs:
            output.fill(np.nan if output.dtype.kind == "f" else np.iinfo(output.dtype).max)
        if self.prepare is not None:
            self.prepare()
        contender()
        for output, expected in zip(self.outputs, self.expected, strict=True):
            if output.shape != np.shape(expected):
                raise AssertionError(f"{self.name}: expected has shape {np.shape(expected)}")
            errors = np.abs(output.astype(np.float64) - expected) / np.abs(expected).max()
            wrong = np.count_nonzero(~(errors <= self.tolerance))
            if wrong > self.strays * errors.size:
                raise AssertionError(
                    f"{self.name}, {label}: {wrong} of {errors.size} elements are wrong, "
                    f"relative error {errors.max():.3g}"
                )


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


def rivals_in_c(
    libraries: Mapping[str, CompiledC], function: str, *arguments: object
) -> dict[str, Contender]:
    """Return the calls of a C function in each of the libraries, by the library's name."""
    return {name: library.call(function, *arguments) for name, library in libraries.items()}


def compile_c(source: str, folder: Path) -> dict[str, CompiledC]:
    """Compile a stored source with the system's gcc, with and without fastmath.

    Returns nothing where there is no gcc. The libraries are linked without ``-ffast-math``, which
    before gcc 13 would have them flush denormal numbers to zero in the whole process.
    """
    found: dict[str, CompiledC] = {}
    for name, more in (("C", ()), ("C fastmath", ("-ffast-math",))):
        library = folder / f"{source}-{len(found)}.so"
        compiled = library.with_suffix(".o")
        try:
            _run("gcc", *_FLAGS, *more, "-c", "-o", compiled, _FOLDER / f"{source}.c")
        except FileNotFoundError:
            return {}
        _run("gcc", "-shared", "-fopenmp", "-o", library, compiled, "-lm")
        found[name] = CompiledC(ctypes.CDLL(str(library)))
    return found


def _run(*command: str | Path) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{error.stderr}") from error
