"""Both paths for the same specialization: main's, and the region IR's."""

from __future__ import annotations

from typing import Any

from benchmarks.ir_spike import kernels as module

_F = "float32[::1]"
#: Signature, `forall` and block of each kernel.
KERNELS: dict[str, tuple[str, int | None, int | None]] = {
    "axpy": (f"float32, {_F}, {_F}, {_F}", 1, None),
    "tree": (f"{_F}, {_F}", None, 256),
    "shuffle": (f"{_F}, {_F}", None, 256),
    "softmax": ("float32[:, ::1], float32[:, ::1]", None, 128),
}


def specialization(name: str, target: str, kernels: Any = module) -> Any:
    """Return what a kernel is compiled for."""
    signature, forall, block = KERNELS[name]
    kernel = getattr(kernels, name)
    arch = "sm_90" if target == "cuda" else None
    asked = kernel._asked_for((signature,), forall, block, arch, target, None)
    return kernel._dispatcher.specialize(*asked)[1]
