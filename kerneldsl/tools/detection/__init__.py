"""Detection: which ways to compute this machine has, and which of them kerneldsl uses."""

from __future__ import annotations

from kerneldsl.tools.detection.report import Backend, Backends, backends

__all__ = ["Backend", "Backends", "backends"]
