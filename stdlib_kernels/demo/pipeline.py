"""The stages of the demo: run, compared with the reference, and timed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

import kerneldsl as kd
from stdlib_kernels import imaging

__all__ = ["SIGMA", "STAGES", "Outcome", "Stage", "run_stage"]

_Arrays: TypeAlias = dict[str, Any]

#: Standard deviation of the blur, in pixels.
SIGMA = 2.0
#: Calls that are timed once everything is compiled.
REPEATS = 7


@dataclass(frozen=True)
class Stage:
    """One step of the pipeline.

    Parameters
    ----------
    name : str
        Key of its result.
    kernels : tuple of str
        What it launches, in order.
    run : callable
        From the results so far to its own.
    tolerance : float
        Largest difference from the reference that passes, in grey levels; 0 means exact.
    """

    name: str
    kernels: tuple[str, ...]
    run: Callable[[_Arrays], Any]
    tolerance: float


#: Rounding of the 17 weights and their products of a float32 blur by σ = 2 stays below
#: 2 passes · 18 · 2⁻²⁴ · 255 = 5.5e-4 grey levels; Sobel's weights add up to 8 in absolute value
#: along each of two axes.
STAGES = (
    Stage("grey", ("luma",), lambda a: imaging.grey(a["input"]), 0.0),
    Stage(
        "blur",
        ("blur_rows", "blur_columns"),
        lambda a: imaging.gaussian_blur(a["grey"], SIGMA),
        6e-4,
    ),
    Stage("edges", ("gradient_magnitude",), lambda a: imaging.sobel(a["blur"]), 8e-3),
    Stage("histogram", ("count_levels",), lambda a: imaging.histogram(a["grey"]), 0.0),
    Stage(
        "equalize",
        ("count_levels", "equalizing_table", "look_up"),
        lambda a: imaging.equalize(a["grey"]),
        0.0,
    ),
)


@dataclass(frozen=True)
class Outcome:
    """What became of a stage.

    Parameters
    ----------
    stage : Stage
        Which one.
    first_call_s : float
        Seconds of its first call, compiling included.
    call_s : float
        Median seconds of a later call.
    error : float
        Largest difference from the reference, in grey levels.
    """

    stage: Stage
    first_call_s: float
    call_s: float
    error: float

    @property
    def passed(self) -> bool:
        """Whether the result is within the stage's tolerance; NaN is not."""
        return self.error <= self.stage.tolerance

    def as_dict(self) -> dict[str, Any]:
        """The outcome for ``--json``."""
        return {
            "stage": self.stage.name,
            "kernels": list(self.stage.kernels),
            "launches": len(self.stage.kernels),
            "first_call_s": self.first_call_s,
            "call_s": self.call_s,
            "max_error": self.error,
            "tolerance": self.stage.tolerance,
            "passed": self.passed,
        }


def run_stage(stage: Stage, arrays: _Arrays, expected: np.ndarray[Any, Any]) -> Outcome:
    """Run a stage, store its result among the arrays, and compare it with what is expected."""
    first, result = _timed(stage, arrays)
    later = [_timed(stage, arrays)[0] for _ in range(REPEATS)]
    arrays[stage.name] = result
    host = result.copy_to_host() if isinstance(result, kd.DeviceArray) else result
    error = float(np.max(np.abs(host.astype(np.float64) - expected.astype(np.float64))))
    return Outcome(stage, first, statistics.median(later), error)


def _timed(stage: Stage, arrays: _Arrays) -> tuple[float, Any]:
    start = time.perf_counter()
    result = stage.run(arrays)
    kd.synchronize()
    return time.perf_counter() - start, result
