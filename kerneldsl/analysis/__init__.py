"""Find what is known of a kernel before it is compiled, once for all targets; no Numba here.

:mod:`~kerneldsl.analysis.analyze` puts it together.
"""
