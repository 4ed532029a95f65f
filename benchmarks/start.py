"""A fresh process to its first finished launch, with everything cached and with nothing.

Run it with nothing else on the machine::

    python benchmarks/start.py --json benchmarks/results/start.json

Each program below is run in a process of its own, over and over, all of them in turn; the clock
runs in this process, from before the child is started until the child says that its first launch
has finished. Medians are reported. ``warm`` programs find what an earlier run of them has cached,
``cold`` ones an empty folder. The floor on a GPU is a process that imports NumPy and retains the
primary context through ``cuda.bindings``; on a CPU, one that imports NumPy. This process itself
does not touch the GPU before the last run has ended: where somebody holds a context, the driver
starts in less time, for every program.

On a CPU it is compared with Numba's ``cache=True``; on a GPU with numba-cuda's, CuPy's RawKernel
and Triton, where they are installed. Exits with 1 where a bound is broken.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from machine import describe_cpu_machine, describe_gpu_machine

ROOT = Path(__file__).resolve().parents[1]
#: What a warm start on a GPU may take beyond its floor, in seconds.
MAX_OVER_FLOOR_S = 0.1
#: What a warm start may take of Numba's own.
MAX_OF_NUMBA = 0.5

_DONE = "\nprint('done', flush=True)\n"
_REPORT = """
import sys
print([m for m in ("numba", "llvmlite", "cuda.core") if m in sys.modules])
"""
_KERNELDSL = """
import numpy as np
import kerneldsl as kd

@kd.kernel
def axpy(a, x, y):
    i = kd.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]

n = 1_000_000
"""
PROGRAMS = {
    "cpu": {
        "floor": "import numpy",
        "kerneldsl": _KERNELDSL
        + """
x, y = np.ones(n, np.float32), np.ones(n, np.float32)
with kd.use("cpu"):
    axpy.forall(n)(np.float32(2), x, y)
assert y[-1] == 3
""",
        "numba": """
import numpy as np
from numba import njit, prange

@njit(parallel=True, cache=True)
def axpy(a, x, y):
    for i in prange(y.size):
        y[i] = a * x[i] + y[i]

n = 1_000_000
x, y = np.ones(n, np.float32), np.ones(n, np.float32)
axpy(np.float32(2), x, y)
assert y[-1] == 3
""",
    },
    "gpu": {
        "floor": """
import numpy
from cuda.bindings import driver
driver.cuInit(0)
driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(driver.cuDeviceGet(0)[1])[1])
""",
        "kerneldsl": _KERNELDSL
        + """
with kd.use("cuda:0"):
    x, y = kd.zeros(n, np.float32), kd.zeros(n, np.float32)
    axpy.forall(n)(np.float32(2), x, y)
    kd.synchronize()
""",
        "numba": """
import numpy as np
if not hasattr(np, "row_stack"):
    np.row_stack = np.vstack  # numba-cuda 0.30 asks for it; NumPy 2.5 has dropped it
from numba import cuda

@cuda.jit(cache=True)
def axpy(a, x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]

n = 1_000_000
x, y = cuda.device_array(n, np.float32), cuda.device_array(n, np.float32)
axpy[(n + 255) // 256, 256](np.float32(2), x, y)
cuda.synchronize()
""",
        "cupy": """
import cupy as cp
axpy = cp.RawKernel(r'''
extern "C" __global__ void axpy(float a, const float* x, float* y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}''', "axpy")
n = 1_000_000
x, y = cp.zeros(n, cp.float32), cp.zeros(n, cp.float32)
axpy(((n + 255) // 256,), (256,), (cp.float32(2), x, y, cp.int64(n)))
cp.cuda.Device().synchronize()
""",
        "triton": """
import torch
import triton
import triton.language as tl

@triton.jit
def axpy(a, x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(y + i, a * tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)

n = 1_000_000
x, y = torch.zeros(n, device="cuda"), torch.zeros(n, device="cuda")
axpy[(triton.cdiv(n, 1024),)](2.0, x, y, n, BLOCK=1024)
torch.cuda.synchronize()
""",
    },
}
_NEEDS = {
    "numba": {"cpu": "numba", "gpu": "numba_cuda"},
    "cupy": {"gpu": "cupy"},
    "triton": {"gpu": "triton"},
}
#: What takes seconds, and is far from the others: one sample will do.
_SELDOM = frozenset({"triton"})


@dataclass
class Report:
    """Everything that was measured, in seconds."""

    device: str
    runs: int
    machine: dict[str, Any] = field(default_factory=dict)
    medians: dict[str, float] = field(default_factory=dict)
    samples: dict[str, list[float]] = field(default_factory=dict)
    imported: list[str] = field(default_factory=list)
    verdicts: dict[str, bool] = field(default_factory=dict)
    #: Peers that could not be run, and what they said.
    failed: dict[str, str] = field(default_factory=dict)


class Programs:
    """The programs of one device, in files, each with caches of its own."""

    def __init__(self, device: str, folder: Path) -> None:
        self.folder = folder
        self.texts = {
            name: text
            for name, text in PROGRAMS[device].items()
            if name not in _NEEDS or importlib.util.find_spec(_NEEDS[name][device]) is not None
        }

    def start(self, name: str, *, is_cold: bool) -> float:
        """Return the seconds from starting a process until its first launch has finished."""
        state = "cold" if is_cold else "warm"
        caches = self.folder / f"caches-{name}-{state}"
        if is_cold:
            shutil.rmtree(caches, ignore_errors=True)
        script = self.folder / f"start_{name}.py"  # no module's name
        script.write_text(self.texts[name] + _DONE + _REPORT)
        complaints = self.folder / "complaints"
        started = time.perf_counter()
        with (
            complaints.open("w") as errors,
            subprocess.Popen(
                [sys.executable, str(script)],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=self._environment(caches),
            ) as child,
        ):
            assert child.stdout is not None
            said = child.stdout.readline()
            elapsed = time.perf_counter() - started
            self.imported = child.stdout.read().strip()
        if said != "done\n" or child.returncode:
            last = complaints.read_text().strip().splitlines()[-1:] or ["nothing"]
            raise RuntimeError(f"{name} ended with {child.returncode}: {last[0]}")
        return elapsed

    @staticmethod
    def _environment(caches: Path) -> dict[str, str]:
        # Without compiled files of Python's own, the sources of every program would be read anew.
        out = ("KERNELDSL_", "PYTHONDONTWRITEBYTECODE")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(out)}
        # Programs import what this one does: a wheel where one is installed, else the checkout.
        spec = importlib.util.find_spec("kerneldsl")
        is_installed = spec is not None and not str(spec.origin).startswith(str(ROOT))
        path = ["" if is_installed else str(ROOT), os.environ.get("PYTHONPATH")]
        return {
            **kept,
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
            "KERNELDSL_CACHE_DIR": str(caches / "kerneldsl"),
            "NUMBA_CACHE_DIR": str(caches / "numba"),
            "CUPY_CACHE_DIR": str(caches / "cupy"),
            "TRITON_CACHE_DIR": str(caches / "triton"),
            "CUDA_CACHE_PATH": str(caches / "driver"),
        }


def measure(device: str, runs: int, commit: str | None) -> Report:
    """Run every program in turn."""
    report = Report(device, runs)
    with tempfile.TemporaryDirectory() as folder:
        programs = Programs(device, Path(folder))
        for name in tuple(programs.texts):
            try:
                if name != "floor":
                    report.samples[f"{name}, cold"] = [
                        programs.start(name, is_cold=True) for _ in range(max(1, runs // 4))
                    ]
                programs.start(name, is_cold=False)  # fills its caches
            except RuntimeError as error:
                if name in ("floor", "kerneldsl"):
                    raise
                report.failed[name] = str(error)
                del programs.texts[name]
        for _ in range(runs):
            for name in programs.texts:
                label = name if name == "floor" else f"{name}, warm"
                if name in _SELDOM and label in report.samples:
                    continue
                report.samples.setdefault(label, []).append(programs.start(name, is_cold=False))
                if name == "kerneldsl":
                    report.imported = json.loads(programs.imported.replace("'", '"'))
    report.medians = {name: statistics.median(s) for name, s in report.samples.items()}
    report.machine = (describe_gpu_machine if device == "gpu" else describe_cpu_machine)(commit)
    _judge(report)
    return report


def _judge(report: Report) -> None:
    medians, verdicts = report.medians, report.verdicts
    ours = medians["kerneldsl, warm"]
    verdicts["numba is not imported"] = "numba" not in report.imported
    if "numba, warm" in medians:
        bound = MAX_OF_NUMBA * medians["numba, warm"]
        verdicts[f"{ours:.3f} s, at most half of Numba's {2 * bound:.3f} s"] = ours <= bound
    if report.device == "gpu":
        bound = medians["floor"] + MAX_OVER_FLOOR_S
        verdicts[f"{ours:.3f} s, at most the floor + 0.1 s = {bound:.3f} s"] = ours <= bound
        verdicts["cuda.core is not imported"] = "cuda.core" not in report.imported
        if "cupy, warm" in medians:
            cupy = medians["cupy, warm"]
            verdicts[f"{ours:.3f} s, less than CuPy's {cupy:.3f} s"] = ours < cupy


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--device", choices=sorted(PROGRAMS), default="cpu")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--commit", help="what is run, where there is no git repository")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    report = measure(options.device, options.runs, options.commit)
    for name, seconds in sorted(report.medians.items(), key=lambda item: item[1]):
        samples = report.samples[name]
        print(f"{name:20} {seconds:7.3f} s  ({min(samples):.3f} to {max(samples):.3f})")
    for name, why in report.failed.items():
        print(f"{name:20} could not be run: {why}")
    for verdict, holds in report.verdicts.items():
        print(f"{'kept  ' if holds else 'BROKEN'} {verdict}")
    if options.json is not None:
        options.json.write_text(json.dumps(asdict(report), indent=2) + "\n")
    return 0 if all(report.verdicts.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
