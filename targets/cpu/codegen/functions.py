"""Bind every outside name of generated code: operations, constants, device functions.

Numba compiles a device function as a separate function, and LLVM inlines it. If it needs
a coordinate, or can fault, it takes those as leading parameters; its callers pass theirs.
"""

from __future__ import annotations

import ast
import dataclasses
from collections import Counter
from collections.abc import Collection
from dataclasses import field
from typing import Any

import numpy as np

from kerneldsl.analysis.expressions import assigned_names
from kerneldsl.analysis.hoisting import place_at
from kerneldsl.analysis.library_names import library_name
from kerneldsl.contract import Specialization
from kerneldsl.frontend.syntax import load
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.language.intrinsics.intrinsic import Effect
from kerneldsl.lowering.build import build_function
from kerneldsl.lowering.faults import FaultSite
from kerneldsl.lowering.loop_marks import (
    NOT_UNROLLED,
    NOT_VECTORIZED,
    PARALLEL,
    UNROLLED_AS_VECTORS,
)
from kerneldsl.lowering.passes.record_faults import CHECKED
from kerneldsl.lowering.passes.record_faults import FAULT as FAULT_CALL
from kerneldsl.lowering.passes.tuple_names import tuple_arguments
from kerneldsl.utilities.cached_property import cached_property
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.codegen.storage import SCRATCH, StaticArray, Storage
from targets.cpu.intrinsics.table import (
    Atomic,
    Exchange,
    Refused,
    ScalarOperation,
    Stored,
    Together,
    lowering_of,
    refuse,
)
from targets.cpu.passes.counted_loops import is_range
from targets.cpu.passes.exchanges import combine_name, post_name
from targets.cpu.passes.ids import BlockSpace, Space, replace_ids
from targets.cpu.passes.prepare import FAULT, prepare_function
from targets.cpu.passes.statements import BUILTINS
from targets.cpu.passes.versions import ALWAYS

__all__ = ["Binder", "numba_flags"]


def numba_flags(spec: Specialization) -> frozenset[str] | bool:
    """Return Numba's ``fastmath`` value for the options."""
    if spec.options.fastmath:
        return True
    return frozenset({"contract"}) if spec.options.contract else False


#: Effects that threads may perform in any order.
_ANY_ORDER = Effect.BARRIER | Effect.ALLOCATE_SHARED | Effect.READ | Effect.WRITE


@dataclass
class Binder:
    """Fills the globals of generated functions, and rewrites calls to pass coordinates on.

    `sites` takes the places that can fail in device functions, in debug mode; `storage` places
    their local arrays.
    """

    spec: Specialization
    #: The kernel as its blocks are written from.
    unit: FunctionUnit
    space: Space
    sites: list[FaultSite]
    storage: Storage
    prints: int = 0
    compiled: dict[int, tuple[Any, tuple[str, ...]]] = field(default_factory=dict)
    #: What the uses of intrinsics in a unit are given.
    given: dict[FunctionUnit, dict[str, FunctionUnit]] = field(default_factory=dict)

    def functions_given(self, unit: FunctionUnit) -> dict[str, FunctionUnit]:
        """Return the functions that uses of intrinsics are given, by the names of the uses."""
        if unit not in self.given:
            self.given[unit] = _functions_given(unit)
        return self.given[unit]

    @cached_property
    def takes_any_order(self) -> bool:
        """Return whether threads between two barriers may take turns after any instruction.

        They share what the CPU target does for atomics, for exchanges and in local arrays, one
        thread after the other.
        """
        uses = list(self.unit.all_uses())
        return not self.spec.options.debug and not any(
            use.intrinsic.effect & ~_ANY_ORDER
            or isinstance(lowering_of(use.intrinsic), Exchange)
            or use.intrinsic.is_of_chain
            for use in uses
        )

    def bind(
        self,
        namespace: dict[str, Any],
        tree: ast.FunctionDef,
        unit: FunctionUnit,
        private_arrays: Collection[str],
    ) -> None:
        """Bind one function.

        The namespace is filled, and the tree, whose ids are replaced, is changed in place.
        `private_arrays` names variables that hold a shared or local array.
        """
        from targets.cpu.codegen.library import end_of_loop, keep_preheader
        from targets.cpu.intrinsics import (
            faults,
            memory,
            ranges,
            slots,
            typing_hints,
            units,
            warp,
        )
        from targets.cpu.intrinsics.groups.buffer import nothing_posted

        order = (PARALLEL,) if self.takes_any_order else ()
        namespace.update(unit.namespace)
        namespace.update({name: captured.value for name, captured in unit.constants.items()})
        namespace.update(
            kd_unsigned=typing_hints.unsigned,
            kd_load=slots.load_slot,
            kd_store=slots.store_slot,
            kd_view=memory.array_view,
            kd_dynamic_bound=memory.dynamic_bound,
            kd_expect=warp.expect,
            kd_arrive=warp.arrive,
            kd_nothing_posted=nothing_posted,
            kd_int32=np.int32,
            kd_int64=np.int64,
            kd_uint32=np.uint32,
            kd_unknown=typing_hints.unknown,
            kd_range=ranges.counting_range,
            kd_range_item=ranges.range_item,
            kd_row_pieces=units.row_pieces,
            kd_block_place=units.block_place,
            kd_keep_loop=end_of_loop(NOT_UNROLLED, *order),
            kd_keep_preheader=keep_preheader,
            kd_keep_lanes=end_of_loop(NOT_UNROLLED, UNROLLED_AS_VECTORS, *order),
            kd_keep_scalar=end_of_loop(NOT_UNROLLED, NOT_VECTORIZED, *order),
            kd_end_of_threads=end_of_loop(*order),
            kd_saturating_add=ranges.saturating_add,
            kd_saturating_sub=ranges.saturating_sub,
            **BUILTINS,
            **{
                ALWAYS: typing_hints.always,
                CHECKED: faults.checker,
                FAULT_CALL: faults.faulter,
            },
        )
        # What a loop goes over once is counted without a step.
        for name, is_counted in _ranges_of_loops(tree, unit).items():
            namespace[name] = ranges.counting_range if is_counted else range
        for node in walk_here(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            # A function that an intrinsic is given belongs to what is bound for that.
            node.args = [arg for arg in node.args if not _is_callee(arg, unit)]
            if node.func.id in (CHECKED, FAULT_CALL):
                self.pass_place(node)
                continue
            if library_name(node.func, unit.namespace) == "print":
                self.bind_print(node, namespace, unit)
                continue
            use = unit.use_of(node)
            if use is not None:
                self.bind_intrinsic(node, use, namespace, unit, private_arrays)
                continue
            callee = unit.callee_of(node)
            if callee is not None:
                function, passed = self.function(callee)
                namespace[node.func.id] = function
                extra = [place_at(load(p), node) for p in passed]
                node.args = [*extra, *node.args]

    def bind_intrinsic(
        self,
        node: ast.Call,
        use: IntrinsicUse,
        namespace: dict[str, Any],
        unit: FunctionUnit,
        private_arrays: Collection[str],
    ) -> None:
        """Bind one call of an intrinsic that has not become an expression or a cut."""
        assert isinstance(node.func, ast.Name)
        match lowering_of(use.intrinsic):
            case ScalarOperation() as lowering:
                namespace[node.func.id] = lowering.function(use)
            case Atomic() as atomic:
                array = node.args[0]
                private = isinstance(array, ast.Name) and array.id in private_arrays
                name = node.func.id if use.static else f"kd_{use.intrinsic.symbol}"
                name += "_private" if private else ""
                namespace[name] = atomic.function(use, is_private=private)
                node.func = place_at(load(name), node)
            case Exchange() as exchange:
                function = self.functions_given(unit).get(node.func.id)
                if function is not None and exchange.calling is not None:
                    exchange = exchange.calling(self.operation(function))
                namespace[post_name(node.func.id)] = exchange.post
                namespace[combine_name(node.func.id)] = exchange.combine
                namespace[node.func.id] = exchange.take
            case Together() as together:
                function = self.functions_given(unit).get(node.func.id)
                given = self.operation(function) if function is not None else None
                namespace[node.func.id] = together.calling(given)
                record = load(FAULT) if self.spec.options.debug else ast.Constant(0)
                blocks = ast.parse("kd_gx * kd_gy * kd_gz", mode="eval").body
                node.args = [place_at(blocks, node), place_at(record, node), *node.args]
            case Refused() as refused:
                refuse(unit.locate(node), use.intrinsic, refused.reason)
            case Stored():
                offset = self.storage.place_array(StaticArray(use, unit.locate(node)))
                shape, dtype = use.static["shape"], use.static["dtype"]
                namespace[node.func.id] = _local_array(dtype, shape, offset)
                scratch: list[ast.expr] = [load(SCRATCH), ast.Constant(0)]
                node.args = [place_at(s, node) for s in scratch]

    def operation(self, unit: FunctionUnit) -> Any:
        """Return a function that an intrinsic calls: with its own parameters alone, unchecked."""
        options = dataclasses.replace(self.spec.options, debug=False)
        spec = dataclasses.replace(self.spec, options=options)
        function, passed = Binder(spec, self.unit, self.space, [], self.storage).function(unit)
        assert not passed
        return function

    def bind_print(self, node: ast.Call, namespace: dict[str, Any], unit: FunctionUnit) -> None:
        """Bind one ``print`` to an operation that knows its constant strings."""
        from targets.cpu.intrinsics.printing import printer

        texts: list[str | None] = []
        values: list[ast.expr] = []
        for argument in node.args:
            value = argument.value if isinstance(argument, ast.Constant) else None
            if isinstance(argument, ast.Name) and argument.id in unit.constants:
                value = unit.constants[argument.id].value
            if isinstance(value, str):
                texts.append(value)
            else:
                texts.append(None)
                values.append(argument)
        self.prints += 1
        name = f"kd_print_{self.prints}"
        namespace[name] = printer(tuple(texts))
        node.func = place_at(load(name), node)
        node.args = values

    def pass_place(self, node: ast.Call) -> None:
        """Complete a check: where the record is, and which thread this is."""
        assert isinstance(node.func, ast.Name)
        coordinates: list[ast.expr] = [load(name) for name in self.space.thread_names]
        is_block = isinstance(self.space, BlockSpace)
        coordinates += [load(f"kd_b{axis}") if is_block else ast.Constant(0) for axis in "xyz"]
        more: list[ast.expr] = [load(FAULT), ast.Tuple(coordinates, ast.Load())]
        if node.func.id == CHECKED:
            more.insert(0, ast.Constant(self.spec.options.wraparound))
        node.args += [place_at(m, node) for m in more]

    def function(self, unit: FunctionUnit) -> tuple[Any, tuple[str, ...]]:
        """Return a device function for Numba, and the names it takes before its own parameters."""
        known = self.compiled.get(id(unit))
        if known is not None:
            return known
        from numba import njit

        from targets.cpu.codegen.library import FunctionCompiler

        tuples = tuple_arguments(self.unit, self.spec.kinds)
        tree = prepare_function(unit, self.spec, self.sites, tuples[unit])
        tree = replace_ids(tree, unit, self.space)
        namespace: dict[str, Any] = {}
        self.bind(namespace, tree, unit, ())
        passed = tuple(sorted(free_coordinates(tree)))
        arguments = [ast.arg(n) for n in (*passed, *unit.parameters)]
        tree.args = ast.arguments([], arguments, None, [], [], None, [])
        function = build_function(tree, unit.name, namespace, unit.filename)
        jit = njit(
            error_model="numpy",
            fastmath=_as_numba(numba_flags(self.spec)),
            forceinline=not self.spec.options.debug,
            no_cpython_wrapper=True,
            no_cfunc_wrapper=True,
            pipeline_class=FunctionCompiler,
        )
        result = (jit(function), passed)
        self.compiled[id(unit)] = result
        return result


def _ranges_of_loops(tree: ast.FunctionDef, unit: FunctionUnit) -> dict[str, bool]:
    """Return the names of Python's range, each with whether only heads of loops use it."""
    loops = [n for n in walk_here(tree) if isinstance(n, ast.For) and is_range(n.iter, unit)]
    heads = [n.iter.func for n in loops if isinstance(n.iter, ast.Call)]
    found = Counter(head.id for head in heads if isinstance(head, ast.Name))
    if not found:
        return {}
    named = Counter(n.id for n in walk_here(tree) if isinstance(n, ast.Name))
    return {name: named[name] == count for name, count in found.items()}


def _is_callee(node: ast.expr, unit: FunctionUnit) -> bool:
    return isinstance(node, ast.Name) and node.id in unit.callees


def _functions_given(unit: FunctionUnit) -> dict[str, FunctionUnit]:
    """Return the functions that uses of intrinsics are given, by the names of the uses."""
    return {
        node.func.id: unit.callees[argument.id]
        for node in walk_here(unit.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        for argument in node.args
        if isinstance(argument, ast.Name) and argument.id in unit.callees
    }


def _as_numba(flags: frozenset[str] | bool) -> set[str] | bool:
    return flags if isinstance(flags, bool) else set(flags)


def free_coordinates(tree: ast.FunctionDef) -> set[str]:
    """Return coordinates and generated names that a function reads but never sets."""
    stored = assigned_names(tree)
    return {
        node.id
        for node in walk_here(tree)
        if isinstance(node, ast.Name)
        and node.id not in stored
        and (node.id in _COORDINATES or node.id in (FAULT, SCRATCH))
    }


_COORDINATES = frozenset(
    f"kd_{prefix}{axis}" for prefix in ("t", "w", "b", "g", "n", "") for axis in "xyz"
) | frozenset(f"kd_extent_{i}" for i in range(3))


def _local_array(dtype: str, shape: tuple[int, ...], offset: int | None) -> Any:
    from targets.cpu.intrinsics.memory import array_maker

    return array_maker(dtype, shape, offset=offset)
