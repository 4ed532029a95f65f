"""Kernels as people write them for CUDA, on two cores, against C, Numba and NumPy, in one run.

Run it on an otherwise idle machine::

    python benchmarks/cpu_lanes.py --json benchmarks/results/cpu-lanes.json

All contenders run in this process and take turns; the best times are reported, which other work on
the machine disturbs least, and those of rivals as multiples of ours. The C sources of
``benchmarks/lanes`` are compiled by the system's gcc where there is one, with ``-O3 -march=native
-fopenmp``, without and with ``-ffast-math``. Each result is checked against float64 from outputs
filled with NaN.
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

from lanes import mathematics
from lanes.case import Case, Contender, compile_c
from machine import describe_cpu_machine

import kerneldsl as kd

_MODULES = (mathematics,)


def best(contenders: dict[str, Contender], rounds: int) -> dict[str, float]:
    """Return the least seconds of each contender; they take turns."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            started = time.perf_counter()
            run()
            taken[name].append(time.perf_counter() - started)
    return {name: min(samples) for name, samples in taken.items()}


def measure(case: Case, rounds: int) -> dict[str, float]:
    """Check every contender of a case, then time them."""
    contenders = {"ours": case.ours, **case.rivals}
    for name, contender in contenders.items():
        case.check(name, contender)
    return best(contenders, rounds)


def main() -> int:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=25, help="runs of each contender")
    parser.add_argument("--only", default="", help="part of the names of the cases to run")
    parser.add_argument("--json", help="file for the figures")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder, kd.use("cpu"):
        for module in _MODULES:
            for case in module.cases(compile_c(module.SOURCE, Path(folder))):
                if options.only not in case.name:
                    continue
                found = measure(case, options.rounds)
                rows.append({"name": case.name, "seconds": found})
                others = "  ".join(
                    f"{name} {seconds / found['ours']:.2f}x"
                    for name, seconds in found.items()
                    if name != "ours"
                )
                print(f"{case.name:36s} {1e3 * found['ours']:8.3f} ms  {others}", flush=True)
    if options.json:
        result = {"machine": describe_cpu_machine(), "rows": rows}
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
