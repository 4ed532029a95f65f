"""The CPU target: kernels become parallel, vectorized loops over blocks."""

from __future__ import annotations

from kerneldsl.target import Target

__all__ = ["make_target"]


def make_target() -> Target:
    """Return the target."""
    from targets.cpu.target import CpuTarget

    return CpuTarget()
