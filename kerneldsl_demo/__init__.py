"""``kerneldsl demo``: a photograph through the imaging kernels, checked and timed.

:mod:`~kerneldsl_demo.pictures` reads and writes images, :mod:`~kerneldsl_demo.pipeline` computes
the same with NumPy and SciPy, :mod:`~kerneldsl_demo.pipeline` runs, compares and times the stages,
and :mod:`~kerneldsl_demo.cli` is the command.
"""

from __future__ import annotations

from kerneldsl_demo.cli import command

__all__ = ["command"]
