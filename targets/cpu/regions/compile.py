"""From a kernel by the region IR to machine code of this processor.

The body is one LLVM function, ``body(memory, exception, first, last, launch)``, which
reads its arguments from the launch. It runs a range of blocks, or of pieces of rows.
"""

from __future__ import annotations

import time
from functools import cache
from typing import Any

from llvmlite import ir

from kerneldsl.contract import Specialization
from kerneldsl.ir.operations import Function, Region
from kerneldsl.ir.printer import print_region
from kerneldsl.lowering.numba_internals.compiling import collector_paused, global_compiler_lock
from kerneldsl.lowering.numba_internals.host_code import helpers_of_kernels, host_contexts
from kerneldsl.lowering.numba_internals.regions import (
    empty_module,
    relax_floats,
    without_errors,
)
from targets.cpu.codegen.code import Compiled
from targets.cpu.codegen.functions import numba_flags
from targets.cpu.codegen.library import create_library
from targets.cpu.codegen.orientation import row_axis
from targets.cpu.passes.short_kernels import is_short
from targets.cpu.regions.arguments import read_arguments
from targets.cpu.regions.blocks import write_blocks
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.entry import BODY, write_entry
from targets.cpu.regions.handlers import HANDLERS
from targets.cpu.regions.read import read_kernel
from targets.cpu.regions.rows import write_rows
from targets.cpu.runtime.artifact import CpuArtifact
from targets.cpu.runtime.interrupt_code import CAN_LEAVE_CODE
from targets.cpu.runtime.objects import load_object
from targets.cpu.runtime.runner import runner_symbols
from targets.cpu.runtime.runner_table import RunnerOption

__all__ = ["compile_regions"]

_I32 = ir.IntType(32)


def compile_regions(spec: Specialization) -> CpuArtifact:
    """Compile a kernel by the region IR.

    Raises :class:`~kerneldsl.ir.frontend.reader.NotReadError` for what its front end does not read.
    """
    with collector_paused(), global_compiler_lock, helpers_of_kernels():
        return _compile(spec)


def _compile(spec: Specialization) -> CpuArtifact:
    timings: dict[str, float] = {}
    began = time.process_time()
    function, region = read_kernel(spec)
    timings["read"] = time.process_time() - began
    library = create_library(spec.unit.name)
    module, entry_name = _lower(spec, function, region, library)
    timings["lower"] = time.process_time() - began - timings["read"]
    library.add_ir_module(module)
    timings["parse"] = time.process_time() - began - sum(timings.values())
    library.finalize()
    timings["llvm"] = time.process_time() - began - sum(timings.values())
    symbols = library.outside_symbols() | runner_symbols()
    loaded = load_object(library.machine_code, entry_name, symbols)
    timings["load"] = time.process_time() - began - sum(timings.values())
    compiled = Compiled(library, loaded.address, entry_name, loaded)
    return CpuArtifact(
        spec,
        entry_name,
        timings,
        print_region(region),
        compiled,
        row_axis(spec) if spec.traits.uses_grid_only else None,
        None,
        None,
    )


def _lower(
    spec: Specialization, function: Function, region: Region, library: Any
) -> tuple[ir.Module, str]:
    """Write the module with the body and its entry."""
    context = _target_context()
    module = empty_module(context, spec.unit.name)
    body_name = f"kerneldsl.{spec.unit.name}.body"
    body = ir.Function(module, BODY, body_name)
    body.linkage = "internal"
    builder = ir.IRBuilder(body.append_basic_block("entry"))
    emitter = CpuEmitter(context, builder, spec)
    with context.push_code_library(library):
        emitter.register(HANDLERS)
        read_arguments(emitter, function)
        if spec.traits.uses_grid_only:
            write_rows(emitter, region)
        else:
            write_blocks(emitter, region)
        builder.ret(_I32(0))
        emitter.finish()
    flags = numba_flags(spec)
    if flags:
        relax_floats(module, flags)
    entry_name = f"kerneldsl.{spec.unit.name}.entry"
    write_entry(
        module,
        body,
        entry_name,
        scratch_bytes=emitter.storage.scratch_bytes,
        options=_options(spec, uses_scratch=emitter.storage.scratch_bytes > 0),
    )
    return module, entry_name


def _options(spec: Specialization, *, uses_scratch: bool) -> RunnerOption:
    """Return what the body needs of the function that runs its pieces."""
    options = RunnerOption(0)
    if spec.traits.uses_dynamic_shared:
        options |= RunnerOption.SCRATCH | RunnerOption.DYNAMIC
    elif uses_scratch:
        options |= RunnerOption.SCRATCH
    if CAN_LEAVE_CODE and not is_short(spec.unit):
        options |= RunnerOption.LEAVE
    return options


@cache
def _target_context() -> Any:
    """Return the target context of kernels, in which a division by zero has a result."""
    return without_errors(host_contexts().target_context)
