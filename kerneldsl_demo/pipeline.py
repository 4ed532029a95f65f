"""The stages of the demo: run, compared with the reference, and timed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

import kerneldsl as kd
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl_demo.pictures import missing_extra
from stdlib_kernels import imaging
from stdlib_kernels.arrays import to_host
from stdlib_kernels.histogram import counting
from stdlib_kernels.imaging import filters, levels
from stdlib_kernels.stencil import lines

__all__ = ["SIGMA", "STAGES", "Outcome", "Stage", "equalized", "reference", "run_stage"]

_Arrays: TypeAlias = dict[str, Any]
_Kernel: TypeAlias = kd.Kernel[..., Any]

#: Standard deviation of the blur, in pixels.
SIGMA = 2.0
#: dtype of the blur and of the edges.
FLOAT32 = np.dtype(np.float32)
#: Calls that are timed once everything is compiled.
REPEATS = 7


@dataclass(frozen=True)
class Stage:
    """One step of the pipeline: its result's name, and what makes it of the results so far.

    `run` launches `kernels`, in their order. The largest difference from the reference that passes
    is `tolerance`, in grey levels; 0 means exact.
    """

    name: str
    run: Callable[[_Arrays], Any]
    kernels: tuple[_Kernel, ...]
    tolerance: float


#: Rounding of the 17 weights and their products of a float32 blur by σ = 2 stays below
#: 2 passes · 18 · 2⁻²⁴ · 255 = 5.5e-4 grey levels. Sobel's weights add up to 8 in absolute value
#: along each of two axes.
STAGES = (
    Stage("grey", lambda a: imaging.grey(a["input"]), (levels.luma,), 0.0),
    Stage(
        "blur",
        lambda a: imaging.gaussian_blur(a["grey"], SIGMA),
        (lines.along_rows, lines.along_columns),
        6e-4,
    ),
    Stage(
        "edges", lambda a: imaging.sobel(a["blur"]), (filters.gradient_magnitude(FLOAT32),), 8e-3
    ),
    Stage("histogram", lambda a: imaging.histogram(a["grey"]), (counting.count_apart,), 0.0),
    Stage(
        "equalize",
        lambda a: imaging.equalize(a["grey"]),
        (counting.count_apart, levels.equalizing_table, levels.look_up),
        0.0,
    ),
)


@dataclass(frozen=True)
class Outcome:
    """Result of a stage: the kernels that it launched, and how long that took, in seconds.

    `compile_s` has the kernels that were new, and `first_call_s` is of the first call with
    compiling; `call_s` is the median of later ones. `error` is the largest difference from the
    reference, in grey levels.
    """

    stage: Stage
    launched: tuple[str, ...]
    compile_s: dict[str, float]
    first_call_s: float
    call_s: float
    error: float

    @property
    def passed(self) -> bool:
        """True if the result is within the stage's tolerance; NaN is not."""
        return self.error <= self.stage.tolerance

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome for ``--json``."""
        times = {name: getattr(self, name) for name in ("compile_s", "first_call_s", "call_s")}
        found = {"max_error": self.error, "tolerance": self.stage.tolerance, "passed": self.passed}
        return {"stage": self.stage.name, "launched": list(self.launched), **times, **found}


def run_stage(stage: Stage, arrays: _Arrays, expected: np.ndarray[Any, Any]) -> Outcome:
    """Run a stage, store its result among the arrays, and compare it with what is expected."""
    kernels = stage.kernels
    known = {id(kernel): set(kernel.specializations) for kernel in kernels}
    first, result = _timed(stage, arrays)
    compiled = {
        _name(kernel): sum(
            s.compile_s for s in kernel.specializations if s not in known[id(kernel)]
        )
        for kernel in kernels
        if set(kernel.specializations) - known[id(kernel)]
    }
    later = [_timed(stage, arrays)[0] for _ in range(REPEATS)]
    arrays[stage.name] = result
    host = to_host(result)
    error = float(np.max(np.abs(host.astype(np.float64) - expected.astype(np.float64))))
    names = tuple(_name(kernel) for kernel in kernels)
    return Outcome(stage, names, compiled, first, statistics.median(later), error)


def _name(kernel: _Kernel) -> str:
    return kernel.__qualname__.rpartition(".")[2]


def _timed(stage: Stage, arrays: _Arrays) -> tuple[float, Any]:
    start = time.perf_counter()
    result = stage.run(arrays)
    kd.synchronize()
    return time.perf_counter() - start, result


# Reference results of the demo's stages, by NumPy and SciPy, in float64 and in integers.

_Array: TypeAlias = np.ndarray[Any, Any]


def equalized(grey: _Array, counts: _Array) -> _Array:
    """Equalize by a table: rounded half up, in integers."""
    cumulative = np.cumsum(counts)
    darkest = cumulative[np.flatnonzero(counts)[0]]
    rest = grey.size - darkest
    if rest == 0:
        return grey
    table = (np.maximum(cumulative - darkest, 0) * 255 * 2 + rest) // (2 * rest)
    return np.asarray(table.astype(np.uint8)[grey])


def reference(image: _Array, sigma: float) -> dict[str, _Array]:
    """Return the result of every stage by its name: of ``uint8[h, w, 3]``, with a blur by sigma."""
    try:
        from scipy import ndimage
    except ImportError as error:
        raise missing_extra(error) from error
    red, green, blue = (image[..., c].astype(np.int64) for c in range(3))
    grey = ((299 * red + 587 * green + 114 * blue + 500) // 1000).astype(np.uint8)
    blurred = ndimage.gaussian_filter(grey.astype(np.float64), sigma)
    edges = np.hypot(ndimage.sobel(blurred, axis=0), ndimage.sobel(blurred, axis=1))
    counts = np.bincount(grey.ravel(), minlength=256)
    return {
        "grey": grey,
        "blur": blurred,
        "edges": edges,
        "histogram": counts,
        "equalize": equalized(grey, counts),
    }
