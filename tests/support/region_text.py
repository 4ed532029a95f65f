"""The region of a kernel that the CPU target compiles, as text."""

from __future__ import annotations

import re
from typing import Any

from kerneldsl.ir.printer import print_region
from targets.cpu.regions.read import read_kernel

__all__ = ["region_text", "rows_of"]


def region_text(kernel: Any, *signature: Any, **shape: Any) -> str:
    """Return the region of a kernel for a signature, and ``forall`` or ``block``."""
    _, spec = kernel.specialization(*signature, target="cpu", **shape)
    return print_region(read_kernel(spec)[1])


def rows_of(text: str) -> list[str]:
    """Return what each row does, and what follows it."""
    return re.split(r"row(?:\[.*\])? %", text)[1:]
