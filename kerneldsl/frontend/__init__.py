"""From a Python function to a :class:`~kerneldsl.frontend.unit.FunctionUnit`; no Numba here."""
