"""Compile times by stage: processor time of kernels that were never compiled, in a warm process.

    python benchmarks/compile_stages.py --json results/compile-stages.json
    python benchmarks/compile_stages.py --against CHECKOUT

Each round compiles a new text of each kernel. With a checkout of another commit both are measured
in turns, one process each, so that the load of the machine is the same for both. No GPU is needed:
the code for one is measured as far as PTX, and ptxas is another program.
"""

from __future__ import annotations

import argparse
import gc
import json
import linecache
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
_ARCH = "sm_90"
#: Largest part of the time of Numba's own ``njit(parallel=True)`` that a block reduction may take,
#: and the most seconds of eight nested loops with exchanges.
REDUCTION_BOUND, LOOPS_BOUND_S = 0.3, 3.0

_ELEMENT = """
@kd.kernel
def kernel(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i] + {round}
"""

_REDUCTION = """
@kd.kernel(block=256)
def kernel(x, out):
    t, i = kd.threadIdx.x, kd.grid(1)
    s = kd.shared.array(256, np.float64)
    s[t] = x[i] + {round} if i < x.size else 0.0
    kd.syncthreads()
    step = 128
    while step > 0:
        if t < step:
            s[t] += s[t + step]
        kd.syncthreads()
        step //= 2
    if t == 0:
        out[kd.blockIdx.x] = s[0]
"""

_PARALLEL = """
@numba.njit(parallel=True)
def kernel(x, out):
    for block in numba.prange(out.size):
        total = 0.0
        for i in range(block * 256, min(x.size, block * 256 + 256)):
            total += x[i] + {round}
        out[block] = total
"""

_STENCIL_STEP = """
        if 0 < i < n - 1 and 0 < j < m - 1:
            west, east = u[i, j - 1], u[i, j + 1]
            north, south = u[i - 1, j], u[i + 1, j]
            value = 0.25 * (west + east + north + south) + {number}
            weight = math.sqrt(abs(value)) if value > 0.5 else value * value
            total += weight * k[{number}]
        else:
            total -= u[i, j] * k[{number}]
"""
LONG = (
    """
@kd.kernel
def kernel(u, k, out):
    i, j = kd.grid(2)
    n, m = u.shape
    if i < n and j < m:
        total = u[i, j] + {round}
"""
    + "".join(_STENCIL_STEP.replace("{number}", str(number)) for number in range(6))
    + "        out[i, j] = total\n"
)

#: The loops of issue 41, in which threads exchange values under masks.
_LOOP = """
    for k in range(n):
        v = (v + h(F, v * 2, u)) % 10007
        m = kd.match_any_sync(F, np.int32(v % 2))
        w = v % 5
        while kd.any_sync(m, w > 0):
            w -= 1
            u = (u + kd.popc(kd.ballot_sync(m, u % 3 == 0))) % 10007
            if kd.any_sync(m, w < 1):
                break
            v = (v + np.int64(kd.reduce_add_sync(m, np.uint32(v)))) % 10007
            v = (v + h(m, t, 7)) % 10007"""
_LOOPS = (
    """
def h(m, a, b):
    b = (b ^ np.int64(kd.ballot_sync(m, b & 1))) % 10007
    return a if b > a else b
@kd.kernel
def kernel(x, out, n):
    t, F = kd.threadIdx.x, 0xFFFFFFFF
    v, u = np.int64(x[t]) + {round}, t"""
    + _LOOP * 8
    + "\n    out[t] = u + v\n"
)


class Stages:
    """Processor time by stage; what a stage calls of another one counts for that alone."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._running: list[str] = []
        self._since = 0.0

    def measured(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose time counts for a stage."""

        @wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            self.enter(stage)
            try:
                return function(*args, **options)
            finally:
                self.leave()

        return call

    def enter(self, stage: str) -> None:
        """Begin a stage."""
        self._count()
        self._running.append(stage)

    def leave(self) -> None:
        """End the stage that began last."""
        self._count()
        self._running.pop()

    def _count(self) -> None:
        now = time.process_time()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now


#: Stages of Numba's passes, by their names; all others are "IR of Numba".
_OF_PASSES = {
    "translate_bytecode": "bytecode",
    "reconstruct_ssa": "SSA form",
    "nopython_type_inference": "types",
    "kerneldsl_lower_to_llvm": "lowering",
    "native_lowering": "lowering",
    "nopython_backend": "lowering",
}


def watch(stages: Stages) -> None:
    """Have the compiler's functions count for their stages."""
    import llvmlite.binding as llvm
    from numba.core.compiler_machinery import PassManager

    import kerneldsl.analysis.analyze as analyze
    import kerneldsl.frontend.normalize as normalize
    import targets.cpu.regions.compile as cpu_regions
    import targets.cuda.compile.ptx as ptx
    import targets.cuda.compile.region_code as region_code
    from kerneldsl.lowering.numba_internals import host_code, llvm_modules

    for stage, owner, name in (
        ("source", normalize, "make_unit"),
        ("analysis", analyze, "analyze"),
        ("passes", cpu_regions, "read_kernel"),
        ("passes", region_code, "read_kernel"),
        ("link", ptx, "link"),
        ("LLVM passes", ptx, "run_passes"),
        ("LLVM passes", llvm_modules, "run_passes"),
        ("LLVM text", llvm_modules, "module_text"),
        ("LLVM text", llvm, "parse_assembly"),
        ("machine code", host_code.HostLibrary, "_finalize_final_module"),
        ("machine code", llvm.TargetMachine, "emit_assembly"),
    ):
        setattr(owner, name, stages.measured(stage, getattr(owner, name)))
    from targets.cpu.codegen import library

    library.run_passes = llvm_modules.run_passes
    library.module_text = llvm_modules.module_text
    run_pass = PassManager._runPass

    def run(manager: Any, index: int, pass_: Any, *rest: Any) -> Any:
        stages.enter(_OF_PASSES.get(pass_.name(), "IR of Numba"))
        try:
            return run_pass(manager, index, pass_, *rest)
        finally:
            stages.leave()

    PassManager._runPass = run

    def collect(phase: str, _: dict[str, Any]) -> None:
        if phase == "start":
            stages.enter("garbage collection")
        else:
            stages.leave()

    gc.callbacks.append(collect)


def made(text: str, round_: int, name: str) -> Any:
    """Return the kernel of a text that has its own constants in each round."""
    import math

    import numba
    import numpy as np

    import kerneldsl as kd

    complete = text.replace("{round}", f"{1 + round_ % 1000}")
    filename = f"<{name} {round_}>"
    linecache.cache[filename] = (len(complete), None, complete.splitlines(True), filename)
    space: dict[str, Any] = {"kd": kd, "np": np, "math": math, "numba": numba}
    exec(compile(complete, filename, "exec"), space)
    return space["kernel"]


def cases() -> dict[str, Callable[[int], Any]]:
    """Return what is compiled: functions of the number of the round."""
    import numpy as np

    x, out = np.ones(1000), np.zeros(4)

    def element(round_: int) -> Any:
        signature = "float64, float64[::1], float64[::1], float64[::1]"
        return made(_ELEMENT, round_, "element").ptx(signature, forall=1, arch=_ARCH)

    def long(round_: int) -> Any:
        signature = "float64[:, ::1], float64[::1], float64[:, ::1]"
        return made(LONG, round_, "long").ptx(signature, forall=2, arch=_ARCH)

    def long_on_cpu(round_: int) -> Any:
        u = np.ones((8, 8))
        made(LONG, round_, "long on a CPU").forall(u.shape)(u, np.ones(6), np.zeros((8, 8)))

    def reduction(round_: int) -> Any:
        made(_REDUCTION, round_, "reduction")[4, 256](x, out)

    def parallel(round_: int) -> Any:
        made(_PARALLEL, round_, "parallel")(x, out)

    def loops(round_: int) -> Any:
        made(_LOOPS, round_, "loops")[1, 80](np.arange(80), np.zeros(80, np.int64), 2)

    return {
        "element kernel to PTX": element,
        "60 lines to PTX": long,
        "60 lines on a CPU": long_on_cpu,
        "block reduction on a CPU": reduction,
        "numba.njit(parallel=True) of it": parallel,
        "8 nested loops with exchanges": loops,
    }


def measure(rounds: int, first: int) -> dict[str, list[dict[str, float]]]:
    """Return the seconds of each stage, for each kernel and round."""
    import kerneldsl as kd

    stages = Stages()
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    with kd.use("cpu"):
        for compiled in cases().values():
            compiled(first + 998)  # imports, and what the process keeps of the first compilation
        watch(stages)
        for round_ in range(first, first + rounds):
            for name, compiled in cases().items():
                stages.seconds.clear()
                stages.enter("rest")
                compiled(round_)
                stages.leave()
                found[name].append(dict(stages.seconds))
    return found


def totals(runs: list[dict[str, float]]) -> tuple[float, float]:
    """Return the least and the median processor time of rounds."""
    seconds = [sum(each.values()) for each in runs]
    return min(seconds), statistics.median(seconds)


def report(found: dict[str, list[dict[str, float]]]) -> bool:
    """Print the stages of each kernel; return whether the bounds are kept."""
    for name, runs in found.items():
        least, middle = totals(runs)
        print(f"{name}: {1e3 * least:.0f} ms at least, {1e3 * middle:.0f} in the median")
        stages = dict.fromkeys(stage for run in runs for stage in run)
        parts = {stage: statistics.median(run.get(stage, 0.0) for run in runs) for stage in stages}
        for stage, seconds in sorted(parts.items(), key=lambda part: -part[1]):
            print(f"    {1e3 * seconds:8.1f} ms  {stage}")
    ours, theirs = (
        totals(found[name])[1]
        for name in ("block reduction on a CPU", "numba.njit(parallel=True) of it")
    )
    loops_s = totals(found["8 nested loops with exchanges"])[1]
    is_kept = True
    for text, value, bound in (
        ("of Numba's time, a block reduction", ours / theirs, REDUCTION_BOUND),
        ("s, 8 nested loops with exchanges", loops_s, LOOPS_BOUND_S),
    ):
        is_kept &= value <= bound
        print(f"{'kept  ' if value <= bound else 'BROKEN'} {value:.2f} {text}, at most {bound}")
    return is_kept


def compare(rounds: int, other: Path, python: str) -> dict[str, Any]:
    """Measure this checkout and another one in turns."""
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for round_ in range(rounds):
        for label, root in (("before", other), ("after", _ROOT)):
            environment = {**os.environ, "PYTHONPATH": str(root)}
            command = [python, __file__, "--root", str(root), "--rounds", "2", "--raw"]
            done = subprocess.run(
                [*command, "--first", str(2 * round_)],
                env=environment,
                cwd=root,
                check=True,
                capture_output=True,
                text=True,
            )
            runs = json.loads(done.stdout.splitlines()[-1])
            for name, each in runs.items():
                found.setdefault(label, {}).setdefault(name, []).extend(each)
    for name in found["after"]:
        (old, old_median), (new, new_median) = (
            totals(found[label][name]) for label in ("before", "after")
        )
        print(
            f"{name}: {1e3 * old:.0f} ms before, {1e3 * new:.0f} after, {new / old:.2f}x at least; "
            f"{1e3 * old_median:.0f}, {1e3 * new_median:.0f}, "
            f"{new_median / old_median:.2f}x in the median"
        )
    return found


def main() -> int:
    """Measure, or compare with another checkout."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="file for the times")
    parser.add_argument("--commit", help="what is measured, where git cannot say")
    parser.add_argument("--against", type=Path, help="a checkout of another commit")
    parser.add_argument("--root", type=Path, default=_ROOT, help=argparse.SUPPRESS)
    parser.add_argument("--raw", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ["KERNELDSL_CACHE"] = "off"
    sys.path[:0] = [str(options.root), str(_ROOT / "benchmarks")]
    if options.raw:
        print(json.dumps(measure(options.rounds, options.first)))
        return 0
    from machine import describe_cpu_machine

    machine = describe_cpu_machine(options.commit)
    found: dict[str, Any]
    if options.against:
        found, is_kept = compare(options.rounds, options.against, sys.executable), True
    else:
        found = measure(options.rounds, options.first)
        is_kept = report(found)
    if options.json:
        result = {"machine": machine, "seconds": found}
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
