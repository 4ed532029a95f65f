"""Types of a kernel on this machine's processor."""

from __future__ import annotations

from kerneldsl.frontend.typed_unit import TypedUnit
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import Kind
from kerneldsl.lowering.numba_internals.compiling import global_compiler_lock
from kerneldsl.lowering.numba_internals.host_code import host_contexts
from kerneldsl.lowering.typed_unit import infer_unit

__all__ = ["typed_unit"]


def typed_unit(unit: FunctionUnit, kinds: tuple[Kind, ...]) -> TypedUnit:
    """Infer the types of a unit with Numba."""
    with global_compiler_lock:
        return infer_unit(unit, kinds, host_contexts())
