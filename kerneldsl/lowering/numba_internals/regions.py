"""Numba's code generator, as code from the region IR uses it."""

from __future__ import annotations

from typing import Any

from llvmlite.binding.newpassmanagers import NewPassManager
from numba.core.callconv import RETCODE_USEREXC, create_error_model, excinfo_ptr_t
from numba.core.cpu_options import FastMathOptions
from numba.core.fastmathpass import rewrite_module

__all__ = [
    "EXCEPTION_POINTER",
    "empty_module",
    "relax_floats",
    "return_number",
    "run_passes",
    "without_errors",
]

#: The LLVM type of the address of an exception, in Numba's calling convention.
EXCEPTION_POINTER = excinfo_ptr_t


def empty_module(context: Any, name: str) -> Any:
    """Return a module of a target, with its triple and its layout of data."""
    return context.codegen()._create_empty_module(name)


def without_errors(context: Any) -> Any:
    """Return a target context in which a division by zero has a result, as in NumPy."""
    return context.subtarget(error_model=create_error_model("numpy", context))


def relax_floats(module: Any, flags: Any) -> None:
    """Set flags of fast math, or all if `flags` is ``True``, at the operations of a module."""
    rewrite_module(module, FastMathOptions(flags if flags is True else set(flags)))


def return_number(context: Any, builder: Any, number: Any) -> None:
    """Return from a function with an int64 in the place of what describes an exception.

    It ends the block of the builder. The caller finds the number where the address of the
    description would be, and must not read from it.
    """
    convention = context.call_conv
    place = convention._get_excinfo_argument(builder.function)
    builder.store(builder.inttoptr(number, place.type.pointee), place)
    convention._return_errcode_raw(builder, RETCODE_USEREXC)


def run_passes(manager: Any, module: Any, builder: Any) -> None:
    """Run the passes of a pass manager over a module, then dispose of the manager.

    Its class inherits two methods that dispose of it, and Python finds the one that does nothing.
    Managers would stay in memory, with their analyses (llvmlite 0.50, ``newpassmanagers.py``).
    """
    try:
        manager.run(module, builder)
    finally:
        NewPassManager._dispose(manager)
        manager.detach()
