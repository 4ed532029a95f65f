"""Print the four kernels as the front end reads them, and as the CPU target runs them."""

from __future__ import annotations

from benchmarks.ir_spike.both import KERNELS, specialization
from kerneldsl.ir.printer import print_function
from kerneldsl.ir.verifier import verify
from kerneldsl.lowering.numba_internals.compiling import global_compiler_lock


def main() -> None:
    from targets.cpu.regions.read import read_kernel as cpu_kernel
    from targets.cuda.compile.region_code import TARGET_NAME, read_kernel, target_override

    for name in KERNELS:
        with global_compiler_lock:
            with target_override(TARGET_NAME):
                function, _ = read_kernel(specialization(name, "cuda"))
            verify(function)
            print(print_function(function))
            if name != "axpy":
                print(f"\n# {name} on the CPU, for one block")
                print(print_function(*cpu_kernel(specialization(name, "cpu"))))
            print()


if __name__ == "__main__":
    main()
