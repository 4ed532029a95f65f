"""First calls of the library in a fresh process with an empty cache: the wheel ships their kernels.

Run it with the Python of an environment in which the wheel of ``make wheel`` is installed, and with
nothing else on the machine::

    python benchmarks/first_calls.py --python /tmp/fresh/bin/python --json first-calls-cpu.json

Each function is called once, on 100,000 elements, in a process that has imported NumPy, kerneldsl
and the function: ``from stdlib_kernels import sum``. On a CPU, the time is that of the call, and
the bound 150 ms of processor time. Its wall-clock time and the import's time are printed, too. On a
GPU the time is that of the process until the call has finished, less that of the floor of
``benchmarks/start.py``, which is measured before each call. The bound is 150 ms. Medians are
reported. Numba must not be imported. Exits with 1 where a bound is broken.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from machine import describe_cpu_machine, describe_gpu_machine
from start import PROGRAMS

#: The arguments of each function, which is called with an array `x`.
CALLS = {
    "sum": "x",
    "var": "x",
    "argmax": "x",
    "cumsum": "x",
    "sort": "x",
    "histogram": "x, 64",
    "softmax": "x.reshape(100, 1000)",
}
DTYPES = ("float32", "float64")
MAX_MS = 150
#: Not imported by a call of shipped kernels.
NEEDLESS = ("numba",)
_PROGRAM = """
import json, os, sys, time
import numpy as np
import kerneldsl as kd

importing = time.process_time()
from stdlib_kernels import {name}
importing = time.process_time() - importing

x = (np.arange(100_000) * 0.6180339887 % 1).astype({dtype!r})  # without numpy.random
started, used = time.perf_counter(), time.process_time()
with kd.use({device!r}):
    {name}({arguments})
    kd.synchronize()
wall, used = time.perf_counter() - started, time.process_time() - used
print(json.dumps({{
    "wall_ms": 1e3 * wall,
    "processor_ms": 1e3 * used,
    "import_ms": 1e3 * importing,
    "imported": [name for name in {needless!r} if name in sys.modules],
    "folder": os.path.dirname(kd.__file__),
}}), flush=True)
"""
_DEVICES = {"cpu": "cpu", "gpu": "cuda:0"}


@dataclass
class Report:
    """Everything that was measured, in milliseconds; the medians of a GPU are above the floor."""

    device: str
    runs: int
    machine: dict[str, Any] = field(default_factory=dict)
    medians: dict[str, float] = field(default_factory=dict)
    samples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    floor_ms: float = 0.0
    verdicts: dict[str, bool] = field(default_factory=dict)


def run(python: str, program: str) -> tuple[float, str]:
    """Run a program with an empty cache; return the milliseconds until it prints, and the line."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("KERNELDSL_", "PYTHON"))}
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        with subprocess.Popen(
            [python, "-c", program],
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**kept, "KERNELDSL_CACHE_DIR": str(Path(folder) / "cache")},
        ) as child:
            assert child.stdout is not None
            line = child.stdout.readline()
            elapsed = time.perf_counter() - started
    if child.returncode or not line:
        raise RuntimeError(f"a program ended with {child.returncode}:\n{program}")
    return 1e3 * elapsed, line


def measure(
    device: str, python: str, runs: int, commit: str | None, seconds: float = math.inf
) -> Report:
    """Call each function in processes of its own, all of them in turn.

    No run begins after so many seconds, but for the first that counts.
    """
    report = Report(device, 0)
    started = time.perf_counter()
    programs = {
        f"{name} of {dtype}": _PROGRAM.format(
            name=name,
            arguments=arguments,
            dtype=dtype,
            device=_DEVICES[device],
            needless=NEEDLESS,
        )
        for name, arguments in CALLS.items()
        for dtype in DTYPES
    }
    floor = PROGRAMS["gpu"]["floor"] + "\nprint('done', flush=True)\n"
    for number in range(runs + 1):
        if number > 1 and time.perf_counter() - started > seconds:
            break
        report.runs = number
        for name, program in programs.items():
            # The speed of a shared machine drifts, so that each call has its own floor.
            floor_ms = run(python, floor)[0] if device == "gpu" else 0.0
            elapsed, line = run(python, program)
            sample = {**json.loads(line), "process_ms": elapsed, "floor_ms": floor_ms}
            folder = sample.pop("folder")
            if number:  # the first run compiles Python's files
                report.samples.setdefault(name, []).append(sample)
    print(f"kerneldsl in {folder}")
    what = "process_ms" if device == "gpu" else "processor_ms"
    report.medians = {
        name: statistics.median(each[what] - each["floor_ms"] for each in samples)
        for name, samples in report.samples.items()
    }
    report.floor_ms = statistics.median(
        each["floor_ms"] for samples in report.samples.values() for each in samples
    )
    report.machine = (describe_gpu_machine if device == "gpu" else describe_cpu_machine)(commit)
    above = f" above a floor of {report.floor_ms:.0f} ms" if device == "gpu" else ""
    for name, found in report.medians.items():
        report.verdicts[f"{name}: {found:.0f} ms{above}, at most {MAX_MS:.0f} ms"] = found <= MAX_MS
    imported = {
        each for samples in report.samples.values() for s in samples for each in s["imported"]
    }
    report.verdicts[f"not imported: {', '.join(NEEDLESS)}"] = not imported
    return report


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--device", choices=sorted(_DEVICES), default="cpu")
    parser.add_argument("--python", default=sys.executable, help="that of the environment")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no run after these")
    parser.add_argument("--commit", help="what is run, where there is no git repository")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    report = measure(options.device, options.python, options.runs, options.commit, options.seconds)
    for name, samples in report.samples.items():
        walls = [each["wall_ms"] for each in samples]
        imports = statistics.median(each["import_ms"] for each in samples)
        print(
            f"{name:22} {report.medians[name]:5.0f} ms; the call alone, by the clock, "
            f"{statistics.median(walls):.0f} ms ({min(walls):.0f} to {max(walls):.0f}); "
            f"the import {imports:.0f} ms"
        )
    for verdict, holds in report.verdicts.items():
        print(f"{'kept  ' if holds else 'BROKEN'} {verdict}")
    if options.json is not None:
        options.json.write_text(json.dumps(asdict(report), indent=2) + "\n")
    return 0 if all(report.verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
