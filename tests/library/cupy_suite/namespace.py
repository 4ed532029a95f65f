"""The library as modules named `cupy` and `cupyx`, which CuPy's tests compare with NumPy and SciPy.

Functions of the library replace those of the same name. All other functions, and arrays, are those
of NumPy and SciPy, and `cupy.testing` is CuPy's own. Each access to a function of the library is
recorded in `named`, so that a report can count the tests of the library.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import scipy.ndimage
import scipy.special

import stdlib_kernels as sk

__all__ = ["install", "named"]

#: Functions of the library that the running test has accessed.
named: set[str] = set()

#: Names of NumPy's for other functions than the library's.
_OTHER_MEANINGS = {"convolve", "correlate", "linalg", "partition", "random", "transpose"}
#: The library's name of each function of CuPy.
FUNCTIONS = {
    **{name: name for name in sk.__all__ if hasattr(np, name) and name not in _OTHER_MEANINGS},
    **{"amax": "max", "amin": "min", "permute_dims": "permute", "transpose": "permute"},
}
ROWS = ("log_softmax", "softmax")
FILTERS = (
    *("convolve", "convolve1d", "correlate", "correlate1d", "gaussian_filter", "laplace"),
    *("median_filter", "prewitt", "sobel", "uniform_filter"),
)


class _Namespace(ModuleType):
    """A module with functions of the library, and for all other names another module."""

    def __init__(self, name: str, other: Any, functions: dict[str, Callable[..., Any]]) -> None:
        super().__init__(name)
        self._other, self._functions, self.__path__ = other, functions, []

    def __getattr__(self, name: str) -> Any:
        if name not in self._functions:
            return getattr(self._other, name)
        named.add(name)
        return self._functions[name]


class _Kernel:
    """CuPy's own kernels, which tests of other functions define when they are imported."""

    def __init__(self, *args: Any, **named: Any) -> None:
        pass


def _with_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with arrays for results without axes, as in CuPy."""

    @functools.wraps(function)
    def returning_arrays(*args: Any, **given: Any) -> Any:
        found = function(*args, **given)
        return np.asarray(found) if isinstance(found, np.generic) else found

    return returning_arrays


def _filter(name: str) -> Callable[..., Any]:
    """Return a filter of the library with SciPy's parameters."""
    ours, signature = getattr(sk, name), inspect.signature(getattr(scipy.ndimage, name))

    def filtering(*args: Any, **given: Any) -> Any:
        values = signature.bind(*args, **given).arguments
        values["x"] = values.pop("input")
        if (out := values.pop("output", None)) is not None:
            values["out"] = out
        return ours(**values)

    return filtering


def _put(name: str, module: ModuleType) -> None:
    """Let a module be imported by a name."""
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, module)


def _put_values(name: str, **values: Any) -> None:
    """Let a module of some values be imported by a name."""
    made = ModuleType(name)
    made.__dict__.update(values, __path__=[])
    _put(name, made)


def install(checkout: Path, *, with_numpy: bool = False) -> None:
    """Make `cupy` and `cupyx`, with `cupy.testing` of a checkout.

    `with_numpy` takes NumPy's and SciPy's functions in the place of the library's, which shows
    the tests that no function can pass on NumPy arrays.
    """

    def of(module: Any, functions: dict[str, Callable[..., Any]]) -> dict[str, Any]:
        if with_numpy:
            functions = {name: getattr(module, name) for name in functions}
        return {name: _with_arrays(function) for name, function in functions.items()}

    flat = {name: getattr(sk, ours) for name, ours in FUNCTIONS.items()}
    _put("cupy", _Namespace("cupy", np, of(np, flat)))
    pool = SimpleNamespace(free_all_blocks=lambda: None)
    sys.modules["cupy"].__dict__.update(
        asnumpy=np.asarray,
        get_default_memory_pool=lambda: pool,
        get_default_pinned_memory_pool=lambda: pool,
        **dict.fromkeys(("ElementwiseKernel", "RawKernel", "ReductionKernel"), _Kernel),
    )
    _put("cupy.linalg", np.linalg)
    _put("cupy.random", np.random)
    _put("cupy.exceptions", np.exceptions)
    _put_internals()
    _put_values("cupyx", errstate=np.errstate)
    _put("cupyx.scipy", _Namespace("cupyx.scipy", scipy, {}))
    _put_values("cupyx.scipy.sparse", issparse=lambda value: False)
    filters = of(scipy.ndimage, {name: _filter(name) for name in FILTERS})
    _put("cupyx.scipy.ndimage", _Namespace("cupyx.scipy.ndimage", scipy.ndimage, filters))
    rows = of(scipy.special, {name: getattr(sk, name) for name in ROWS})
    _put("cupyx.scipy.special", _Namespace("cupyx.scipy.special", scipy.special, rows))
    folder = checkout / "cupy" / "testing"
    spec = spec_from_file_location(
        "cupy.testing", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None or not folder.is_dir():
        raise FileNotFoundError(f"there is no cupy/testing in {checkout}")
    testing: Any = module_from_spec(spec)
    _put("cupy.testing", testing)
    spec.loader.exec_module(testing)
    # GPUs convert negative floats to unsigned integers in another way; a CPU is compared as it is.
    testing._loops._contains_signed_and_unsigned = lambda named: False


def _put_internals() -> None:
    """Let those of CuPy's internal modules be imported that test modules look at."""
    accelerators = {
        f"{what}_{kind}_accelerators": lambda *chosen: []
        for what in ("get", "set")
        for kind in ("routine", "reduction")
    }
    types = ("DEFAULT", "FP16", "FP32", "FP64", "TF32", "BF16", "PEDANTIC")
    _put_values("cupy._core", **accelerators)
    _put_values("cupy._core.internal", prod=math.prod)
    _put_values("cupy._core._accelerator", **accelerators)
    _put_values("cupy._core._cub_reduction", _CUB_REDUCE_SIZE_THRESHOLD=1024)
    _put_values("cupy._core._routines_linalg", **{f"COMPUTE_TYPE_{each}": each for each in types})
    _put_values("cupy._indexing")
    _put_values("cupy._indexing.generate")
    _put_values("cupy._util", PerformanceWarning=UserWarning)
    _put_values("cupy.cuda")
    _put_values("cupy.cuda.runtime", is_hip=False, runtimeGetVersion=lambda: 13000)
    _put_values("cupy.cuda.driver", get_build_version=lambda: 13000)
    _put_values("cupy.cuda.cub", available=False)
    _put_values("cupy.cuda.cutensor", available=False)
