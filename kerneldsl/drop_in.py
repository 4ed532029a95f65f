"""``import kerneldsl.drop_in``: from now on every import of ``numba.cuda`` gives kerneldsl.

It makes no difference whether numba-cuda is installed, or a GPU is there. Nothing is changed on
disk, and nothing is imported before a program imports ``numba.cuda``. ``kerneldsl run SCRIPT`` does
the same for a script, and for the Python processes that it starts.

A program begins with::

    import kerneldsl.drop_in
    from numba import cuda
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from kerneldsl.utilities.environment import is_on

__all__ = ["install"]

#: The names by which programs know numba.cuda.
_ROOTS = ("numba.cuda", "numba_cuda.numba.cuda")


class _Loader(Loader):
    """Hands out a module that is there."""

    def __init__(self, below: str) -> None:
        self._below = below
        self._own: dict[str, Any] = {}

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        from kerneldsl import cuda

        found = cuda.submodule(self._below) if self._below else cuda
        self._own = {name: vars(found).get(name) for name in ("__spec__", "__loader__")}
        return found

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just overwritten how the module itself was found.
        if self._own["__spec__"] is not None:
            vars(module).update(self._own)


class _Finder(MetaPathFinder):
    """Finds numba.cuda, and the modules below it that kerneldsl has."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        for root in _ROOTS:
            if fullname == root:
                return ModuleSpec(fullname, _Loader(""), is_package=True)
            if fullname.startswith(root + "."):
                from kerneldsl.cuda import SUBMODULES

                below = fullname[len(root) + 1 :]
                if below in SUBMODULES:
                    return ModuleSpec(fullname, _Loader(below), is_package=True)
        return None


_finder = _Finder()


def install() -> None:
    """Make numba.cuda kerneldsl; again is harmless."""
    if _finder in sys.meta_path:
        return
    sys.meta_path.insert(0, _finder)
    if is_on("KERNELDSL_NUMPY_AS_CUPY", default=False):
        from kerneldsl.compat import numpy_as_cupy

        numpy_as_cupy.install()
    from kerneldsl.frontend.function_text import record

    record()  # numba.cuda compiles kernels from bytecode, and needs no text of them
    loaded = [name for name in sys.modules if name.startswith(_ROOTS)]
    for name in loaded:
        del sys.modules[name]
    numba: Any = sys.modules.get("numba")
    if numba is not None and "cuda" in vars(numba):
        from kerneldsl import cuda

        numba.cuda = cuda


install()
