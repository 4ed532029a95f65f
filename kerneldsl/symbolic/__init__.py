"""Kernels from SymPy expressions, and derivatives of kernels.

Here alone SymPy is translated into the language of kernels, and back:

- :mod:`~kerneldsl.symbolic.printing` is the table of the functions that both have,
  :mod:`~kerneldsl.symbolic.printing` writes an expression as Python text of a kernel;
- :mod:`~kerneldsl.symbolic.systems` reads expressions over arrays,
  :mod:`~kerneldsl.symbolic.sources` writes the kernel that computes them, and
  :mod:`~kerneldsl.symbolic.expressions` is ``kd.from_expression``;
- :mod:`~kerneldsl.symbolic.frontend.reading` reads a kernel in normal form as expressions, and
  :mod:`~kerneldsl.symbolic.derivatives` is ``kd.derivative``.

SymPy is imported when one of these two is first called. It takes no part in a launch.
"""
