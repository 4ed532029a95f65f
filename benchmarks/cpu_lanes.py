"""Kernels as people write them for CUDA, on two cores, against C, Numba and NumPy, in one run.

Run it on an otherwise idle machine::

    python benchmarks/cpu_lanes.py --json benchmarks/results/cpu-lanes.json

All contenders run in this process and take turns; the best times are reported, which other work on
the machine disturbs least, and those of rivals as multiples of ours. The C sources of
``benchmarks/lanes`` are compiled by the system's gcc where there is one, with ``-O3 -march=native
-fopenmp``, without and with ``-ffast-math``. Each result is checked against float64 or integers;
before it, the outputs hold wrong values.

Bounds: every kernel at least 0.7x of C without fastmath and 1.0x of prange; geometric means of both
at least 1.0x. With ``--bounds`` the exit status is 1 where one is missed.
"""

# ruff: noqa: E402 -- the cores are set before NumPy and Numba count them
from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

_CORES = 2
os.environ.setdefault("OMP_NUM_THREADS", str(_CORES))
if __name__ == "__main__" and hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:_CORES])

_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "benchmarks")]

from lanes import (
    fractals,
    geometry,
    grids,
    mathematics,
    random_numbers,
    rows,
    sorting_and_scans,
    sparse,
    tables,
)
from lanes.bounds import described, summarized, within_bounds
from lanes.case import Case, Contender, compile_c
from machine import describe_cpu_machine, settle_threads

import kerneldsl as kd

_MODULES = (
    mathematics,
    fractals,
    rows,
    grids,
    sorting_and_scans,
    sparse,
    random_numbers,
    geometry,
    tables,
)
#: Rest before each run, in which the threads of the one before stop spinning.
_REST_S = 0.001
#: A contender takes part until it has had this time; the fast ones have all rounds.
_LONGEST_S = 0.6


def timed(case: Case, contender: Contender) -> float:
    """Return the seconds of one run."""
    if case.prepare is not None:
        case.prepare()
    time.sleep(_REST_S)
    started = time.perf_counter()
    contender()
    return time.perf_counter() - started


def measure(case: Case, rounds: int) -> dict[str, float]:
    """Check every contender of a case, then return the least seconds of each; they take turns."""
    contenders = {"ours": case.ours, **case.rivals}
    for name, contender in contenders.items():
        case.check(name, contender)
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, contender in contenders.items():
            if sum(taken[name]) < _LONGEST_S:
                taken[name].append(timed(case, contender))
    return {name: min(samples) for name, samples in taken.items()}


def main() -> int:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=25, help="runs of each contender")
    parser.add_argument("--only", default="", help="part of the names of the cases to run")
    parser.add_argument("--json", help="file for the figures")
    parser.add_argument("--bounds", action="store_true", help="exit with 1 where one is missed")
    options = parser.parse_args()
    settle_threads()
    results = []
    with tempfile.TemporaryDirectory() as folder, kd.use("cpu"):
        for module in _MODULES:
            for case in module.cases(compile_c(module.SOURCE, Path(folder))):
                if options.only not in case.name:
                    continue
                found = measure(case, options.rounds)
                results.append({"name": case.name, "seconds": found})
                others = "  ".join(
                    f"{name} {seconds / found['ours']:.2f}x"
                    for name, seconds in found.items()
                    if name != "ours"
                )
                print(f"{case.name:46s} {1e3 * found['ours']:8.3f} ms  {others}", flush=True)
    summary = summarized(results)
    print()
    for rival, found in summary.items():
        print(described(rival, found))
    if options.json:
        result = {"machine": describe_cpu_machine(), "rows": results, "summary": summary}
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return int(options.bounds and not all(map(within_bounds, summary.values())))


if __name__ == "__main__":
    sys.exit(main())
