"""``kerneldsl demo``: a photograph through the imaging kernels, checked and timed.

:mod:`~stdlib_kernels.demo.pictures` reads and writes images, :mod:`~stdlib_kernels.demo.reference`
computes the same with NumPy and SciPy, :mod:`~stdlib_kernels.demo.pipeline` runs, compares and
times the stages, and :mod:`~stdlib_kernels.demo.cli` is the command.
"""

from __future__ import annotations

from stdlib_kernels.demo.cli import command

__all__ = ["command"]
