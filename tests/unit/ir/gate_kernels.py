"""Kernels with what most kernels have: elements, a tree of barriers, shuffles and tiles."""

from __future__ import annotations

from typing import Any

from tests.unit.ir import gate_functions

_F = "float32[::1]"
#: Signature, `forall` and block of each kernel.
KERNELS: dict[str, tuple[str, int | None, int | None]] = {
    "axpy": (f"float32, {_F}, {_F}, {_F}", 1, None),
    "tree": (f"{_F}, {_F}", None, 256),
    "shuffle": (f"{_F}, {_F}", None, 256),
    "softmax": ("float32[:, ::1], float32[:, ::1]", None, 128),
}


def specialization(name: str, target: str) -> Any:
    """Return what a kernel is compiled for."""
    signature, forall, block = KERNELS[name]
    kernel = getattr(gate_functions, name)
    arch = "sm_90" if target == "cuda" else None
    return kernel.specialization(signature, forall=forall, block=block, target=target, arch=arch)[1]
