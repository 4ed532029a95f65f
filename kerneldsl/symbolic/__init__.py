"""Kernels from SymPy expressions.

Here alone SymPy is translated into the language of kernels:

- :mod:`~kerneldsl.symbolic.functions` is the table of the functions that both have,
  :mod:`~kerneldsl.symbolic.printing` writes an expression as Python text of a kernel;
- :mod:`~kerneldsl.symbolic.systems` reads expressions over arrays,
  :mod:`~kerneldsl.symbolic.sources` writes the kernel that computes them, and
  :mod:`~kerneldsl.symbolic.expressions` is ``kd.from_expression``.

SymPy is imported when that is first called. It takes no part in a launch.
"""
