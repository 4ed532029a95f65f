"""Kernels of CUDA C++, PTX and cubins against kernels in Python: a launch, and a fresh process.

On a GPU, with nothing else on it::

    python benchmarks/foreign.py --json benchmarks/results/foreign.json

Launches take turns as in ``benchmarks/launch.py``: each sample is a few hundred launches of kernels
that do next to nothing, with the same arguments. A ratio is to the launch of the Python kernel in
the same round. Fresh processes run as in ``benchmarks/start.py``, with filled caches, and are
compared with the floor there. Exits with 1 where a bound is broken.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from launch import Report, add_rows, take_turns
from machine import describe_gpu_machine
from start import MAX_OVER_FLOOR_S, PROGRAMS, Programs

import kerneldsl as kd

#: What a launch may cost of a Python kernel's.
MAX_OF_PYTHON = 1.1

SOURCE = """
extern "C" __global__ void axpy_c(double a, const float *x, const float *y, float *out, long long n)
{
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) out[i] = a * x[i] + y[i];
}
"""
SIGNATURE = "float64, float32[::1], float32[::1], float32[::1], int64"


@kd.kernel
def axpy(a, x, y, out, n):
    """Take two scalars and three arrays, as the kernel in C++."""
    i = kd.grid(1)
    if i < n:
        out[i] = a * x[i] + y[i]


def kernels() -> dict[str, Any]:
    """Return the kernel in Python, and the other one from a source, PTX and a cubin."""
    source = kd.cuda_source(SOURCE, "axpy_c", SIGNATURE)
    made = source.artifact(target="cuda")  # for the first device
    return {
        "Python": axpy,
        "CUDA C++": source,
        "PTX": kd.module(made.text("ptx").encode()).kernel("axpy_c", SIGNATURE),
        "cubin": kd.module(made.code("cubin")).kernel("axpy_c", SIGNATURE),
    }


def contestants(n: int) -> tuple[dict[str, Callable[[int], None]], dict[str, str]]:
    """Return loops of launches, and for each the one that it is compared with."""
    x, y, out = (kd.to_device(np.ones(n, np.float32)) for _ in range(3))
    blocks = -(-n // 256)
    loops: dict[str, Callable[[int], None]] = {}
    floors: dict[str, str] = {}
    for name, kernel in kernels().items():
        bound = kernel[blocks, 256].bind(2.0, x, y, out, n)

        def planned(count: int, kernel: Any = kernel) -> None:
            for _ in range(count):
                kernel.forall(out.size)(2.0, x, y, out, n)

        def explicit(count: int, kernel: Any = kernel) -> None:
            for _ in range(count):
                kernel[blocks, 256](2.0, x, y, out, n)

        def prepared(count: int, bound: Any = bound) -> None:
            for _ in range(count):
                bound()

        for kind, loop in (("forall", planned), ("explicit", explicit), ("prepared", prepared)):
            loops[f"{kind}, {name}"] = loop
            if name != "Python":
                floors[f"{kind}, {name}"] = f"{kind}, Python"
    return loops, floors


START = """
import numpy as np
import kerneldsl as kd


axpy = kd.cuda_source(TEXT, "axpy", "float32, float32[::1], float32[::1], int64")

n = 1_000_000
with kd.use("cuda:0"):
    x, y = kd.zeros(n, np.float32), kd.zeros(n, np.float32)
    axpy.forall(n)(np.float32(2), x, y, n)
    kd.synchronize()
"""
TEXT = """
extern "C" __global__ void axpy(float a, const float *x, float *y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
"""


def start_programs(folder: Path) -> Programs:
    """Return the programs: the floor, a Python kernel, CUDA C++, and that with CUB's headers."""
    programs = Programs("gpu", folder)
    with_cub = "#include <cub/block/block_reduce.cuh>\n" + TEXT
    programs.texts = {
        "floor": PROGRAMS["gpu"]["floor"],
        "kerneldsl": PROGRAMS["gpu"]["kerneldsl"],
        "cuda_source": START.replace("TEXT", repr(TEXT)),
        "cuda_source_cub": START.replace("TEXT", repr(with_cub)),
    }
    return programs


def measure_starts(report: Report, runs: int) -> None:
    """Run fresh processes in turn, with filled caches."""
    samples: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        programs = start_programs(Path(folder))
        for name in programs.texts:
            programs.start(name, is_cold=False)  # fills its caches
        for _ in range(runs):
            for name in programs.texts:
                samples.setdefault(name, []).append(programs.start(name, is_cold=False))
    medians = {name: statistics.median(times) for name, times in samples.items()}
    for name, seconds in medians.items():
        report.rows.append({"start": name, "s": seconds, "samples": samples[name]})
        print(f"start, {name:37} {seconds:9.3f} s", flush=True)
    bound = medians["floor"] + MAX_OVER_FLOOR_S
    for name, what in (("cuda_source", "CUDA C++"), ("cuda_source_cub", "CUDA C++ with CUB")):
        ours = medians[name]
        said = f"start with cached {what}: {ours:.3f} s, at most the floor + 0.1 s = {bound:.3f} s"
        report.verdicts[said] = ours <= bound


def main() -> int:
    """Measure, judge, and say how it went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    parser.add_argument("--commit", help="what is measured, where there is no git repository")
    parser.add_argument("--elements", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--calls", type=int, default=400, help="launches of a sample")
    parser.add_argument("--runs", type=int, default=7, help="fresh processes of each program")
    options = parser.parse_args()
    # Before this process has a context: the driver starts faster where there is one.
    report = Report({})
    measure_starts(report, options.runs)
    report.machine = describe_gpu_machine(options.commit)
    print(json.dumps(report.machine, indent=1))
    with kd.use("cuda:0"):
        loops, floors = contestants(options.elements)
        samples = take_turns(loops, kd.synchronize, calls=options.calls, rounds=options.rounds)
    add_rows(report, samples, floors, dict.fromkeys(floors, MAX_OF_PYTHON))
    for promise, kept in report.verdicts.items():
        print(f"{'kept  ' if kept else 'BROKEN'} {promise}")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(asdict(report), indent=1) + "\n")
    return 0 if all(report.verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
