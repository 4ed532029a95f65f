"""From a kernel's normal form to LLVM modules: shared passes, then Numba."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from numba import errors, types

from kerneldsl.analysis.tile_shapes import uses_tiles
from kerneldsl.contract import PassRemark, Specialization
from kerneldsl.errors import KernelError, UnsupportedConstructError
from kerneldsl.frontend.trees import copy_tree
from kerneldsl.frontend.typed_unit import TypedUnit
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import ArrayKind, Kind
from kerneldsl.lowering import math_functions as _math_functions  # noqa: F401 - registers
from kerneldsl.lowering import numpy_functions as _numpy_functions  # noqa: F401 - registers
from kerneldsl.lowering.build import build_function
from kerneldsl.lowering.captured_arrays import offering
from kerneldsl.lowering.errors import translate
from kerneldsl.lowering.faults import FaultSite, FaultTable
from kerneldsl.lowering.missing import refuse_missing
from kerneldsl.lowering.numba_internals.compiling import (
    compile_function,
    global_compiler_lock,
    kernel_flags,
    target_override,
)
from kerneldsl.lowering.numba_internals.device_code import ModuleLibrary
from kerneldsl.lowering.numba_internals.device_functions import DeviceFunction
from kerneldsl.lowering.numba_internals.device_target import DeviceContext, load_array_functions
from kerneldsl.lowering.passes.drop_exceptions import DropExceptions
from kerneldsl.lowering.passes.mark_guard import MarkGuard
from kerneldsl.lowering.passes.mark_nonnegative_indices import MarkNonnegativeIndices
from kerneldsl.lowering.passes.record_faults import RecordFaults
from kerneldsl.lowering.passes.tuple_names import tuple_arguments
from kerneldsl.lowering.types import numba_types
from targets.cuda.compile.hint_accesses import hint_accesses
from targets.cuda.compile.linked_calls import calling_function
from targets.cuda.compile.numba_device import TARGET_NAME, descriptor
from targets.cuda.compile.pipeline import FunctionTree, Pipeline, Stage
from targets.cuda.compile.unroll_strides import hide_counters
from targets.cuda.intrinsics.faults import helpers
from targets.cuda.intrinsics.guard import guard_helper
from targets.cuda.intrinsics.table import EMITTERS, bind

__all__ = ["Lowered", "lower_unit", "type_unit"]


@dataclass(frozen=True)
class Lowered:
    """A kernel's body in LLVM's form, with everything it calls."""

    #: Where it was lowered.
    context: DeviceContext
    #: Name and types of the body.
    fndesc: Any
    #: Its modules.
    library: ModuleLibrary
    #: Debug mode: what the sites mean.
    fault_table: FaultTable
    #: Whether the body can be asked if an index passes its guard.
    has_guard: bool
    #: What the passes on the normal form and on syntax trees did.
    remarks: tuple[PassRemark, ...]


def lower_unit(specialization: Specialization, timings: dict[str, float]) -> Lowered:
    """Lower a kernel and the functions that it calls.

    The caller holds Numba's compiler lock, and has made this target the current one.
    `timings` gets ``prepare`` (Numba's registries, the first time; passes) and ``numba``.

    Raises `KernelTypingError` if Numba cannot type it.
    """
    started = time.perf_counter()
    refuse_missing(specialization.unit, "cuda", EMITTERS, "targets/cuda/intrinsics/table.py")
    contexts = descriptor()
    pipeline = Pipeline(specialization.options.disabled_passes)
    builder = _FunctionBuilder(specialization, pipeline, *_without_tiles(specialization, pipeline))
    function = builder.kernel()
    flags = kernel_flags(lineinfo=specialization.options.lineinfo)
    prepared = time.perf_counter()
    timings["prepare"] = prepared - started

    def compile_now() -> Any:
        kinds = numba_types(specialization.kinds)
        with offering(specialization.unit):
            return compile_function(contexts, function, kinds, types.void, flags)

    try:
        try:
            result = compile_now()
        except errors.NumbaError:
            if not load_array_functions(contexts):
                raise
            result = compile_now()
    except errors.NumbaError as error:
        raise translate(error, specialization.unit, specialization.kinds) from error
    timings["numba"] = time.perf_counter() - prepared
    return Lowered(
        contexts.target_context,
        result.fndesc,
        result.library,
        builder.fault_table,
        builder.has_guard,
        pipeline.remarks(),
    )


def _without_tiles(
    specialization: Specialization, pipeline: Pipeline
) -> tuple[FunctionUnit, Mapping[str, Any]]:
    """Return a kernel that has no tiles, and what its statements call beside the language."""
    unit = specialization.unit
    if not uses_tiles(unit):
        if not specialization.options.debug:
            unit = pipeline.run(Stage.NORMAL_FORM, unit, specialization.kinds)
        return unit, {}
    type_unit(unit, specialization.kinds)
    raise UnsupportedConstructError(
        f"{unit.qualname} has tiles, and a construct that a kernel with tiles cannot have",
        where=unit.locate(unit.tree),
        limit="These are `index` of a tuple, and a method that is kept in a variable",
        remedy="Compare the members of the tuple, and call the method where it is",
    )


def type_unit(unit: FunctionUnit, kinds: tuple[Kind, ...]) -> TypedUnit:
    """Infer the types of a kernel's normal form by the rules that :func:`lower_unit` compiles by.

    Raises
    ------
    KernelTypingError
        Where Numba cannot type it.
    """
    from kerneldsl.lowering.typed_unit import infer_unit  # compiling does without

    with global_compiler_lock, target_override(TARGET_NAME):
        contexts = descriptor()
        try:
            return infer_unit(unit, kinds, contexts)
        except KernelError:
            if not load_array_functions(contexts):
                raise
            return infer_unit(unit, kinds, contexts)


class _FunctionBuilder:
    """Makes Python functions of a kernel's unit and of the units it calls."""

    def __init__(
        self,
        specialization: Specialization,
        pipeline: Pipeline,
        unit: FunctionUnit,
        operations: Mapping[str, Any],
    ) -> None:
        self._pipeline = pipeline
        self._unit = unit
        self._options = specialization.options
        self._kinds = specialization.kinds
        self._devices: dict[int, DeviceFunction] = {}
        self._sites: list[FaultSite] = []
        self._helpers = {
            **helpers(wraparound=self._options.wraparound),
            **guard_helper(),
            **operations,
        }
        #: Whether the kernel had tiles, and its indices have been marked.
        self._has_tiles = bool(operations)
        self._wants_guard = specialization.traits.uses_grid_only and not self._options.debug
        #: Whether the guard of the kernel was found; known when it has been built.
        self.has_guard = False

    @property
    def fault_table(self) -> FaultTable:
        """Debug mode: the places of the kernel and of everything it calls; else empty."""
        return FaultTable(tuple(self._sites))

    def kernel(self) -> Callable[..., Any]:
        """Return the kernel's body."""
        return self._build(self._unit)

    def _build(self, unit: FunctionUnit) -> Callable[..., Any]:
        if unit.linked is not None:
            return calling_function(unit, unit.linked)
        namespace = {
            **unit.namespace,
            **self._helpers,
            **{name: captured.value for name, captured in unit.constants.items()},
            **{name: bind(use) for name, use in unit.uses.items()},
        }
        tree, hinted = hint_accesses(unit, self._rewrite(unit))
        if not self._options.debug:
            code = FunctionTree(copy_tree(hide_counters(tree)), {})
            tree, names = self._pipeline.run(Stage.TREE, code, unit, self._arrays(unit))
            namespace |= names
        namespace |= hinted
        namespace |= {name: self._device(callee) for name, callee in unit.callees.items()}
        return build_function(tree, unit.name, namespace, unit.filename)

    def _rewrite(self, unit: FunctionUnit) -> ast.FunctionDef:
        if self._options.debug:
            record = RecordFaults(first_site=len(self._sites))
            tree, table = record(unit)
            self._sites.extend(table.sites)
            return tree
        tree = DropExceptions()(unit.tree)
        tuples = tuple_arguments(self._unit, self._kinds)[unit]
        if not (unit is self._unit and self._has_tiles):
            mark = MarkNonnegativeIndices.for_unit(
                unit, wraparound=self._options.wraparound, tuples=tuples
            )
            tree = mark(tree)
        if self._wants_guard and unit is self._unit:
            tree, self.has_guard = MarkGuard(unit)(tree)
        return tree

    def _arrays(self, unit: FunctionUnit) -> list[str]:
        """Return the parameters that are known to be arrays."""
        if unit is not self._unit:
            return []
        parameters = zip(unit.parameters, self._kinds, strict=True)
        return [name for name, kind in parameters if isinstance(kind, ArrayKind)]

    def _device(self, unit: FunctionUnit) -> DeviceFunction:
        known = self._devices.get(id(unit))
        if known is None:
            function = unit.function if unit.is_plain_numba else None
            made = DeviceFunction(
                function or self._build(unit), descriptor(), lineinfo=self._options.lineinfo
            )
            known = self._devices.setdefault(id(unit), made)
        return known
