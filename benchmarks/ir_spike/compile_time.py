"""Processor time of compiling in a warm process: both paths in turns, medians.

The time is that of ``kernel.artifact(…)`` for a kernel that nothing has seen: source, analysis and
compiling, without the cache and without ptxas.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from benchmarks.ir_spike.both import KERNELS
from benchmarks.ir_spike.fresh import fresh_module


class Stages:
    """Processor time of functions, by names of stages."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self.depth = 0

    def watch(self, owner: Any, name: str, stage: str) -> None:
        inner = getattr(owner, name)

        def outer(*args: Any, **named: Any) -> Any:
            began = time.process_time()
            try:
                return inner(*args, **named)
            finally:
                self.spent[stage] += time.process_time() - began

        setattr(owner, name, outer)


def switches() -> dict[str, Callable[[bool], None]]:
    """Return for each target what puts the IR's compiler in the place of main's."""
    from benchmarks.ir_spike.paths import compile_by_regions
    from targets.cpu.target import CpuCompiler
    from targets.cuda.compile.ptx_compiler import PtxCompiler as cuda_class
    from targets.cuda.compile.ptx_compiler import _arch
    from targets.cuda.compile.regions.compile import compile_regions as cuda_regions

    cpu_main = CpuCompiler.compile
    cuda_main = cuda_class.compile

    def cpu(on: bool) -> None:
        CpuCompiler.compile = (lambda self, spec: compile_by_regions(spec)) if on else cpu_main

    def cuda(on: bool) -> None:
        cuda_class.compile = (
            (lambda self, spec: cuda_regions(spec, arch=_arch(spec))) if on else cuda_main
        )

    return {"cpu": cpu, "cuda": cuda}


def once(target: str, name: str) -> float:
    signature, forall, block = KERNELS[name]
    kernel = getattr(fresh_module(), name)
    arch = "sm_90" if target == "cuda" else None
    began = time.process_time()
    kernel.artifact(signature, forall=forall, block=block, target=target, arch=arch)
    return time.process_time() - began


def watch_stages(stages: Stages) -> None:
    from numba.core.typed_passes import BaseTypeInference

    from kerneldsl.lowering.numba_internals import compiling, host_code
    from kerneldsl.lowering.numba_internals.slot_lowering import LowerToLLVM
    from targets.cpu.codegen import generate
    from targets.cpu.regions import compile as region_code
    from targets.cuda.compile import compiler as cuda
    from targets.cuda.compile import ptx
    from targets.cuda.compile import region_code as cuda_region_code

    stages.watch(BaseTypeInference, "run_pass", "numba: inference")
    stages.watch(LowerToLLVM, "run_pass", "numba: lowering")
    stages.watch(region_code, "_lower", "lower")
    stages.watch(generate, "generate", "generate")
    stages.watch(compiling, "compile_function", "numba")
    stages.watch(region_code, "read_kernel", "read")
    stages.watch(cuda_region_code, "read_kernel", "read")
    stages.watch(host_code.HostLibrary, "add_ir_module", "parse")
    stages.watch(host_code.HostLibrary, "_optimize_final_module", "optimize")
    stages.watch(host_code.HostLibrary, "_finalize_final_module", "emit")
    stages.watch(ptx, "link", "link")
    stages.watch(ptx, "write_ptx", "llvm+ptx")
    stages.watch(cuda, "lower_kernel", "lower")
    stages.watch(cuda_region_code, "_write", "lower")


def main(repeats: int = 15, targets: tuple[str, ...] = ("cpu", "cuda")) -> None:
    turn = switches()
    for target in targets:
        for on in (False, True):
            turn[target](on)
            for name in KERNELS:
                once(target, name)
    stages = Stages()
    watch_stages(stages)
    for target in targets:
        for name in KERNELS:
            times: dict[bool, list[float]] = {False: [], True: []}
            parts: dict[bool, list[dict[str, float]]] = {False: [], True: []}
            for _ in range(repeats):
                for on in (False, True):
                    turn[target](on)
                    stages.spent.clear()
                    times[on].append(once(target, name))
                    parts[on].append(dict(stages.spent))
            old, new = (1e3 * statistics.median(times[on]) for on in (False, True))
            ratios = [b / a for a, b in zip(times[False], times[True], strict=True)]
            print(
                f"{target:4s} {name:8s} {old:6.1f} -> {new:6.1f} ms  "
                f"{statistics.median(ratios):.2f}x (least {1e3 * min(times[False]):.1f} -> "
                f"{1e3 * min(times[True]):.1f})"
            )
            for on in (False, True):
                names = {key for part in parts[on] for key in part}
                shown = {
                    key: round(1e3 * statistics.median(p.get(key, 0) for p in parts[on]), 1)
                    for key in sorted(names)
                }
                print("     ", "regions" if on else "main   ", shown)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15, tuple(sys.argv[2:]) or ("cpu", "cuda"))
