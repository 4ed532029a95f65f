"""Compile one kernel to PTX, on a machine with or without a GPU."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kerneldsl.contract import ONE_EACH, CompileOptions, Specialization
from kerneldsl.contract.options import EntryForm
from kerneldsl.errors import ArgumentValueError, CompileError, ResourceLimitError
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.intrinsics.intrinsic import Effect
from kerneldsl.utilities.address_space import require_addresses
from targets.cuda.architectures import (
    OLDEST,
    Architecture,
    PtxVersion,
    choose_ptx_version,
    parse_arch,
)
from targets.cuda.compile.addresses.facts import NO_FACTS, facts_of
from targets.cuda.compile.artifact import CudaArtifact
from targets.cuda.compile.lowered import LoweredKernel, linked_symbols, with_bounds
from targets.cuda.compile.requirements import check_words, preferred_ptx

if TYPE_CHECKING:
    from targets.cuda.compile.ptx import Linked

__all__ = ["compile_kernel", "lower_kernel", "write_kernel"]

_log = logging.getLogger("kerneldsl.cuda.compiler")


def compile_kernel(
    specialization: Specialization,
    *,
    arch: str,
    ptx_version: str | float | PtxVersion | None = None,
) -> CudaArtifact:
    """Compile a kernel.

    `ptx_version` is by default the specialization's, else one that old drivers take.

    - raises `ArgumentValueError` for an architecture, a PTX version or an option that does not
      exist, or a pair that does not fit.
    - raises `BarrierDivergenceError` where a barrier is provably not reached by every thread.
    - raises `KernelTypingError` where Numba cannot type the kernel.
    - raises `LibdeviceMissingError` where a mathematical function needs libdevice and there is
      none.
    - raises `ResourceLimitError` if it declares more static shared memory than a block can have,
      or a local array that is larger than a thread's local memory.
    - raises `CompileError` where a word needs a newer architecture, or lowering fails otherwise.
    - raises `ValueError` for a mapping that the kernel cannot have.
    """
    architecture = parse_arch(arch)
    wanted = ptx_version or specialization.ptx_version
    version = choose_ptx_version(
        architecture, wanted or preferred_ptx(specialization, architecture)
    )
    _check_options(specialization, architecture)
    _check_shared(specialization, specialization.traits.static_shared_bytes, architecture)
    _check_local(specialization, architecture)
    _check_mapping(specialization)
    unit = specialization.unit
    require_addresses(f"compiling {unit.qualname}", where=unit.place)
    from kerneldsl.lowering.numba_internals.compiling import collector_paused

    with collector_paused():
        without: dict[str, str] = {}
        while True:
            lowered = lower_kernel(specialization, architecture, without=without)
            artifact = write_kernel(lowered, architecture, version)
            if not lowered.additions.threads:
                return artifact
            from targets.cuda.compile.ptxas import find_problem

            problem = find_problem(artifact.ptx, artifact.entry_name, architecture.name)
            if problem is None:
                return artifact
            without[_last_of_products(lowered)] = problem


def _last_of_products(lowered: LoweredKernel) -> str:
    """Return the last pass that changed the products of warpgroups."""
    from targets.cuda.compile.pipeline import MULTIPLY_BY_WARPGROUPS, OVERLAP_PRODUCTS

    done = {each.name for each in lowered.remarks if not each.is_missed}
    return OVERLAP_PRODUCTS if OVERLAP_PRODUCTS in done else MULTIPLY_BY_WARPGROUPS


def lower_kernel(
    specialization: Specialization,
    arch: Architecture = OLDEST,
    *,
    without: Mapping[str, str] | None = None,
) -> LoweredKernel:
    """Do what depends on the architecture for products of tiles alone.

    Passes do not run that `without` has a reason against, by their names.

    Raises `BarrierDivergenceError`, `KernelTypingError`, `CompileError` as :func:`compile_kernel`.
    """
    # Numba, LLVM and everything built on them are imported by the first compilation.
    from numba import errors

    from kerneldsl.ir.explained_errors import explained_errors
    from kerneldsl.lowering.numba_internals.compiling import global_compiler_lock, target_override
    from kerneldsl.lowering.numba_internals.device_target import load_array_functions
    from targets.cuda.compile.numba_device import TARGET_NAME, descriptor
    from targets.cuda.compile.region_code import lower_regions

    with (
        global_compiler_lock,
        target_override(TARGET_NAME),
        explained_errors(specialization.unit, specialization.kinds, where="on a GPU"),
    ):
        try:
            return lower_regions(specialization, arch, without=without)
        except errors.NumbaError:
            if not load_array_functions(descriptor()):
                raise
            return lower_regions(specialization, arch, without=without)


def write_kernel(
    lowered: LoweredKernel, arch: Architecture, ptx_version: PtxVersion
) -> CudaArtifact:
    """Do what depends on the architecture.

    `ptx_version` knows `arch`, as :func:`~targets.cuda.architectures.choose_ptx_version` sees to.

    Raises `LibdeviceMissingError`, `CompileError` as :func:`compile_kernel`.
    """
    from kerneldsl.lowering.numba_internals.compiling import global_compiler_lock
    from targets.cuda.compile import ptx
    from targets.cuda.compile.pipeline import pipeline_of

    specialization, name = lowered.specialization, lowered.entry_name
    check_words(specialization, arch, ptx_version)
    unit = specialization.unit
    timings = dict(lowered.timings)
    pipeline = pipeline_of(specialization.options)
    with global_compiler_lock:
        started = time.perf_counter()
        try:
            options = with_bounds(specialization, lowered.additions)
            external = linked_symbols(specialization)
            linked = ptx.link(
                lowered.entry_text, lowered.body_texts, name, options, pipeline, external
            )
        except ptx.MissingFunction as missing:
            raise CompileError(
                f"{unit.qualname} calls {missing.symbol}, which is not available on a device",
                where=unit.locate(unit.tree),
                value=missing.symbol,
                remedy="Compute it outside the kernel, or write it with the functions of math",
            ) from missing
        _require_libdevice(specialization, linked)
        linked_at = time.perf_counter()
        traits = specialization.traits
        is_kernel = specialization.options.entry is EntryForm.KERNEL
        has_shared = traits.static_shared_bytes > 0 or traits.uses_dynamic_shared
        text, llvm = ptx.write_ptx(
            linked,
            name,
            arch,
            ptx_version,
            pipeline,
            views_shared=traits.views_vectors and has_shared,
            facts=facts_of(specialization) if is_kernel else NO_FACTS,
            optimize=specialization.options.optimize,
        )
    if specialization.options.has_lines and not specialization.options.variables:
        from targets.cuda.compile.inlined_lines import with_calls

        text = with_calls(text, llvm, ptx_version)
    version = ptx_version
    if linked.external:
        from targets.cuda.compile.linked_modules import join_linked

        text, version = join_linked(text, specialization, linked.external, arch, version, pipeline)
    if lowered.additions.is_early:
        # The kernel before this one may still write. Such loads are of memory that nothing writes.
        text = text.replace("ld.global.nc", "ld.global")
    timings["link"] = linked_at - started
    timings["llvm"] = time.perf_counter() - linked_at
    _log.debug(
        "compiled %s for %s, PTX ISA %d.%d: %s",
        unit.qualname,
        arch.name,
        *ptx_version,
        ", ".join(f"{step} {1e3 * seconds:.1f} ms" for step, seconds in timings.items()),
    )
    artifact = CudaArtifact(
        specialization,
        name,
        ptx=text,
        # Without optimization, the code is shown as it was lowered, with the names of variables.
        llvm=llvm if specialization.options.optimize else lowered.entry_text,
        arch=arch,
        ptx_version=version,
        fault_table=lowered.fault_table,
        barriers=lowered.barriers,
        timings=timings,
        uses_libdevice=bool(linked.libdevice_functions),
        passes=(*lowered.remarks, *pipeline.remarks()),
        findings=lowered.findings,
        additions=lowered.additions,
    )
    _check_shared(specialization, artifact.static_shared_bytes, arch)
    return artifact


def _require_libdevice(specialization: Specialization, linked: Linked) -> None:
    """Return where libdevice is needed and missing, say which line needs it."""
    from targets.cuda.compile import libdevice
    from targets.cuda.compile.math_symbols import user_name

    if linked.libdevice_functions and libdevice.find_libdevice() is None:
        from targets.cuda.compile.regions.read import find_call

        function = user_name(linked.libdevice_functions[0])
        libdevice.require_libdevice(function, find_call(specialization, function))


def _check_options(specialization: Specialization, arch: Architecture) -> None:
    """Refuse bounds that no device has; LLVM would pass them on and ptxas refuse them later."""
    options: CompileOptions = specialization.options
    where = specialization.unit.locate(specialization.unit.tree)
    if options.max_registers is not None and not (
        1 <= options.max_registers <= arch.max_registers_per_thread
    ):
        raise ArgumentValueError(
            f"max_registers is {options.max_registers}",
            where=where,
            value=options.max_registers,
            limit=f"A thread can use 1 to {arch.max_registers_per_thread} registers",
            remedy="Choose a number in that range, or leave it out",
        )
    bounds = options.launch_bounds
    if bounds is not None and not (
        1 <= bounds[0] <= arch.max_threads_per_block
        and all(1 <= b <= most for b, most in zip(bounds[1:], (32, 16), strict=False))
        and (len(bounds) < 3 or arch.number >= 90)
    ):
        raise ArgumentValueError(
            f"launch_bounds is {bounds}",
            where=where,
            value=bounds,
            limit=f"A block has 1 to {arch.max_threads_per_block} threads, 1 to 32 blocks fit on a "
            "multiprocessor, and a cluster, from sm_90 on, has 1 to 16 blocks",
            remedy="Give (threads,), (threads, blocks) or (threads, blocks, blocks of a cluster)",
        )


def _check_shared(specialization: Specialization, nbytes: int, arch: Architecture) -> None:
    """Refuse more static shared memory than ptxas grants."""
    tiles = specialization.traits.uses_tiles
    if nbytes > arch.max_static_shared_bytes:
        raise ResourceLimitError(
            f"{specialization.unit.qualname} declares {nbytes} bytes of static shared memory"
            + " with what its tiles need" * tiles,
            where=specialization.unit.locate(specialization.unit.tree),
            value=nbytes,
            limit=f"A block can have {arch.max_static_shared_bytes} bytes of it (PTX ISA, shared "
            "state space)",
            remedy="Sort, transpose and reduce smaller tiles along an axis"
            if tiles
            else "Use smaller arrays, or dynamic shared memory: shared.array(0, dtype) and "
            "kernel[grid, block, stream, shared_bytes]",
        )


def _check_local(specialization: Specialization, arch: Architecture) -> None:
    """Refuse a local array that no thread can have; what several take together ptxas decides."""
    for unit in specialization.unit.reachable():
        for name, use in unit.uses.items():
            if not use.intrinsic.effect & Effect.ALLOCATE_LOCAL:
                continue
            shape, dtype = use.static["shape"], use.static["dtype"] or "float64"
            nbytes = math.prod(shape) * ELEMENT_TYPES[dtype].nbytes
            if nbytes > arch.max_local_bytes:
                raise ResourceLimitError(
                    f"kd.local.array({shape}, {dtype}) takes {nbytes} bytes of each thread",
                    where=unit.locate_use(name),
                    value=nbytes,
                    limit=f"A thread can have {arch.max_local_bytes} bytes of local memory (CUDA "
                    "Programming Guide, technical specifications per compute capability)",
                    remedy="Use a smaller array, or pass an array as an argument",
                )


def _check_mapping(specialization: Specialization) -> None:
    """Refuse a planner's mapping that would change what a body computes."""
    mapping, ndim = specialization.mapping, specialization.mode.forall_ndim
    if ndim is not None and specialization.traits.uses_grid_only:
        mapping.axes_of(ndim)
    elif mapping != ONE_EACH:
        raise ValueError(
            f"{specialization.unit.qualname} is compiled for {mapping}; only forall of a kernel "
            "that uses grid alone can be mapped"
        )
