"""Processor time of a fresh process up to the end of a first call: both paths in turns.

The time is that of the whole process: start of Python, imports, compiling. With ``cpu`` the kernel
runs once; with ``cuda`` its PTX is made. The last column leaves out what an empty program takes
that imports kerneldsl and NumPy.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys

_PROGRAM = """
import sys
import numpy as np
import kerneldsl as kd
from benchmarks.ir_spike import kernels
target, name, on = sys.argv[1:4]
if name != "nothing":
    if on == "1":
        if target == "cpu":
            from targets.cpu.target import CpuCompiler
            def compile(self, spec):
                from targets.cpu.regions.compile import compile_regions
                return compile_regions(spec)
            CpuCompiler.compile = compile
        else:
            from targets.cuda.compile.ptx_compiler import PtxCompiler
            def compile(self, spec):
                from targets.cuda.compile.regions.compile import compile_regions
                return compile_regions(spec, arch="sm_90")
            PtxCompiler.compile = compile
    kernel = getattr(kernels, name)
    if target == "cuda":
        f = "float32[::1]"
        rows = "float32[:, ::1]"
        signature = {"axpy": f"float32, {f}, {f}, {f}", "softmax": f"{rows}, {rows}"}
        forall = 1 if name == "axpy" else None
        block = {"axpy": None, "softmax": 128}.get(name, 256)
        declared = signature.get(name, f"{f}, {f}")
        kernel.artifact(declared, forall=forall, block=block, target="cuda", arch="sm_90")
    else:
        x = np.ones(1000, np.float32)
        out = np.empty(1000, np.float32)
        if name == "axpy":
            kernel.forall(1000)(np.float32(2), x, x, out)
        elif name == "softmax":
            kernel[2, 128](x.reshape(2, 500), out.reshape(2, 500))
        else:
            kernel[4, 256](x, out)
"""


def spent(target: str, name: str, on: bool) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "KERNELDSL_CACHE": "off", "PYTHONPATH": "."}
    subprocess.run(
        [sys.executable, "-c", _PROGRAM, target, name, str(int(on))], check=True, env=environment
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(repeats: int = 7, chosen: tuple[str, ...] = ()) -> None:
    nothing = statistics.median(spent("cpu", "nothing", False) for _ in range(repeats))
    print(f"import alone {1e3 * nothing:.0f} ms")
    for target in ("cpu", "cuda"):
        for name in ("axpy", "tree", "shuffle", "softmax"):
            if chosen and f"{target}-{name}" not in chosen:
                continue
            times: dict[bool, list[float]] = {False: [], True: []}
            for _ in range(repeats):
                for on in (False, True):
                    times[on].append(spent(target, name, on))
            old, new = (statistics.median(times[on]) for on in (False, True))
            print(
                f"{target:4s} {name:8s} {1e3 * old:6.0f} -> {1e3 * new:6.0f} ms, {new / old:.2f}x; "
                f"without imports of an empty program {(new - nothing) / (old - nothing):.2f}x"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7, tuple(sys.argv[2:]))
