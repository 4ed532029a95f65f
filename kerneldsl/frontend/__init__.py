"""Front end: Python functions as :class:`~kerneldsl.frontend.unit.FunctionUnit`, without Numba."""
