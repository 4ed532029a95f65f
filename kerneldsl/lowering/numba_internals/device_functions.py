"""Functions that kernels call: device functions, plain Numba functions, Numba's overloads.

Numba types a call to a compiled function through an object that it calls a dispatcher. That of
a device compiles for new types of arguments, and never runs anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.core import typing
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]
from numba.core.options import TargetOptions, include_default_options

from kerneldsl.lowering.numba_internals.compiling import FunctionCompiler, set_common_flags

__all__ = ["DeviceFunction", "DeviceOptions", "compiled_for"]

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


class DeviceOptions(_options, TargetOptions):  # type: ignore[valid-type, misc]
    """Numba's options of a function that have a meaning on a device."""

    lineinfo = TargetOptions.Mapping("dbg_directives_only")

    def finalize(self, flags: Any, options: dict[str, Any]) -> None:
        """Set what is the same for every function."""
        set_common_flags(flags)
        flags.debuginfo = flags.dbg_directives_only


class DeviceFunction:
    """A Python function, compiled for a device once for each tuple of argument types.

    Options of Numba's that mean nothing on a device are left out.
    """

    def __init__(self, function: Callable[..., Any], descriptor: Any, **options: Any) -> None:
        self.py_func = function
        self.__name__ = function.__name__
        self.targetoptions = {k: v for k, v in options.items() if hasattr(DeviceOptions, k)}
        self.targetdescr = descriptor
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
        """Return Numba's signatures of what has been compiled."""
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
        """Return the key under which the target context knows a compiled version."""
        return (id(self), tuple(argtypes))

    def get_call_template(self, args: Any, kws: Any) -> tuple[Any, Any, Any, Any]:
        """Return what Numba types a call with."""
        pysig, args = self._compiler.fold_argument_types(args, kws)
        self.compile(tuple(args))
        name = self.py_func.__name__
        template = typing.make_concrete_template(
            f"CallTemplate({name})", key=name, signatures=self.nopython_signatures
        )
        return template, pysig, args, {}


#: Options without a meaning in a function that is compiled for another target.
_OF_THE_CPU = ("nopython", "forceobj", "parallel")


def compiled_for(descriptor: Any, dispatcher: Any) -> DeviceFunction:
    """Return the counterpart on a device of a function that Numba would compile for the CPU."""
    known: DeviceFunction | None = descriptor.converted.get(dispatcher)
    if known is None:
        options = {k: v for k, v in dispatcher.targetoptions.items() if k not in _OF_THE_CPU}
        known = DeviceFunction(dispatcher.py_func, descriptor, **options)
        descriptor.converted[dispatcher] = known
    return known
