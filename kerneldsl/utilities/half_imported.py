"""Find errors of imports that a signal handler interrupted.

Python runs a handler between any two instructions, also in the middle of an import. What the
handler then needs of the module is not there yet, and the import cannot go on before the handler
returns.
"""

from __future__ import annotations

import sys
from types import ModuleType

from kerneldsl.errors import KernelError
from kerneldsl.utilities.tracebacks import causes_of

__all__ = ["refuse_half_imported"]

#: Packages that a first launch imports.
_PACKAGES = frozenset({"kerneldsl", "llvmlite", "numba", "numpy", "stdlib_kernels", "targets"})


def refuse_half_imported(error: BaseException, kernel: str) -> None:
    """Raise an error that names the import if a launch met a module that is being imported.

    - `error`: the error that the launch raised.
    - `kernel`: the name of the kernel.
    - raises `KernelError` with the module, and what to do.
    """
    module = _half_imported(error)
    if module is None:
        return
    raise KernelError(
        f"{kernel} is launched while {module} is being imported, as by a signal handler that "
        "interrupts a first launch",
        value=module,
        limit="Python finishes the import after the handler has returned",
        remedy="Launch a kernel once before the handler is set, or launch after it has returned",
    ) from error


def _half_imported(error: BaseException) -> str | None:
    """Return the module that an error, or one that it comes from, did not find whole."""
    for each in causes_of(error):
        name = None
        if isinstance(each, ImportError):
            name = each.name
        elif isinstance(each, AttributeError) and isinstance(each.obj, ModuleType):
            name = each.obj.__name__
        if name is not None and name.partition(".")[0] in _PACKAGES:
            spec = getattr(sys.modules.get(name), "__spec__", None)
            if getattr(spec, "_initializing", False):
                return name
    return None
