"""Families with a function of the same name, such as `stdlib_kernels.sort`: modules to call.

Python binds a module to its name in the package, so the function cannot have that name there.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from types import ModuleType
from typing import Any

from kerneldsl.utilities.tracebacks import passes_on, shorten_errors

__all__ = ["make_callable"]


class _Family(ModuleType):
    """A module that calls its function of the module's name."""

    @shorten_errors
    @passes_on
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    @property
    def _function(self) -> Any:
        return vars(self)[self.__name__.rpartition(".")[2]]

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._function)

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)


def make_callable(name: str) -> None:
    """Let a module that is imported call its function of the same name."""
    sys.modules[name].__class__ = _Family
