"""Kernels as this target reads them: the region IR of their functions, typed, before any pass."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from numba import errors

from kerneldsl.analysis.work import KernelWork
from kerneldsl.contract import Dim3, Specialization
from kerneldsl.contract.options import DEFAULT_OPTIONS, CompileOptions
from kerneldsl.errors import KernelError, SourceLocation
from kerneldsl.frontend.typed_unit import TypedUnit
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.ir.explained_errors import explained_errors
from kerneldsl.ir.frontend.read import argument_types, read_function, type_unit
from kerneldsl.ir.frontend.reader import NotReadError, Reader
from kerneldsl.ir.nonnegative import mark_indices
from kerneldsl.ir.operations import Function, Operation, Value
from kerneldsl.ir.ranges import Interval, ranges_of
from kerneldsl.ir.simplify import simplify
from kerneldsl.ir.work import count_work
from kerneldsl.language.kinds import Kind
from kerneldsl.lowering import math_functions as _math_functions  # noqa: F401 - registers
from kerneldsl.lowering import numpy_functions as _numpy_functions  # noqa: F401 - registers
from kerneldsl.lowering.captured_arrays import offering
from kerneldsl.lowering.numba_internals.compiling import (
    collector_paused,
    global_compiler_lock,
    target_override,
)
from kerneldsl.lowering.numba_internals.device_functions import DeviceFunction
from kerneldsl.lowering.numba_internals.device_target import load_array_functions
from targets.cuda.compile.barriers import check_barriers
from targets.cuda.compile.math_symbols import user_name
from targets.cuda.compile.numba_device import TARGET_NAME, descriptor

__all__ = [
    "compiling",
    "count_kernel",
    "find_call",
    "read_as_written",
    "read_kernel",
    "typed_regions",
    "typed_unit",
]

_Read = TypeVar("_Read")


class _ReadFunction(NamedTuple):
    """A kernel that was read."""

    unit: FunctionUnit
    kinds: tuple[Kind, ...]
    function: Function
    #: The kernel with the bodies of Numba's functions.
    analyzed: Function


#: The last one that was counted, if it is not compiled yet; under Numba's compiler lock.
_counted: list[_ReadFunction] = []


def count_kernel(
    unit: FunctionUnit, kinds: tuple[Kind, ...], block_dim: Dim3 | None
) -> KernelWork | None:
    """Count what a kernel does for one index; the next compilation need not read it again.

    ``None`` for a kernel that is not read: to compile it raises the error.
    """
    with collector_paused(), global_compiler_lock, target_override(TARGET_NAME), offering(unit):
        try:
            _counted[:] = [_read_unit(unit, kinds)]
        except (errors.NumbaError, NotReadError, KernelError, ValueError, RecursionError):
            return None
        return count_work(_counted[0].function, block_dim=block_dim)


def read_as_written(specialization: Specialization) -> Function:
    """Return the typed function of a kernel before any pass, with what is found in it.

    Raises `KernelError` for a barrier or a chain that is refused.
    """
    unit, kinds, options = specialization.unit, specialization.kinds, specialization.options
    is_counted = _counted and _counted[0].unit is unit and _counted[0].kinds == kinds
    read = (
        _counted.pop()
        if is_counted and not options.debug and options.optimize
        else _read_unit(unit, kinds, options)
    )
    function, analyzed = read.function, read.analyzed
    function.findings = analyzed.findings
    if specialization.traits.has_barrier:
        from kerneldsl.ir.barriers import analyze_barriers

        function.barriers = analyze_barriers(analyzed, specialization)
        check_barriers(function.barriers.problems)
    return function


def _read_unit(
    unit: FunctionUnit, kinds: tuple[Kind, ...], options: CompileOptions = DEFAULT_OPTIONS
) -> _ReadFunction:
    read = partial(
        read_function,
        calls_linked=True,
        plain_function=_plain_function,
        debug=options.debug,
        checks_division=options.checks_division,
        keeps_variables=not options.optimize,
    )
    function = analyzed = _read(unit, kinds, read)
    if any(each.is_plain_numba for each in unit.reachable()):
        # The bodies of Numba's functions are analyzed, too.
        with suppress(errors.NumbaError, NotReadError):
            analyzed = _read(unit, kinds, partial(read, plain_function=None))
    return _ReadFunction(unit, kinds, function, analyzed)


def typed_unit(unit: FunctionUnit, kinds: tuple[Kind, ...]) -> TypedUnit:
    """Return a kernel with the types of its values, by the rules that it is compiled by."""
    with compiling(unit, kinds):
        return _read(unit, kinds, type_unit)


def typed_regions(unit: FunctionUnit, kinds: tuple[Kind, ...], made_by: type[Reader]) -> Function:
    """Return the typed function of a kernel with all that it calls, before any pass.

    `made_by` is the class of its reader.
    """
    with compiling(unit, kinds):
        return _read(unit, kinds, partial(read_function, made_by=made_by))


def _read(unit: FunctionUnit, kinds: tuple[Kind, ...], read: Callable[..., _Read]) -> _Read:
    """Read a kernel in this target's contexts, with NumPy's functions of arrays if needed."""
    contexts = descriptor()
    arguments = argument_types(unit, kinds)
    contexts.typing_context.refresh()
    contexts.target_context.refresh()
    try:
        return read(unit, arguments, contexts.typing_context)
    except errors.NumbaError:
        if not load_array_functions(contexts):
            raise
        return read(unit, arguments, contexts.typing_context)


def read_kernel(specialization: Specialization) -> tuple[Function, dict[Value, Interval]]:
    """Return the typed function of a kernel, and the intervals of its integers."""
    function = read_as_written(specialization)
    simplify(function.body)
    known = ranges_of(function)
    mark_indices(function, wraparound=specialization.options.wraparound)
    return function, known


_functions: WeakKeyDictionary[Any, DeviceFunction] = WeakKeyDictionary()


def _plain_function(unit: FunctionUnit) -> DeviceFunction:
    """Return a function of Numba's as it is compiled for a device, once in a process."""
    assert unit.function is not None
    known = _functions.get(unit.function)
    if known is None:
        known = _functions.setdefault(unit.function, DeviceFunction(unit.function, descriptor()))
    return known


@contextmanager
def compiling(unit: FunctionUnit, kinds: tuple[Kind, ...]) -> Iterator[None]:
    """Hold what a compilation needs; raise errors of this project."""
    with (
        collector_paused(),
        global_compiler_lock,
        target_override(TARGET_NAME),
        explained_errors(unit, kinds, where="on a GPU"),
    ):
        yield


_OPERATORS: dict[str, tuple[Callable[..., Any], ...]] = {
    "pow": (operator.pow, operator.ipow),
    "% (fmod)": (operator.mod, operator.imod, operator.floordiv, operator.ifloordiv),
}


def find_call(specialization: Specialization, function: str) -> SourceLocation:
    """Return the first place where a kernel or what it calls uses a mathematical function.

    It is the kernel's ``def`` if the use cannot be found: an operation on complex numbers may call
    the function, for example.
    """
    unit = specialization.unit
    for operation in typed_regions(unit, specialization.kinds, Reader).body.walk():
        if function in _names(operation) and operation.source is not None:
            where: SourceLocation = operation.source.where
            return where
    return unit.place()


def _names(operation: Operation) -> list[str]:
    """Return what messages call the functions that an operation may need."""
    group, _, name = operation.name.partition(".")
    if group == "libdevice":
        return [user_name(f"__nv_{name}")]
    function = operation.attributes.get("function")
    found = [name for name, functions in _OPERATORS.items() if function in functions]
    called = operation.attributes.get("name")
    return found if called is None else [*found, str(called)]
