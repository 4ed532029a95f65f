"""Largest errors of the functions: of every float32, and of ten million float64.

``python -m tests.unit.targets.cpu.math.exhaustive --json FILE`` measures all of them and
stores what the table of docs/cpu-math.md is made of; functions can be named, and a stride given.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np

from targets.cpu.math.vector.define import FUNCTIONS as WRITTEN
from tests.unit.targets.cpu.math.functions import (
    FUNCTIONS,
    Function,
    errors,
    exact,
    results,
    sampled,
)

__all__ = ["worst_of_all", "worst_of_samples"]

_CHUNK = 1 << 20
#: Points of float64, and of float32 with two arguments; fewer where mpmath is asked.
_POINTS, _POINTS_OF_MPMATH = 10_000_000, 100_000


def _checker(function: Function) -> Any:
    """Return what finds the largest error in a chunk of results, against C's float64 function."""
    reference = function.spelled
    # By the exponent of a float64: how many units of a float32's last place are 1.
    per_unit = np.ldexp(1.0, 23 - np.maximum(np.arange(2048) - 1023, -126))

    @numba.njit(error_model="numpy")
    def distance(x, got):
        expected = reference(np.float64(x))
        if math.isnan(expected) or math.isnan(got):
            return 0.0 if math.isnan(expected) and math.isnan(got) else math.inf
        nearest = np.float32(expected)
        if nearest == 0 and got == 0:
            return 0.0 if math.copysign(1.0, nearest) == math.copysign(1.0, got) else math.inf
        limit = 2.0**128
        expected = min(max(expected, -limit), limit)
        inside = min(max(np.float64(got), -limit), limit)
        exponent = (np.float64(expected).view(np.int64) >> 52) & 2047
        return abs(inside - expected) * per_unit[exponent]

    @numba.njit(error_model="numpy", parallel=True)
    def check(x, got):
        parts = 64
        worst = np.zeros(parts)
        where = np.zeros(parts, np.int64)
        size = x.size // parts
        for part in numba.prange(parts):
            for i in range(part * size, (part + 1) * size):
                found = distance(x[i], got[i])
                if found > worst[part]:
                    worst[part] = found
                    where[part] = i
        at = worst.argmax()
        return worst[at], x[where[at]]

    return check


def worst_of_all(name: str, stride: int = 1) -> tuple[float, float]:
    """Return the largest error over every float32, or each of a stride, and its argument."""
    function = FUNCTIONS[name]
    check = _checker(function)
    worst = (0.0, 0.0)
    offsets = np.arange(0, _CHUNK * stride, stride, dtype=np.uint32)
    for start in range(0, 2**32, _CHUNK * stride):
        x = (offsets + np.uint32(start)).view(np.float32)
        worst = max(worst, check(x, results(function, x)))
    return worst


def worst_of_samples(name: str, dtype: str, rng: np.random.Generator) -> tuple[float, list[float]]:
    """Return the largest error over millions of numbers, and its arguments."""
    function = FUNCTIONS[name]
    count = _points(function)
    worst: tuple[float, list[float]] = (0.0, [])
    for _ in range(-(-count // 1_000_000)):
        x = sampled(function, np.dtype(dtype), min(count, 1_000_000), rng)
        found = errors(results(function, *x), exact(function, *x))
        at = int(found.argmax())
        worst = max(worst, (float(found[at]), [float(each[at]) for each in x]))
    return worst


def _points(function: Function) -> int:
    return _POINTS if function.exact is not None else _POINTS_OF_MPMATH


def main() -> int:
    """Measure and store; the exit status is 1 where a bound of the guide is not kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=[], help="functions; all without any")
    parser.add_argument("--stride", type=int, default=1, help="of float32; 1 is every number")
    parser.add_argument("--json", help="file for the figures")
    options = parser.parse_args()
    rng = np.random.default_rng()
    rows, is_kept = [], True
    for name in options.names or WRITTEN:
        function = FUNCTIONS[name]
        for dtype, bound in zip(("float32", "float64"), function.bounds, strict=True):
            started = time.perf_counter()
            if dtype == "float32" and function.arity == 1:
                worst, where = worst_of_all(name, options.stride)
                at, points = [float(where)], 2**32 // options.stride
            else:
                worst, at = worst_of_samples(name, dtype, rng)
                points = _points(function)
            is_kept &= worst <= bound + 0.5
            row = {"name": name, "dtype": dtype, "points": points, "worst": worst, "at": at}
            rows.append(row | {"bound": bound})
            print(
                f"{name:6s} {dtype} {worst:8.4f} of {bound} + 0.5 at {at} "
                f"({time.perf_counter() - started:.0f} s)",
                flush=True,
            )
    if options.json:
        sys.path.insert(0, str(Path(__file__).parents[5] / "benchmarks"))
        from machine import describe_cpu_machine

        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"machine": describe_cpu_machine(), "rows": rows}, file, indent=1)
            file.write("\n")
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
