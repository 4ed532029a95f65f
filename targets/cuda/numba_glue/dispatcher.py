"""Functions that kernels call: device functions, plain Numba functions, Numba's overloads.

Numba types a call to a compiled function through an object that it calls a dispatcher. Ours
compiles for the CUDA target, when it is called with new argument types, and never runs anything.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from numba import types
from numba.core import typing
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]
from numba.core.options import TargetOptions, include_default_options

from kerneldsl.lowering.pipeline import FunctionCompiler

__all__ = ["DeviceFunction", "KernelOptions", "device_function_of", "jit"]

_options = include_default_options(
    "nopython",
    "forceobj",
    "looplift",
    "_nrt",
    "debug",
    "boundscheck",
    "nogil",
    "writable_args",
    "no_rewrites",
    "no_cpython_wrapper",
    "no_cfunc_wrapper",
    "parallel",
    "fastmath",
    "error_model",
    "inline",
    "forceinline",
    "_dbg_extend_lifetimes",
    "_dbg_optnone",
)


class KernelOptions(_options, TargetOptions):  # type: ignore[misc, valid-type]
    """Numba's options of a function, as far as they mean something on a device."""

    lineinfo = TargetOptions.Mapping("dbg_directives_only")

    def finalize(self, flags: Any, options: dict[str, Any]) -> None:
        """Set what is the same for every function."""
        set_common_flags(flags)
        flags.debuginfo = flags.dbg_directives_only


def set_common_flags(flags: Any) -> None:
    """No Python, no allocator, NumPy's division, and nothing that runs on the host."""
    flags.nrt = False
    flags.enable_pyobject = False
    flags.force_pyobject = False
    flags.enable_looplift = False
    flags.release_gil = False
    flags.boundscheck = False
    flags.error_model = "numpy"
    flags.no_compile = True
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.fastmath = False  # flags are put in when modules are linked
    flags.auto_parallel = False


class DeviceFunction:
    """A Python function, compiled for the CUDA target once for each tuple of argument types."""

    #: The target's contexts, set when they are made; Numba reads it, too.
    targetdescr: Any = None

    def __init__(self, function: Callable[..., Any], options: dict[str, Any] | None = None) -> None:
        self.py_func = function
        self.__name__ = function.__name__
        self.targetoptions = dict(options or {})
        self._compiler = _FunctionCompiler(
            function, self.targetdescr, self.targetoptions, {}, FunctionCompiler
        )
        self.overloads: dict[tuple[Any, ...], Any] = {}
        self.is_compiling = False
        self._numba_type_ = types.Dispatcher(self)

    def __repr__(self) -> str:
        return f"device function {self.py_func.__qualname__}"

    @property
    def nopython_signatures(self) -> list[Any]:
        """Numba signatures of what has been compiled."""
        return [result.signature for result in self.overloads.values()]

    def compile(self, argtypes: tuple[Any, ...]) -> Any:
        """Compile for argument types, once."""
        known = self.overloads.get(argtypes)
        if known is not None:
            return known
        outer, self.is_compiling = self.is_compiling, True
        try:
            result = self._compiler.compile(argtypes, None)
        finally:
            self.is_compiling = outer
        self.overloads[argtypes] = result
        result.target_context.insert_user_function(
            self.get_overload(argtypes), result.fndesc, [result.library]
        )
        return result

    def get_overload(self, argtypes: Any) -> Any:
        """The key under which the target context knows a compiled version."""
        return (id(self), tuple(argtypes))

    def get_call_template(self, args: Any, kws: Any) -> tuple[Any, Any, Any, Any]:
        """What Numba types a call with."""
        pysig, args = self._compiler.fold_argument_types(args, kws)
        self.compile(tuple(args))
        name = self.py_func.__name__
        template = typing.make_concrete_template(
            f"CallTemplate({name})", key=name, signatures=self.nopython_signatures
        )
        return template, pysig, args, {}


_converted: weakref.WeakKeyDictionary[Any, DeviceFunction] = weakref.WeakKeyDictionary()


def device_function_of(dispatcher: Any) -> DeviceFunction:
    """Return our counterpart of a function that Numba would compile for the CPU."""
    known = _converted.get(dispatcher)
    if known is None:
        options = {
            key: value
            for key, value in dispatcher.targetoptions.items()
            if hasattr(KernelOptions, key) and key not in ("nopython", "forceobj", "parallel")
        }
        known = _converted[dispatcher] = DeviceFunction(dispatcher.py_func, options)
    return known


def jit(*args: Any, **options: Any) -> Any:
    """The decorator with which Numba compiles its overloads for the target."""
    known = {key: value for key, value in options.items() if hasattr(KernelOptions, key)}
    if args and callable(args[0]):
        return DeviceFunction(args[0], known)
    return lambda function: DeviceFunction(function, known)
