"""kerneldsl's CPU target against hand-written Numba ``prange``, in one run on two cores.

Run it on an otherwise idle machine::

    python benchmarks/cpu.py --json benchmarks/results/cpu.json

Both sides run in this process, take turns, and use no fastmath; medians of at least 15 pairs are
reported. Results are compared with a float64 reference, from outputs filled with NaN. The floor
beside a time is the bytes that must be moved over the bandwidth of a copy (of a read, for the sum),
or the operations over the rate of OpenBLAS, measured in the same run.

First calls are whole ones, from the decorator to the finished result, of functions that nobody has
seen before; fresh processes start with empty caches and are timed from outside, interpreter and
imports included.
"""

# ruff: noqa: E402 -- the cores are set before NumPy, Numba and OpenBLAS count them
from __future__ import annotations

import argparse
import json
import linecache
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

_CORES = 2
if __name__ == "__main__" and hasattr(os, "sched_setaffinity"):
    # Before NumPy, Numba and OpenBLAS count the cores.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:_CORES])

import numba
import numpy as np

_ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "benchmarks")]

import cpu_kernels as work
from machine import commit_name, package_versions

import kerneldsl as kd
from targets.cpu.runtime.threads import threading_layer

#: Seconds after which no thread of another library looks for work any longer.
_REST_S = 0.12
_PACKAGES = ("kerneldsl", "numba", "llvmlite", "numpy", "tbb")


@dataclass
class Row:
    """One comparison. Times are medians in seconds; `ratio` is ours to theirs, as required."""

    name: str
    ours_s: float
    theirs_s: float
    ratio: float
    required: float
    floor_s: float | None
    floor: str
    note: str = ""

    @property
    def holds(self) -> bool:
        """True if the requirement is met: speed ratios are at least, time ratios at most it."""
        return self.ratio >= self.required if self.required > 0 else self.ratio <= -self.required


@dataclass
class Report:
    """Everything measured in one run."""

    machine: dict[str, Any]
    rows: list[Row] = field(default_factory=list)
    scale: dict[str, Any] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        """Keep a row and print it."""
        self.rows.append(row)
        relation = ">=" if row.required > 0 else "<="
        floor = f"{1e3 * row.floor_s:9.3f}" if row.floor_s else " " * 9
        print(
            f"{row.name:34s} {1e3 * row.ours_s:10.3f} {1e3 * row.theirs_s:10.3f} {row.ratio:7.2f} "
            f"{relation} {abs(row.required):4.2f} {'' if row.holds else 'MISSED':7s}{floor}  "
            f"{row.floor} {row.note}",
            flush=True,
        )


def interleaved(
    ours: Callable[[], Any], theirs: Callable[[], Any], pairs: int
) -> tuple[float, float]:
    """Return the median seconds of both, taking turns, after two runs of each to warm up."""
    for _ in range(2):
        ours()
        theirs()
    samples: tuple[list[float], list[float]] = ([], [])
    for number in range(pairs):
        order = ((ours, samples[0]), (theirs, samples[1]))
        for function, taken in order if number % 2 else reversed(order):
            started = time.perf_counter()
            function()
            taken.append(time.perf_counter() - started)
    return statistics.median(samples[0]), statistics.median(samples[1])


def check(label: str, got: Any, reference: Any, tolerance: float) -> None:
    """Raise where a result is further than `tolerance` times the reference's scale from it."""
    scale = np.abs(reference).max()
    error = np.abs(np.asarray(got, np.float64) - reference).max() / scale
    if not error <= tolerance:
        raise AssertionError(f"{label}: relative error {error:.3g}, allowed {tolerance:.3g}")


def measure_limits(report: Report, pairs: int) -> dict[str, float]:
    """Measure copy and read bandwidth (bytes/s) and OpenBLAS's rate (flop/s).

    The read is of as many bytes as the reduction's, which some caches hold.
    """
    x = np.zeros(1 << 24, np.float32)
    out = np.ones_like(x)
    bits = x[: 1 << 22].view(np.int64)
    copy, read = interleaved(
        lambda: work.copy_prange(x, out), lambda: work.read_prange(bits), pairs
    )
    a = np.ones((2048, 2048), np.float32)
    product, _ = interleaved(lambda: a @ a, lambda: None, 5)
    limits = {
        "copy_bytes_per_s": 2 * x.nbytes / copy,
        "read_bytes_per_s": bits.nbytes / read,
        "flop_per_s": 2 * 2048**3 / product,
    }
    report.scale["limits"] = limits
    print(
        f"copy {limits['copy_bytes_per_s'] / 1e9:.1f} GB/s, "
        f"read of 16 MB {limits['read_bytes_per_s'] / 1e9:.1f} GB/s, "
        f"OpenBLAS {limits['flop_per_s'] / 1e9:.0f} GFLOP/s\n"
    )
    return limits


def measure_axpy(report: Report, limits: dict[str, float], pairs: int) -> None:
    """Measure ``a * x + y`` over 2**24 elements."""
    rng = np.random.default_rng()
    n, a = 1 << 24, np.float32(1.7)
    x, y = (rng.standard_normal(n, np.float32) for _ in range(2))
    reference = 1.7 * x.astype(np.float64) + y
    outs = [np.full(n, np.nan, np.float32) for _ in range(2)]
    launch = work.axpy.forall(n)
    ours, theirs = interleaved(
        lambda: launch(a, x, y, outs[0]), lambda: work.axpy_prange(a, x, y, outs[1]), pairs
    )
    for label, out in zip(("axpy", "axpy_prange"), outs, strict=True):
        check(label, out, reference, 1e-6)
    floor = 12 * n / limits["copy_bytes_per_s"]
    report.add(Row("axpy 2^24", ours, theirs, theirs / ours, 0.95, floor, "12 bytes an element"))


def measure_jacobi(report: Report, limits: dict[str, float], pairs: int) -> None:
    """Measure one sweep over 4096 x 4096, by ``forall`` and at block (32, 8)."""
    rng = np.random.default_rng()
    n = 4096
    old = rng.random((n, n), np.float32)
    wide = old.astype(np.float64)
    inner = 0.25 * (wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:])
    floor = 8 * n * n / limits["copy_bytes_per_s"]
    launches = {
        "Jacobi 4096^2 forall": work.jacobi.forall(n, n),
        "Jacobi 4096^2 block (32, 8)": work.jacobi_block[(n // 32, n // 8), (32, 8)],
    }
    for label, launch in launches.items():
        outs = [np.full((n, n), np.nan, np.float32) for _ in range(2)]
        ours, theirs = interleaved(
            lambda launch=launch, out=outs[0]: launch(old, out),
            lambda out=outs[1]: work.jacobi_prange(old, out),
            pairs,
        )
        for out in outs:
            check(label, out[1:-1, 1:-1], inner, 1e-6)
            if not np.isnan(out[0]).all():
                raise AssertionError(f"{label}: the border was written")
        report.add(Row(label, ours, theirs, theirs / ours, 0.9, floor, "8 bytes an element"))


def measure_turns(report: Report, limits: dict[str, float], pairs: int) -> None:
    """Measure launches in turns with regions of other libraries' threads, and without them.

    Their threads look for work for a while after each. Alone, there is a rest longer than that
    before a launch. PyTorch is measured where it is installed.
    """
    rng = np.random.default_rng()
    n = 1 << 20
    x, y, out, theirs_out = (rng.standard_normal(n, np.float32) for _ in range(4))
    a, square = np.float32(1.7), rng.random((768, 768), np.float32)
    bodies = [rng.random(4096, np.float32) for _ in range(7)]
    others: dict[str, Callable[[], Any]] = {
        "Numba": lambda: work.axpy_prange(a, x, y, theirs_out),
        "OpenBLAS": lambda: square @ square,
    }
    try:
        import torch
    except ImportError:
        print("in turns with PyTorch: it is not installed")
    else:
        tensor = torch.ones(n)
        result = torch.empty(n)
        others["PyTorch"] = lambda: torch.add(tensor, tensor, out=result)
    axpy, nbody, old = work.axpy.forall(n), work.nbody.forall(4096), rng.random((2048, 2048))
    old = old.astype(np.float32)
    new = np.full_like(old, np.nan)
    jacobi = work.jacobi.forall(*old.shape)
    launches: dict[str, Callable[[], Any]] = {
        "axpy": lambda: axpy(a, x, y, out),
        "Jacobi": lambda: jacobi(old, new),
        "n-body": lambda: nbody(*bodies[:4], np.float32(1e-3), *bodies[4:]),
    }
    for label, launch in launches.items():
        for name, other in others.items():
            taken: dict[bool, list[float]] = {True: [], False: []}
            for number in range(2 * pairs):
                is_alone = bool((number + number // 2) % 2)
                for _ in range(3):
                    other()
                    if is_alone:
                        time.sleep(_REST_S)
                        for _ in range(20):  # some milliseconds, in one thread
                            np.add(x, y, out=theirs_out)
                    started = time.perf_counter()
                    launch()
                    taken[is_alone].append(time.perf_counter() - started)
            alone, turns = (statistics.median(taken[each]) for each in (True, False))
            row = f"{label} in turns with {name}"
            report.add(Row(row, turns, alone, alone / turns, 0.95, None, "of its speed alone"))


def measure_nbody(report: Report, limits: dict[str, float], pairs: int) -> None:
    """Measure the accelerations of 4096 bodies."""
    rng = np.random.default_rng()
    n = 4096
    x, y, z, m = (rng.random(n, np.float32) for _ in range(4))
    softening = np.float32(1e-3)
    outs = [[np.full(n, np.nan, np.float32) for _ in range(3)] for _ in range(2)]
    launch = work.nbody.forall(n)
    ours, theirs = interleaved(
        lambda: launch(x, y, z, m, softening, *outs[0]),
        lambda: work.nbody_prange(x, y, z, m, softening, *outs[1]),
        pairs,
    )
    places = np.stack([x, y, z]).astype(np.float64)
    for axis in range(3):
        reference = np.empty(n)
        for i in range(n):
            d = places - places[:, i : i + 1]
            squared = (d * d).sum(0) + float(softening)
            reference[i] = (d[axis] * m / (squared * np.sqrt(squared))).sum()
        for out in outs:
            check("n-body", out[axis], reference, 1e-4)
    floor = 20 * n * n / limits["flop_per_s"]
    report.add(Row("n-body 4096", ours, theirs, theirs / ours, 0.95, floor, "20 flop a pair"))


def measure_reduction(report: Report, limits: dict[str, float], pairs: int) -> None:
    """Measure the sum of 2**22 elements: a tree in each block, then of the blocks' sums."""
    rng = np.random.default_rng()
    n = 1 << 22
    x = rng.random(n, np.float32)
    first = np.full(n // work.BLOCK, np.nan, np.float32)
    second = np.full(first.size // work.BLOCK, np.nan, np.float32)
    whole = work.tree_reduction[first.size, work.BLOCK]
    rest = work.tree_reduction[second.size, work.BLOCK]

    def tree() -> np.float32:
        whole(x, first)
        rest(first, second)
        return second.sum()

    reference = x.sum(dtype=np.float64)
    floor = 4 * n / limits["read_bytes_per_s"]
    ours, theirs = interleaved(tree, lambda: work.sum_prange(x), pairs)
    check("tree reduction", tree(), reference, 1e-5)
    check("sum_prange", work.sum_prange(x), reference, 1e-2)
    label = "tree reduction 2^22"
    note = "4 bytes an element, read"
    report.add(Row(f"{label} / prange", ours, theirs, theirs / ours, 3.0, floor, note))
    ours, theirs = interleaved(tree, x.sum, pairs)
    report.add(Row(f"{label} / numpy.sum", ours, theirs, theirs / ours, 1.0, floor, note))


def measure_matmul(report: Report, limits: dict[str, float], pairs: int) -> None:
    """Measure a product of 1024 x 1024 with 16 x 16 tiles in shared memory."""
    rng = np.random.default_rng()
    n = 1024
    a, b = (rng.standard_normal((n, n), np.float32) for _ in range(2))
    outs = [np.full((n, n), np.nan, np.float32) for _ in range(2)]
    launch = work.matmul_tiled[(n // work.TILE, n // work.TILE), (work.TILE, work.TILE)]
    ours, theirs = interleaved(
        lambda: launch(a, b, outs[0]), lambda: work.matmul_prange(a, b, outs[1]), pairs
    )
    reference = a.astype(np.float64) @ b
    for out in outs:
        check("matmul", out, reference, 1e-5)
    floor = 2 * n**3 / limits["flop_per_s"]
    report.add(
        Row("16x16-tile matmul 1024", ours, theirs, theirs / ours, 2.0, floor, "OpenBLAS's rate")
    )


_OURS = """
import kerneldsl as kd

@kd.kernel
def first_{serial}(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i] + {serial}
"""
_THEIRS = """
import numba
from numba import prange

@numba.njit(parallel=True)
def first_{serial}(a, x, y, out):
    for i in prange(out.size):
        out[i] = a * x[i] + y[i] + {serial}
"""


def _first_call(template: str, serial: int) -> float:
    """Return the seconds from the decorator to the result of a function nobody has seen."""
    text = template.format(serial=serial)
    filename = f"<first {serial} {hash(template)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    code = compile(text, filename, "exec")
    x = np.ones(100_000, np.float32)
    out = np.full_like(x, np.nan)
    namespace: dict[str, Any] = {"__name__": "first"}
    started = time.perf_counter()
    exec(code, namespace)
    function = namespace[f"first_{serial}"]
    launch = function.forall(out.size) if "kd" in namespace else function
    launch(np.float32(2), x, x, out)
    taken = time.perf_counter() - started
    check("first call", out, np.full(out.size, 3.0 + serial), 1e-6)
    return taken


def measure_first_calls(report: Report, count: int) -> None:
    """Measure the first call of fresh functions, after one unrelated compilation of each side.

    The cache is in a folder of its own: an earlier run has left the same functions in the user's.
    """
    taken: tuple[list[float], list[float]] = ([], [])
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, {"KERNELDSL_CACHE_DIR": folder}),
    ):
        for template in (_OURS, _THEIRS):
            _first_call(template, 1000)
        for serial in range(count):
            taken[0].append(_first_call(_OURS, serial))
            taken[1].append(_first_call(_THEIRS, serial))
    ours, theirs = map(statistics.median, taken)
    note = f"median of {count}"
    report.add(Row("first call", ours, theirs, ours / theirs, -0.6, None, "", note))


def measure_fresh_processes(report: Report, count: int) -> None:
    """Measure whole processes, from start to the first result, with empty caches."""
    launches = {
        _OURS: "first_1.forall(out.size)(np.float32(2), x, x, out)",
        _THEIRS: "first_1(np.float32(2), x, x, out)",
    }
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(count):
        for samples, (template, launch) in zip(taken, launches.items(), strict=True):
            text = (
                template.format(serial=1) + "import numpy as np\n"
                "x = np.ones(100_000, np.float32)\nout = np.full_like(x, np.nan)\n"
                f"{launch}\nassert (out == 4).all()\n"
            )
            samples.append(_process_seconds(text))
    ours, theirs = map(statistics.median, taken)
    note = f"median of {count} pairs"
    report.add(Row("fresh process", ours, theirs, ours / theirs, -1.2, None, "", note))


def _process_seconds(text: str, **environment: str) -> float:
    directory = tempfile.mkdtemp(prefix="kerneldsl-bench-")
    try:
        script = Path(directory, "script.py")
        script.write_text(text)
        variables = {
            **os.environ,
            **environment,
            "PYTHONPATH": str(_ROOT),
            "XDG_CACHE_HOME": directory,
            "NUMBA_CACHE_DIR": directory,
        }
        started = time.perf_counter()
        subprocess.run([sys.executable, str(script)], check=True, env=variables, timeout=300)
        return time.perf_counter() - started
    finally:
        shutil.rmtree(directory)


_SIMULATED = """
import json, sys, time
import numba
import numpy as np
from numba import cuda

@cuda.jit
def axpy(a, x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]

n = 4096
x = np.ones(n, np.float32)
out = np.zeros_like(x)
axpy[n // 256, 256](np.float32(2), x, x, out)
samples = []
for _ in range(3):
    started = time.perf_counter()
    axpy[n // 256, 256](np.float32(2), x, x, out)
    samples.append(time.perf_counter() - started)
assert (out == 3).all()
print(json.dumps(sorted(samples)[1] / n))
"""


def measure_simulator(report: Report, pairs: int) -> None:
    """Measure axpy over 4096 threads in Numba's CUDA simulator, for scale: seconds per thread."""
    done = subprocess.run(
        [sys.executable, "-c", _SIMULATED],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    n = 4096
    x = np.ones(n, np.float32)
    out = np.full_like(x, np.nan)
    launch = work.axpy[n // 256, 256]
    ours, _ = interleaved(lambda: launch(np.float32(2), x, x, out), lambda: None, pairs)
    report.scale["axpy_4096_s_per_thread"] = ours / n
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        report.scale["simulator"] = f"cannot be had: {reason}"
        print(f"\nnumba's simulator cannot be had here: {reason}")
        return
    theirs = json.loads(done.stdout)
    report.scale["simulator_s_per_thread"] = theirs
    print(
        f"\nfor scale, axpy at 4096 threads: {1e9 * ours / n:.2f} ns a thread, in numba's "
        f"simulator {1e9 * theirs:.0f} ns"
    )


def start_pools() -> str:
    """Start the pools of both sides; return their names."""
    x = np.ones(1 << 20, np.float32)
    out = np.empty_like(x)
    work.axpy.forall(x.size)(np.float32(2), x, x, out)
    work.axpy_prange(np.float32(2), x, x, out)
    return f"ours {threading_layer().name}, Numba's {numba.threading_layer()}"


def describe_machine() -> dict[str, Any]:
    """Return what the results depend on."""
    model = platform.processor()
    if Path("/proc/cpuinfo").exists():
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit_name(),
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else _CORES,
        "system": platform.platform(),
        "python": platform.python_version(),
        **package_versions(_PACKAGES),
    }


def main() -> int:
    """Run everything and report; the status is 1 where a requirement is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    parser.add_argument("--pairs", type=int, default=21, help="pairs of samples, at least 15")
    parser.add_argument("--only", help="run the measurements whose name contains this")
    options = parser.parse_args()
    pairs = max(15, options.pairs)
    kd.use("cpu")
    report = Report({**describe_machine(), "threading_layer": start_pools()})
    print(json.dumps(report.machine, indent=1))
    limits = measure_limits(report, pairs)
    print(
        f"{'':34s} {'ours ms':>10s} {'theirs ms':>10s} {'ratio':>7s} {'required':8s}"
        f"{'':6s}{'floor ms':>9s}"
    )
    steps: dict[str, Callable[[], None]] = {
        "axpy": lambda: measure_axpy(report, limits, pairs),
        "jacobi": lambda: measure_jacobi(report, limits, pairs),
        "turns": lambda: measure_turns(report, limits, pairs),
        "nbody": lambda: measure_nbody(report, limits, pairs),
        "reduction": lambda: measure_reduction(report, limits, pairs),
        "matmul": lambda: measure_matmul(report, limits, pairs),
        "first": lambda: measure_first_calls(report, 10),
        "fresh": lambda: measure_fresh_processes(report, 5),
        "simulator": lambda: measure_simulator(report, pairs),
    }
    for name, step in steps.items():
        if options.only is None or options.only in name:
            step()
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(asdict(report), indent=1) + "\n")
        print(f"\nwritten to {options.json}")
    return 0 if all(row.holds for row in report.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
