"""Signals beside launches of the CPU target: how late their handlers take effect, what that costs.

Run it on an otherwise idle machine::

    python benchmarks/interrupts.py --json benchmarks/results/interrupts-cpu.json

Times are from a signal to the exception of its handler: for a loop that never ends, one that takes
long, and barriers; under Python's handler, asyncio's, and those of the program's own. The cost is
that of the interrupts by which the main thread looks for signals: launches with them and without
(the main thread blocks them) in turns.
"""

# ruff: noqa: E402 -- the folders of the project are found first
from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "benchmarks")]

import cpu_kernels as work
from machine import commit_name, package_versions

import kerneldsl as kd
from tests.unit.targets.cpu.runtime.interrupted_launches import KERNELS, WAYS, send

#: Bounds: milliseconds from a signal to its exception, and the interrupts' part of a launch.
_MOST_MS, _MOST_COST = 100.0, 0.01
_KERNELS = ("spins", "takes_a_long_sum", "waits_at_barriers")
_SIZE = 1 << 18
_PACKAGES = ("kerneldsl", "numba", "llvmlite", "numpy")


def measure_lateness(repeats: int) -> dict[str, list[float]]:
    """Return the milliseconds of each signal, by kernel and handler."""
    found: dict[str, list[float]] = {}
    for name in _KERNELS:
        kernel, is_block = KERNELS[name]
        launch = kernel[_SIZE // 64, 64] if is_block else kernel.forall(_SIZE)
        launch(np.zeros(_SIZE), 0)
        for how, (way, number, expected) in WAYS.items():
            if how == "other_thread":  # its launch would go on
                continue
            late = []
            for repeat in range(repeats):
                sent = send(number, 0.1 + 0.007 * repeat)
                try:
                    way(lambda launch=launch: launch(np.zeros(_SIZE), 1))
                except expected:
                    late.append(1e3 * (time.perf_counter() - sent[0]))
            found[f"{name}, {how}"] = late
    return found


def launches() -> dict[str, Callable[[], Any]]:
    """Return launches of the kernels of ``benchmarks/cpu.py``, of some milliseconds each."""
    rng = np.random.default_rng()
    x, y, out = (rng.standard_normal(1 << 24, np.float32) for _ in range(3))
    old, new = (rng.random((4096, 4096), np.float32) for _ in range(2))
    bodies = [rng.random(4096, np.float32) for _ in range(7)]
    axpy, jacobi = work.axpy.forall(x.size), work.jacobi.forall(*old.shape)
    nbody = work.nbody.forall(4096)
    return {
        "axpy": lambda: axpy(np.float32(1.7), x, y, out),
        "jacobi": lambda: jacobi(old, new),
        "nbody": lambda: nbody(*bodies[:4], np.float32(1e-3), *bodies[4:]),
    }


def measure_cost(pairs: int) -> dict[str, dict[str, float]]:
    """Return the processor milliseconds of all threads, with the interrupts and without."""
    found = {}
    for name, launch in launches().items():
        samples: dict[int, list[float]] = {signal.SIG_BLOCK: [], signal.SIG_UNBLOCK: []}
        for number in range(2 * pairs + 4):
            how = (signal.SIG_BLOCK, signal.SIG_UNBLOCK)[(number + number // 2) % 2]
            signal.pthread_sigmask(how, {signal.SIGURG})
            began = time.process_time()
            for _ in range(10):
                launch()
            if number >= 4:
                samples[how].append(100 * (time.process_time() - began))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGURG})
        # What else runs on the machine only makes some samples longer.
        without, with_them = (sorted(each)[len(each) // 4] for each in samples.values())
        found[name] = {"without_ms": without, "with_ms": with_them, "cost": with_them / without - 1}
    return found


def main() -> int:
    """Run everything and report; the status is 1 where a bound is not kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    parser.add_argument("--repeats", type=int, default=10, help="signals of each case")
    parser.add_argument("--pairs", type=int, default=40, help="pairs of samples of the cost")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kd.use("cpu")
    late = measure_lateness(options.repeats)
    for name, values in late.items():
        print(f"{name:40s} {statistics.median(values):6.1f} ms, at most {max(values):6.1f}")
    cost = measure_cost(options.pairs)
    for name, each in cost.items():
        print(
            f"{name:40s} {each['with_ms']:8.3f} ms of {each['without_ms']:8.3f} {each['cost']:+.2%}"
        )
    if options.json:
        report = {
            "machine": {
                "commit": commit_name(),
                "cores": len(os.sched_getaffinity(0)),
                **package_versions(_PACKAGES),
            },
            "late_ms": late,
            "cost": cost,
        }
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    kept = max(map(max, late.values())) <= _MOST_MS
    return 0 if kept and max(each["cost"] for each in cost.values()) <= _MOST_COST else 1


if __name__ == "__main__":
    sys.exit(main())
