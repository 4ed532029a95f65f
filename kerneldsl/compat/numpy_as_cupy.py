"""NumPy under CuPy's name, for programs that import both CuPy and numba.cuda on a CPU.

``kerneldsl run --numpy-as-cupy SCRIPT`` installs it, and so does KERNELDSL_NUMPY_AS_CUPY=1 with
:mod:`kerneldsl.drop_in`. ``cupy.f`` is ``numpy.f`` with results of the class ``cupy.ndarray``, and
``cupyx.scipy`` is SciPy. CuPy's kernels (``RawKernel``, ``ElementwiseKernel``), streams and memory
pools are missing: their names raise an AttributeError.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["install"]

#: Modules by CuPy's names to those that have their functions.
_HOMES = {"cupyx.scipy": "scipy", "cupy": "numpy"}


def _ndarray() -> type:
    import numpy

    class ndarray(numpy.ndarray):
        """An array of NumPy with the methods that only CuPy has."""

        def get(self, *_: Any, out: Any = None, **__: Any) -> Any:
            return asnumpy(self, out=out)

    ndarray.__module__ = "cupy"
    return ndarray


def asnumpy(a: Any, *_: Any, out: Any = None, **__: Any) -> Any:
    """Return a copy of an array as an array of NumPy."""
    import numpy

    if out is None:
        return numpy.array(a, copy=True, subok=False)
    out[...] = a
    return out


def _with_results(function: Any, kind: type) -> Any:
    """Return the function with arrays of the class ``kind`` for results."""
    import numpy

    def convert(value: Any) -> Any:
        if type(value) is numpy.ndarray:
            return value.view(kind)
        return type(value)(map(convert, value)) if type(value) in (tuple, list) else value

    @functools.wraps(function, assigned=("__name__", "__doc__"))
    def call(*arguments: Any, **options: Any) -> Any:
        return convert(function(*arguments, **options))

    return call


class _Device:
    """The one device, which a program may select."""

    id = 0

    def __init__(self, device: int = 0) -> None:
        self.id = device

    def __enter__(self) -> _Device:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def use(self) -> None:
        pass

    def synchronize(self) -> None:
        pass


def _cupy() -> dict[str, Any]:
    module = sys.modules["cupy"]
    kind = _ndarray()

    def get_array_module(*arrays: Any) -> Any:
        return module if any(isinstance(each, kind) for each in arrays) else import_module("numpy")

    return {
        "__version__": "14.0.0",
        "asnumpy": asnumpy,
        "get_array_module": get_array_module,
        "is_available": lambda: True,
        "ndarray": kind,
    }


def _cuda() -> dict[str, Any]:
    runtime = ModuleType("cupy.cuda.runtime")
    vars(runtime)["getDeviceCount"] = lambda: 1
    return {
        "Device": _Device,
        "is_available": lambda: True,
        "get_device_id": lambda: 0,
        "runtime": runtime,
    }


class _Loader(Loader):
    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        module.__path__ = []
        root = next((each for each in _HOMES if f"{name}.".startswith(each + ".")), "")
        if name == "cupy":
            vars(module).update(_cupy())
        elif name == "cupy.cuda":
            vars(module).update(_cuda())
        if name.startswith("cupy.cuda"):
            return
        elif name == "cupyx":
            vars(module)["scatter_add"] = import_module("numpy").add.at
        if not root:
            return
        home = import_module(_HOMES[root] + name[len(root) :])
        ufunc = import_module("numpy").ufunc  # it keeps the class of its arguments
        kind = import_module("cupy").ndarray

        def find(attribute: str) -> Any:
            try:
                value = getattr(home, attribute)
            except AttributeError:
                text = f"module {name!r}, for which NumPy stands in, has no attribute {attribute!r}"
                raise AttributeError(text) from None
            if isinstance(value, ModuleType):
                return import_module(f"{name}.{attribute}")
            wrapped = callable(value) and not isinstance(value, (type, ufunc))
            return _with_results(value, kind) if wrapped else value

        module.__getattr__ = find  # type: ignore[method-assign]
        if name == "cupy":
            vars(module)["cuda"] = import_module("cupy.cuda")


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] in ("cupy", "cupyx"):
            return ModuleSpec(fullname, _Loader(), is_package=True)
        return None


def install() -> None:
    """Make ``import cupy`` return this module from now on."""
    if not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
