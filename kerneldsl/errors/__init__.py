"""Every error that kerneldsl raises on purpose.

All are subclasses of :class:`KernelError`. An error has these fields: *what* is
wrong, *where* in the user's kernel, the *value*, the *limit* with its origin, and the *remedy*.
The message is composed of them in this order. Errors about arguments are also
``TypeError`` or ``ValueError``, as Python users expect.
"""

from __future__ import annotations

from kerneldsl.errors import base, driver, kernels

#: Name to its module. The stub for type checkers is made of it.
_HOME = {each: part.__name__ for part in (base, driver, kernels) for each in part.__all__}

for _part in (base, driver, kernels):
    for _name in _part.__all__:
        globals()[_name] = getattr(_part, _name)
        # Tracebacks name the module of a class: the one that programs import it from.
        globals()[_name].__module__ = __name__
del _part, _name

__all__ = sorted(_HOME)
