"""The built-in targets: ``cpu``, ``cuda`` and ``null``, each a client of :mod:`kerneldsl`.

Importing this package imports none of them; the core loads the one that a launch needs.
"""

from __future__ import annotations

from kerneldsl.target.entry import MemoryType, TargetEntry

__all__ = ["TARGETS", "__kerneldsl__"]

#: Tells the core that this package, and not a foreign one of the same name, has been found.
__kerneldsl__ = True

TARGETS = {
    "cpu": TargetEntry(
        "targets.cpu",
        forms=("asm", "source"),
        memory=(MemoryType.CPU, MemoryType.CUDA_HOST),
        probe="targets.cpu.probe:find_cpu",
    ),
    "cuda": TargetEntry(
        "targets.cuda",
        forms=("ptx",),
        memory=(MemoryType.CUDA, MemoryType.CUDA_MANAGED),
        probe="targets.cuda.probe:find_cuda",
        rehearsal="null",
    ),
    "null": TargetEntry("targets.null", is_hardware=False),
}
