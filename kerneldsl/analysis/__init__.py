"""What is known of a kernel before it is compiled, once for all targets; no Numba here."""

from kerneldsl.analysis.analyze import analyze

__all__ = ["analyze"]
