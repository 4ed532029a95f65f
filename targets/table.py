"""The built-in targets by name, for the core; none of them is imported for it."""

from __future__ import annotations

from kerneldsl.contract.entry import MemoryType, TargetEntry

__all__ = ["C_LIBRARY", "TARGETS"]

TARGETS = {
    "cpu": TargetEntry(
        "targets.cpu.target:CpuTarget",
        forms=("asm", "source"),
        files={".s": "asm", ".ll": "llvm"},
        memory=(MemoryType.CPU, MemoryType.CUDA_HOST),
        probe="targets.cpu.runtime.host_pool:find_cpu",
    ),
    "cuda": TargetEntry(
        "targets.cuda.target:CudaTarget",
        forms=("ptx",),
        files={".ptx": "ptx", ".cubin": "cubin", ".fatbin": "fatbin", ".ll": "llvm"},
        together=("fatbin",),
        memory=(MemoryType.CUDA, MemoryType.CUDA_MANAGED),
        probe="targets.cuda.checks:find_cuda",
        dry_run="null",
    ),
    "null": TargetEntry("targets.null:make_target", is_hardware=False),
}

#: The class that writes C libraries of compiled kernels.
C_LIBRARY = "targets.c_library.writer:CLibrary"
