"""Kernels as the region IR, as a target reads them, and what analyses say of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kerneldsl.analysis.analyze import analyze
from kerneldsl.contract import Specialization
from kerneldsl.contract.findings import BarrierFacts
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.ir.barriers import analyze_barriers
from kerneldsl.ir.frontend.read import argument_types, read_function
from kerneldsl.ir.operations import Function
from kerneldsl.language.kinds import Kind
from kerneldsl.language.signatures import parse_signature
from kerneldsl.lowering import math_functions as _math_functions  # noqa: F401 - registers
from kerneldsl.lowering import narrow_floats as _narrow_floats  # noqa: F401 - registers
from kerneldsl.lowering import numpy_functions as _numpy_functions  # noqa: F401 - registers
from kerneldsl.lowering.numba_internals.compiling import global_compiler_lock
from kerneldsl.lowering.numba_internals.host_code import host_contexts
from kerneldsl.lowering.types import numba_types
from tests.support.verifier import verify

__all__ = ["barriers_of", "read_kernel_for", "read_typed", "read_unit"]


def read_kernel_for(
    function: Callable[..., Any], signature: str
) -> tuple[Function, Specialization]:
    """Return a kernel for arguments of some kinds, before any pass."""
    return read_unit(make_unit(function), parse_signature(signature))


def read_unit(unit: FunctionUnit, kinds: Sequence[Kind]) -> tuple[Function, Specialization]:
    """Return a kernel in normal form for arguments of some kinds, before any pass."""
    kinds = tuple(kinds)
    spec = Specialization(unit, analyze(unit), kinds)
    with global_compiler_lock:
        arguments, typing = argument_types(spec.unit, kinds), host_contexts().typing_context
        typing.refresh()
        return read_function(spec.unit, arguments, typing, raises=True), spec


def barriers_of(function: Callable[..., Any], signature: str) -> BarrierFacts:
    """Return what is known of the barriers of a kernel."""
    return analyze_barriers(*read_kernel_for(function, signature))


def read_typed(kernel: Any, signature: str) -> Function:
    """Read a kernel for the CPU's types of a signature, and verify it."""
    asked = kernel._asked_for((signature,), None, None, None, "cpu", None)
    spec = kernel._dispatcher.specialize(*asked)[1]
    function = read_function(spec.unit, numba_types(spec.kinds), host_contexts().typing_context)
    verify(function)
    return function
