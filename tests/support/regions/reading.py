"""Kernels as the front end of CUDA and the null target reads them."""

from __future__ import annotations

from typing import Any

from kerneldsl.contract import Specialization
from kerneldsl.ir.operations import Function, Value
from kerneldsl.ir.ranges import Interval
from kerneldsl.lowering.numba_internals.compiling import global_compiler_lock, target_override
from targets.cuda.compile.numba_device import TARGET_NAME
from targets.cuda.compile.pipeline import Pipeline
from targets.cuda.compile.region_code import optimize
from targets.cuda.compile.regions.read import read_as_written, read_kernel
from targets.cuda.compile.tiles.order import order_tiles

__all__ = ["after_passes", "as_written", "before_passes", "specialized"]


def specialized(
    kernel: Any, args: tuple[Any, ...], *, forall: int | None = None, block: Any = None
) -> Specialization:
    """Return what a kernel is compiled for on the null target."""
    asked = kernel._asked_for(args, forall, block, None, "null", None)
    found: Specialization = kernel._dispatcher.specialize(*asked)[1]
    return found


def as_written(specialization: Specialization) -> Function:
    """Return the function as the front end reads it."""
    with global_compiler_lock, target_override(TARGET_NAME):
        function = read_as_written(specialization)
    _order(function, specialization)
    return function


def before_passes(specialization: Specialization) -> Function:
    """Return the function that CUDA's passes are given."""
    with global_compiler_lock, target_override(TARGET_NAME):
        function, _ = read_kernel(specialization)
    return function


def after_passes(specialization: Specialization) -> tuple[Function, dict[Value, Interval]]:
    """Return the function that is compiled, and the intervals of its integers."""
    with global_compiler_lock, target_override(TARGET_NAME):
        function, intervals = read_kernel(specialization)
        pipeline = Pipeline(specialization.options.disabled_passes)
        optimize(function, specialization, pipeline)
    _order(function, specialization)
    return function, intervals


def _order(function: Function, specialization: Specialization) -> None:
    """Let threads wait where elements that are read for a tile may be another thread's."""
    if specialization.traits.uses_tiles:
        order_tiles(function, specialization.kinds, specialization.promises)
