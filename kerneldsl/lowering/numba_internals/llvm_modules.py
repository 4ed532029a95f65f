"""LLVM modules: empty ones, passes on them, and the text that llvmlite writes.

Numba marks the arithmetic of signed integers as never overflowing. If it overflows, LLVM may give
any result: it takes the square of an int64 for positive. Hashes and generators of random numbers
need integers that wrap around, as in NumPy, and all targets have the same bits. So the mark is
removed.
"""

from __future__ import annotations

import re
from typing import Any

from llvmlite import ir
from llvmlite.binding.newpassmanagers import NewPassManager, create_new_module_pass_manager
from numba.core import cgutils
from numba.core.callconv import RETCODE_USEREXC, create_error_model, excinfo_ptr_t
from numba.core.cpu_options import FastMathOptions
from numba.core.fastmathpass import rewrite_module

__all__ = [
    "EXCEPTION_POINTER",
    "drop_instructions",
    "empty_module",
    "is_of_this_process",
    "let_integers_wrap",
    "module_text",
    "relax_floats",
    "return_number",
    "run_named_passes",
    "run_passes",
    "without_errors",
]

#: Prefix of variables with the address of a function's environment: the Python objects around a
#: function of Numba.
ENVIRONMENT = "_ZN08NumbaEnv"

_MARKED = re.compile(r"\b(add|sub|mul|shl) nsw (i(?:8|16|32|64)) ")
_ENVIRONMENT = re.compile(rf"@{ENVIRONMENT}[^\s,)=]*")
#: An address of this process that has become part of the code.
_ADDRESS = re.compile(r"inttoptr \(i64 -?\d{4,}")
#: Functions that Numba brings along, which a process without it does not have.
_NUMBAS_OWN = ("numba_", "NRT_", "__svml_")


def module_text(module: ir.Module) -> str:
    """Return a module that Numba lowered in LLVM's textual form, with integers that wrap around."""
    return let_integers_wrap(cgutils.normalize_ir_text(str(module)))


def drop_instructions(module: ir.Module) -> None:
    """Take the instructions out of a module, after its text has been written.

    An instruction and its block refer to each other. Without these cycles memory is freed at once.
    The garbage collector would search for them among all objects of the compilation.
    """
    for function in module.functions:
        for block in function.blocks:
            block.instructions.clear()
            block.terminator = None
        function.blocks.clear()


def let_integers_wrap(text: str) -> str:
    """Take the mark off additions, subtractions, products and shifts.

    Operations that carry a second mark, as our own of thread indices do, keep both: they cannot
    overflow.

    Examples
    --------
    >>> let_integers_wrap("%p = mul nsw i64 %a, %b")
    '%p = mul i64 %a, %b'
    >>> let_integers_wrap("%p = mul nuw nsw i64 %a, %b")
    '%p = mul nuw nsw i64 %a, %b'
    """
    return _MARKED.sub(r"\1 \2 ", text)


def is_of_this_process(module: Any) -> bool:
    """Say whether the code of a linked module works in this process alone."""
    text = str(module)
    mentioned = _ENVIRONMENT.findall(text)
    if _ADDRESS.search(text) or len(mentioned) != len(set(mentioned)):
        return True  # an environment stands there beside its definition, so it is used
    return any(f.is_declaration and f.name.startswith(_NUMBAS_OWN) for f in module.functions)


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


def run_named_passes(module: Any, builder: Any, *names: str) -> None:
    """Run passes over a module, by their names as llvmlite adds them."""
    manager = create_new_module_pass_manager()
    for name in names:
        getattr(manager, f"add_{name}_pass")()
    run_passes(manager, module, builder)


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
