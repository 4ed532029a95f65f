"""Types of a kernel's normal form on a device, for what is shown of it."""

from __future__ import annotations

from kerneldsl.errors import KernelError
from kerneldsl.frontend.typed_unit import TypedUnit
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import Kind
from kerneldsl.lowering import math_functions as _math_functions  # noqa: F401 - registers
from kerneldsl.lowering import numpy_functions as _numpy_functions  # noqa: F401 - registers
from kerneldsl.lowering.numba_internals.compiling import global_compiler_lock, target_override
from kerneldsl.lowering.numba_internals.device_target import load_array_functions
from kerneldsl.lowering.typed_unit import infer_unit
from targets.cuda.compile.numba_device import TARGET_NAME, descriptor

__all__ = ["type_unit"]


def type_unit(unit: FunctionUnit, kinds: tuple[Kind, ...]) -> TypedUnit:
    """Infer the types of a kernel's normal form by the rules that it is compiled by.

    Raises
    ------
    KernelTypingError
        If Numba cannot type it.
    """
    with global_compiler_lock, target_override(TARGET_NAME):
        contexts = descriptor()
        try:
            return infer_unit(unit, kinds, contexts)
        except KernelError:
            if not load_array_functions(contexts):
                raise
            return infer_unit(unit, kinds, contexts)
