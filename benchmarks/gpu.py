"""kerneldsl against numba-cuda on one GPU: same kernels, same grid and block, same run.

Run it with nothing else on the device::

    python benchmarks/gpu.py --json benchmarks/results/gpu.json

Device times are taken with CUDA events around launches that are queued behind a waiting kernel, so
that the host's speed plays no part; the two sides take turns within each pair of samples, and
medians are reported. Every result is compared with a float64 reference, from fresh random inputs
and outputs filled with NaN. The floor beside a device time is the bytes that must be moved over
the bandwidth of torch's copy in the same run; for the matrix product also the time of cuBLAS.

First calls are whole ones, from the decorator to the finished result, of functions that nobody has
seen before: each is made by ``exec`` with a constant of its own, the driver's cache is off, and the
two sides take turns. Needs torch and numba-cuda.
"""

from __future__ import annotations

import argparse
import gc
import json
import linecache
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

# Assembled PTX must not come out of the driver's cache; read when the driver starts.
os.environ["CUDA_CACHE_DISABLE"] = "1"
# A warning about small grids is no part of numba-cuda's first call.
os.environ["NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS"] = "0"

import numpy as np

if not hasattr(np, "row_stack"):
    np.row_stack = np.vstack  # type: ignore[attr-defined]  # numba-cuda 0.30 needs it

import numba
import torch
from compile_stages import LONG
from device_time import device_seconds, in_turns, measure_copy, spread
from machine import describe_gpu_machine
from numba import cuda

import kerneldsl as kd

_ROOT = Path(__file__).resolve().parents[1]

AXPY = """
def {name}(a, x, y, out):
    i = {m}.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]{extra}
"""
MATMUL = """
def {name}(a, b, c):
    tile_a = {m}.shared.array(({tile}, {tile}), float32)
    tile_b = {m}.shared.array(({tile}, {tile}), float32)
    x, y = {m}.grid(2)
    tx = {m}.threadIdx.x
    ty = {m}.threadIdx.y
    total = float32(0.0)
    for i in range(a.shape[1] // {tile}):
        tile_a[ty, tx] = a[y, tx + i * {tile}]
        tile_b[ty, tx] = b[ty + i * {tile}, x]
        {m}.syncthreads()
        for j in range({tile}):
            total += tile_a[ty, j] * tile_b[j, tx]
        {m}.syncthreads()
    c[y, x] = total{extra}
"""
#: 60 lines: six steps of a stencil, each with branches and a root.
STEPS = (
    LONG.replace("@kd.kernel\ndef kernel", "def {name}")
    .replace("kd.", "{m}.")
    .replace(" + {round}", "{extra}")
)


@dataclass
class Report:
    """Everything that was measured."""

    machine: dict[str, Any]
    copy_gbps: float = 0.0
    axpy: list[dict[str, Any]] = field(default_factory=list)
    matmul: list[dict[str, Any]] = field(default_factory=list)
    first_call: list[dict[str, Any]] = field(default_factory=list)
    launch: dict[str, float] = field(default_factory=dict)
    verdicts: dict[str, bool] = field(default_factory=dict)


# ------------------------------------------------------------------- making kernels


def make_function(
    template: str, module: str, serial: int, *, extra: str = "", **values: Any
) -> Any:
    """Return a plain function of a template, with source that ``inspect`` finds."""
    name = f"{module}_{serial}"
    source = template.format(name=name, m=module, extra=extra, **values)
    filename = f"<benchmark {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    float32 = np.float32 if module == "kd" else numba.float32  # as each side's users write it
    scope = {"kd": kd, "cuda": cuda, "math": math, "float32": float32, "__name__": "__main__"}
    exec(compile(source, filename, "exec"), scope)  # the text is ours
    return scope[name]


def make_pair(template: str, serial: int, **values: Any) -> tuple[Any, Any]:
    """Return the same kernel for kerneldsl and for numba-cuda."""
    ours = kd.kernel(make_function(template, "kd", serial, **values))
    theirs = cuda.jit(make_function(template, "cuda", serial, **values))
    return ours, theirs


# ------------------------------------------------------------------------- measuring


def interleaved(
    ours: Callable[[], None], theirs: Callable[[], None], pairs: int, count: int
) -> tuple[list[float], list[float]]:
    """Return samples of both sides, taken in turns; who goes first changes from pair to pair."""
    samples = in_turns({"ours": ours, "theirs": theirs}, pairs, count)
    return samples["ours"], samples["theirs"]


def measure_axpy(report: Report, exponents: range, pairs: int) -> None:
    """Measure axpy out of place on float32, by size and block."""
    ours, theirs = make_pair(AXPY, 0)
    for exponent in exponents:
        n = 1 << exponent
        for block in (128, 256, 512):
            x, y = (torch.randn(n, device="cuda") for _ in range(2))
            outs = [torch.full((n,), float("nan"), device="cuda") for _ in range(2)]
            a, grid = np.float32(np.random.default_rng().uniform(1, 2)), n // block
            mine = [kd.as_array(t) for t in (x, y, outs[0])]
            others = [cuda.as_cuda_array(t) for t in (x, y, outs[1])]
            samples = interleaved(
                lambda m=mine, a=a, g=grid, b=block: ours[g, b](a, *m),
                lambda o=others, a=a, g=grid, b=block: theirs[g, b](a, *o),
                pairs,
                10,
            )
            exact = float(a) * x.double() + y.double()
            scale = (float(a) * x.double()).abs() + y.double().abs()
            for out in outs:
                error = float(((out.double() - exact).abs() / scale).max())
                if not error <= 1.2e-7:  # NaN fails too
                    raise AssertionError(f"axpy 2^{exponent}, block {block}: error {error:.3g}")
            floor = 12 * n / (report.copy_gbps * 1e9)
            report.axpy.append(_row(samples, floor, n=n, block=block, bytes=12 * n))
            _show_row(f"axpy 2^{exponent} block {block}", report.axpy[-1], 12 * n / 1e9, "GB/s")
            del x, y, outs, mine, others, exact, scale


def measure_matmul(report: Report, sizes: tuple[int, ...], pairs: int) -> None:
    """Measure the product with square tiles in shared memory, float32, by size and tile."""
    torch.backends.cuda.matmul.allow_tf32 = False
    for serial, tile in enumerate((16, 32), start=1):
        ours, theirs = make_pair(MATMUL, serial, tile=tile)
        for n in sizes:
            a, b = (torch.randn(n, n, device="cuda") for _ in range(2))
            outs = [torch.full((n, n), float("nan"), device="cuda") for _ in range(2)]
            grid, block = (n // tile, n // tile), (tile, tile)
            mine = [kd.as_array(t) for t in (a, b, outs[0])]
            others = [cuda.as_cuda_array(t) for t in (a, b, outs[1])]
            samples = interleaved(
                lambda m=mine, k=ours, g=grid, t=block: k[g, t](*m),
                lambda o=others, k=theirs, g=grid, t=block: k[g, t](*o),
                pairs,
                4,
            )
            exact = a.double() @ b.double()
            for out in outs:
                error = float((out.double() - exact).norm() / exact.norm())
                if not error <= 1e-5:
                    raise AssertionError(f"matmul {n}, tile {tile}: relative error {error:.3g}")
            cublas = [device_seconds(lambda p=a, q=b: torch.mm(p, q), 4) for _ in range(7)][2:]
            floor = 12 * n * n / (report.copy_gbps * 1e9)
            row = _row(samples, floor, n=n, tile=tile, cublas_s=statistics.median(cublas))
            report.matmul.append(row)
            _show_row(f"matmul {n} tile {tile}", row, 2e-12 * n**3, "TFLOP/s")


def _row(samples: tuple[list[float], list[float]], floor: float, **fields: Any) -> dict[str, Any]:
    ratios = [theirs / ours for ours, theirs in zip(*samples, strict=True)]
    return {
        **fields,
        "kerneldsl": spread(samples[0]),
        "numba_cuda": spread(samples[1]),
        "floor_s": floor,
        "speed_ratio": statistics.median(ratios),
    }


# ----------------------------------------------------------------------- first calls


def measure_first_calls(report: Report, count: int) -> None:
    """Measure from decorator to result of new functions, after one unrelated kernel each."""
    arrays = [torch.randn(1 << 16, device="cuda") for _ in range(3)]
    squares = [torch.randn(256, 256, device="cuda") for _ in range(3)]
    cases: list[tuple[str, str, dict[str, Any], tuple[Any, ...], list[Any]]] = [
        ("axpy", AXPY, {}, (256, 256), [np.float32(2), *arrays]),
        ("matmul 16x16", MATMUL, {"tile": 16}, ((16, 16), (16, 16)), squares),
        ("60 lines", STEPS, {}, ((16, 16), (16, 16)), [squares[0], arrays[0][:6], squares[1]]),
    ]
    for case, (label, template, values, shape, arguments) in enumerate(cases):
        mine = [kd.as_array(v) if isinstance(v, torch.Tensor) else v for v in arguments]
        others = [cuda.as_cuda_array(v) if isinstance(v, torch.Tensor) else v for v in arguments]
        samples: tuple[list[float], list[float]] = ([], [])
        loads: list[float] = []
        for k in range(count + 1):
            serial = 1000 * (case + 1) + k
            extra = f" + float32({serial})"
            for side in (0, 1) if k % 2 == 0 else (1, 0):
                module, decorate, given = (
                    ("kd", kd.kernel, mine),
                    ("cuda", cuda.jit, others),
                )[side]
                function = make_function(template, module, serial, extra=extra, **values)
                seconds, kernel = _first_call(decorate, function, shape, given)
                samples[side].append(seconds)
                if side == 0:
                    loads.append(_load_seconds(kernel, mine))
        rows = [spread(s[1:]) for s in samples]  # the first of each side pays for imports
        row = {
            "kernel": label,
            "kerneldsl": rows[0],
            "numba_cuda": rows[1],
            "very_first_s": {"kerneldsl": samples[0][0], "numba_cuda": samples[1][0]},
            "driver_ptx_to_cubin_s": statistics.median(loads[1:]),
            "time_ratio": rows[0]["median_s"] / rows[1]["median_s"],
        }
        report.first_call.append(row)
        print(
            f"first call {label:14s} kerneldsl {1e3 * rows[0]['median_s']:7.1f} ms "
            f"(driver's assembler {1e3 * row['driver_ptx_to_cubin_s']:.1f})   "
            f"numba-cuda {1e3 * rows[1]['median_s']:7.1f} ms   ratio {row['time_ratio']:.3f}   "
            f"very first {1e3 * samples[0][0]:.0f} and {1e3 * samples[1][0]:.0f} ms",
            flush=True,
        )


def _first_call(
    decorate: Callable[[Any], Any], function: Any, shape: tuple[Any, ...], arguments: list[Any]
) -> tuple[float, Any]:
    arguments[-1].copy_to_host()  # nothing is pending
    gc.collect()
    started = time.perf_counter()
    kernel = decorate(function)
    kernel[shape](*arguments)
    torch.cuda.synchronize()
    return time.perf_counter() - started, kernel


def _load_seconds(kernel: Any, arguments: list[Any]) -> float:
    """Return what the driver takes to assemble and load this kernel's PTX once more."""
    from targets.cuda.driver.driver import get_driver
    from targets.cuda.driver.functions import load, unload

    artifact = kernel.artifact(*arguments, target="cuda", arch=kd.devices("cuda")[0].arch)
    driver = get_driver()
    started = time.perf_counter()
    function = load(driver, 0, artifact.text("ptx"), artifact.entry_name)
    seconds = time.perf_counter() - started
    unload(driver, function)
    return seconds


def measure_fresh_processes(report: Report, count: int) -> None:
    """Import, first call and result in a new process; for the reader, judged by nobody."""
    program = (
        "import time; t = time.perf_counter()\n"
        "import numpy as np\n"
        "if not hasattr(np, 'row_stack'): np.row_stack = np.vstack\n"
        "{imports}\n"
        "@{decorator}\n"
        "def axpy(a, x, y, out):\n"
        "    i = {m}.grid(1)\n"
        "    if i < out.size:\n"
        "        out[i] = a * x[i] + y[i]\n"
        "x = {m}.to_device(np.ones(65536, np.float32)); out = {m}.to_device(np.zeros(65536))\n"
        "axpy[256, 256](np.float32(2), x, x, out)\n"
        "assert (out.copy_to_host() == 3).all()\n"
        "print(time.perf_counter() - t)\n"
    )
    sides = {
        "kerneldsl": {"imports": "import kerneldsl as kd", "decorator": "kd.kernel", "m": "kd"},
        "numba_cuda": {"imports": "from numba import cuda", "decorator": "cuda.jit", "m": "cuda"},
    }
    environment = {**os.environ, "PYTHONPATH": str(_ROOT), "KERNELDSL_TARGET": "cuda"}
    samples: dict[str, list[float]] = {side: [] for side in sides}
    with tempfile.TemporaryDirectory() as directory:
        for side, words in sides.items():
            Path(directory, f"first_call_of_{side}.py").write_text(program.format(**words))
        for _ in range(count):
            for side in sides:
                done = subprocess.run(
                    [sys.executable, "-W", "ignore", f"{directory}/first_call_of_{side}.py"],
                    env=environment,
                    stdout=subprocess.PIPE,
                    text=True,
                    check=True,
                )
                samples[side].append(float(done.stdout.split()[-1]))
    medians = {side: statistics.median(s) for side, s in samples.items()}
    report.first_call.append({"kernel": "axpy, fresh process, imports included", **medians})
    print("fresh process, imports to result:", _listed(medians, 1e3, "ms"), flush=True)


def measure_launch(report: Report) -> None:
    """Measure host time of a launch of a compiled kernel with one scalar and three arrays."""
    ours, theirs = make_pair(AXPY, 9)
    tensors = [torch.rand(1024, device="cuda") for _ in range(3)]
    mine, others = map(kd.as_array, tensors), map(cuda.as_cuda_array, tensors)
    calls = {
        "kerneldsl": (ours[4, 256], [np.float32(2), *mine]),
        "numba_cuda": (theirs[4, 256], [np.float32(2), *others]),
    }
    best: dict[str, list[float]] = {side: [] for side in calls}
    for _ in range(7):
        for side, (launch, arguments) in calls.items():
            launch(*arguments)
            torch.cuda.synchronize()
            started = time.perf_counter()
            for _ in range(500):
                launch(*arguments)
            best[side].append((time.perf_counter() - started) / 500)
            torch.cuda.synchronize()
    report.launch = {side: statistics.median(s) for side, s in best.items()}
    print("launch from Python:", _listed(report.launch, 1e6, "µs"), flush=True)


# ------------------------------------------------------------------------- reporting


def _listed(values: dict[str, float], scale: float, unit: str) -> str:
    return ", ".join(f"{side} {scale * value:.1f} {unit}" for side, value in values.items())


def _show_row(label: str, row: dict[str, Any], work: float, unit: str) -> None:
    rates = [work / row[side]["median_s"] for side in ("kerneldsl", "numba_cuda")]
    cublas = f"   cuBLAS {work / row['cublas_s']:8.1f}" if "cublas_s" in row else ""
    print(
        f"{label:24s} kerneldsl {rates[0]:8.1f}   numba-cuda {rates[1]:8.1f}   floor of bytes "
        f"{work / row['floor_s']:8.1f} {unit}   ratio {row['speed_ratio']:.3f}{cublas}",
        flush=True,
    )


def judge(report: Report) -> dict[str, bool]:
    """Return the bounds of these figures; 1 % is what medians vary from run to run."""
    ratios = {row["kernel"]: row["time_ratio"] for row in report.first_call if "time_ratio" in row}
    of_steps = ratios.pop("60 lines")
    return {
        "axpy at least as fast as numba-cuda, within 1 %": all(
            row["speed_ratio"] >= 0.99 for row in report.axpy
        ),
        "matmul at least as fast as numba-cuda, within 1 %": all(
            row["speed_ratio"] >= 0.99 for row in report.matmul
        ),
        "first call at most half of numba-cuda's": all(ratio <= 0.5 for ratio in ratios.values()),
        "first call of 60 lines at most 0.6 of numba-cuda's": of_steps <= 0.6,
    }


def main() -> int:
    """Run everything; the exit status says whether every promise was kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    parser.add_argument("--commit", help="what was measured, where there is no git repository")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and samples")
    options = parser.parse_args()

    kd.use("cuda:0")
    pairs = 7 if options.quick else 21
    report = Report(describe_gpu_machine(options.commit))
    print(json.dumps(report.machine, indent=1))
    report.copy_gbps = measure_copy(pairs)
    print(f"torch copy, 1 GiB: {report.copy_gbps:.0f} GB/s, the bandwidth of the floors")
    measure_first_calls(report, 5 if options.quick else 15)
    measure_axpy(report, range(24, 29, 2 if options.quick else 1), pairs)
    measure_matmul(report, (1024, 2048) if options.quick else (1024, 2048, 4096), pairs)
    measure_launch(report)
    measure_fresh_processes(report, 1 if options.quick else 3)
    report.verdicts = judge(report)
    for promise, kept in report.verdicts.items():
        print(f"{'kept  ' if kept else 'BROKEN'} {promise}")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(asdict(report), indent=1) + "\n")
    return 0 if all(report.verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
