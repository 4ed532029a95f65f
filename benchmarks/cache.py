"""The cache on disk: what a write and a look-up take as it fills, and workers on an empty one.

Run it with nothing else on the machine::

    python benchmarks/cache.py --json benchmarks/results/cache.json

Writes and look-ups are timed in a folder of entries of 1 KiB, at each number of entries; medians.
The workers are processes that begin together on an empty cache and launch one kernel: one of them
is to compile it, and all are to be done in little more time than that takes. One worker alone, on
an empty cache and on a full one, is measured in turn with them. Exits with 1 where a bound is
broken.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from machine import describe_cpu_machine

from kerneldsl.cache.disk import DiskCache
from kerneldsl.cache.entry import encode
from kerneldsl.cache.key import Key
from kerneldsl.cache.settings import read_settings

ROOT = Path(__file__).resolve().parents[1]
ENTRIES = (100, 1000, 10_000, 30_000)
ENTRY_BYTES = 1024
WORKERS = 8
#: What a write may take at the most entries, in seconds.
MAX_WRITE_S = 0.005
#: What all workers may take together on two cores, in seconds.
MAX_WORKERS_S = 2.5
PROGRAM = """
import numpy as np
import kerneldsl as kd

@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]

x, y = np.ones((2, 1_000_000), np.float32)
out = np.empty_like(x)
with kd.use("cpu"):
    axpy.forall(out.size)(np.float32(2), x, y, out)
assert (out == 3).all()
print(kd.cache.stats().writes)
"""


@dataclass
class Report:
    """Everything that was measured, in seconds."""

    samples: dict[str, list[float]] = field(default_factory=dict)
    medians: dict[str, float] = field(default_factory=dict)
    #: Workers that compiled, in each run.
    compiled: list[int] = field(default_factory=list)
    verdicts: dict[str, bool] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)


@contextmanager
def _empty_cache() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["KERNELDSL_CACHE_DIR"] = folder
        yield Path(folder)


def _measure_entries(report: Report, runs: int) -> None:
    with _empty_cache() as folder:
        cache = DiskCache(read_settings())
        sections = {"ptx": b"x" * ENTRY_BYTES}
        first = Key({"entry": "first"})
        cache.keep(first, sections)
        there = 0
        for count in ENTRIES:
            for number in range(there, count):  # without forcing each to the disk
                key = Key({"entry": f"filling {number}"})
                path = folder / "entries" / f"{key.digest}.kdc"
                path.write_bytes(encode(key.encoded, sections))
            there = count
            for name in ("a write", "a look-up"):
                samples = report.samples.setdefault(f"{name} at {count} entries", [])
                for number in range(runs):
                    key = Key({"entry": f"timed {number}"}) if name == "a write" else first
                    started = time.perf_counter()
                    done = cache.keep(key, sections) if name == "a write" else cache.look_up(key)
                    samples.append(time.perf_counter() - started)
                    assert done, "the cache cannot be used"


def _run_workers(script: Path, count: int) -> tuple[float, int]:
    """Return the seconds until the last of some workers has ended, and how many have compiled."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    started = time.perf_counter()
    workers = [
        subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, env=environment)
        for _ in range(count)
    ]
    said = [int(worker.communicate()[0]) for worker in workers]
    return time.perf_counter() - started, sum(said)


def _measure_workers(report: Report, runs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "program.py")
        script.write_text(PROGRAM)
        for _ in range(runs):
            with _empty_cache():
                elapsed, compiled = _run_workers(script, WORKERS)
            report.samples.setdefault(f"{WORKERS} workers, empty", []).append(elapsed)
            report.compiled.append(compiled)
            with _empty_cache():
                for state in ("empty", "full"):
                    elapsed, _ = _run_workers(script, 1)
                    report.samples.setdefault(f"1 worker, {state}", []).append(elapsed)


def measure(runs: int, commit: str | None) -> Report:
    """Measure everything."""
    report = Report()
    _measure_entries(report, 4 * runs)
    _measure_workers(report, runs)
    report.medians = {name: statistics.median(s) for name, s in report.samples.items()}
    report.machine = describe_cpu_machine(commit)
    write_s = report.medians[f"a write at {ENTRIES[-1]} entries"]
    workers_s = report.medians[f"{WORKERS} workers, empty"]
    report.verdicts = {
        f"a write takes {1e3 * write_s:.1f} ms at {ENTRIES[-1]} entries, at most "
        f"{1e3 * MAX_WRITE_S:.0f} ms": write_s <= MAX_WRITE_S,
        f"of {WORKERS} workers {max(report.compiled)} compiles": max(report.compiled) == 1,
        f"{WORKERS} workers take {workers_s:.2f} s, at most {MAX_WORKERS_S} s on two cores": (
            workers_s <= MAX_WORKERS_S
        ),
    }
    return report


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--commit", help="what is run, where there is no git repository")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    report = measure(options.runs, options.commit)
    for name, seconds in report.medians.items():
        samples = report.samples[name]
        print(f"{name:28} {1e3 * seconds:9.2f} ms  ", end="")
        print(f"({1e3 * min(samples):.2f} to {1e3 * max(samples):.2f})")
    for verdict, holds in report.verdicts.items():
        print(f"{'kept  ' if holds else 'BROKEN'} {verdict}")
    if options.json is not None:
        options.json.write_text(json.dumps(asdict(report), indent=2) + "\n")
    return 0 if all(report.verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
