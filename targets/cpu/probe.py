"""That there is a CPU, for ``kd.backends()``."""

from __future__ import annotations

import platform

from kerneldsl.tools.detection.probes import Finding

__all__ = ["find_cpu"]


def find_cpu() -> Finding:
    """Say which processors these are."""
    return Finding(True, f"this machine's processors ({platform.machine()})")
