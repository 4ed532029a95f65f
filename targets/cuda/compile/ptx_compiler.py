"""The compiler of every target whose code is PTX: compile, keep code, map an extent onto blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from kerneldsl.contract import (
    ONE_EACH,
    Compiler,
    Device,
    Dim3,
    ElementMapping,
    LaunchConfig,
    PassInfo,
    Resources,
)
from kerneldsl.errors import ArgumentValueError, LaunchConfigError
from kerneldsl.planner import DeviceOccupancyLimits, KernelResources, occupancy
from kerneldsl.utilities.address_space import require_addresses
from targets.cuda.architectures import DEFAULT_ARCH, older_architectures
from targets.cuda.compile.lowered import DEFAULT_TILE_BLOCK

if TYPE_CHECKING:
    from kerneldsl.analysis.traits import KernelTraits
    from kerneldsl.analysis.work import KernelWork
    from kerneldsl.contract import Artifact, Device, Dim3, Executable, LaunchConfig, Specialization
    from kerneldsl.contract.findings import BarrierProblem
    from kerneldsl.frontend.typed_unit import TypedUnit
    from kerneldsl.frontend.unit import FunctionUnit
    from kerneldsl.language.kinds import Kind
    from targets.cuda.compile.additions import LaunchAdditions
    from targets.cuda.compile.artifact import CudaArtifact

__all__ = ["PtxCompiler", "choose_block", "map_extent", "require_ptx"]


class PtxCompiler(Compiler):
    """Makes PTX."""

    maps_elements = True
    usual_architectures = ("sm_80", "sm_90", "sm_120")
    takes_code = True
    #: CUDA's for all: it is the same compiler, and what it made serves a real device.
    code_family = "cuda"

    def __init__(self, name: str) -> None:
        self.name = name

    def compiles_for_block(self, traits: KernelTraits) -> bool:
        """Return whether threads are told at compile time which elements of tiles are theirs."""
        return traits.uses_tiles

    def launch_arch(self, traits: KernelTraits, arch: str) -> str:
        """Return the architecture with ``wgmma`` for products of tiles, of a device that has it."""
        return "sm_90a" if traits.uses_products and arch == "sm_90" else arch

    def check_barriers(self, problems: Sequence[BarrierProblem]) -> None:
        """Refuse barriers that provably diverge; warn, once for each place, of those that might."""
        from targets.cuda.compile.barriers import check_barriers

        check_barriers(problems)

    def compile(self, specialization: Specialization) -> Artifact:
        if specialization.code is not None:
            from targets.cuda.compile.code_artifact import compile_code

            return compile_code(specialization, _arch(specialization))
        from targets.cuda.compile.compiler import compile_kernel

        return compile_kernel(specialization, arch=_arch(specialization))

    def typed_unit(self, unit: FunctionUnit, kinds: tuple[Kind, ...]) -> TypedUnit:
        require_addresses(f"typing {unit.qualname}", where=unit.place)
        from targets.cuda.compile.region_code import typed_unit

        return typed_unit(unit, kinds)

    def typed_regions(self, unit: FunctionUnit, kinds: tuple[Kind, ...], made_by: Any) -> Any:
        require_addresses(f"typing {unit.qualname}", where=unit.place)
        from targets.cuda.compile.region_code import typed_regions

        return typed_regions(unit, kinds, made_by)

    def work(
        self, unit: FunctionUnit, kinds: tuple[Kind, ...], block_dim: Dim3 | None
    ) -> KernelWork | None:
        """Count the IR of the kernel, which is then compiled."""
        # This imports Numba first: threads that begin with other parts of it can deadlock.
        import kerneldsl.lowering.numba_internals.compiling  # noqa: F401
        from targets.cuda.compile.region_code import count_kernel

        return count_kernel(unit, kinds, block_dim)

    def passes(self) -> tuple[PassInfo, ...]:
        from targets.cuda.compile.pipeline import PASSES

        return tuple(PassInfo(each.name, each.purpose, each.stage.value) for each in PASSES)

    def code_identity(self, specialization: Specialization) -> Mapping[str, str] | None:
        if specialization.code is not None:
            from targets.cuda.compile.stored import identify_compiler

            return identify_compiler(specialization.code, _arch(specialization))
        from targets.cuda.compile.stored import code_identity

        return code_identity(specialization, _arch(specialization))

    def dump(self, artifact: Artifact) -> Mapping[str, bytes] | None:
        from targets.cuda.compile.artifact import CudaArtifact

        if artifact.specialization.code is not None:
            from targets.cuda.compile.code_artifact import CodeArtifact
            from targets.cuda.compile.stored import dump_code

            return dump_code(artifact) if isinstance(artifact, CodeArtifact) else None
        from targets.cuda.compile.stored import dump

        return dump(artifact) if isinstance(artifact, CudaArtifact) else None

    def shipped_architectures(self, arch: str | None) -> tuple[str, ...]:
        """Return the architecture, and older ones with PTX that the driver assembles for it."""
        return older_architectures(DEFAULT_ARCH if arch is None else arch)

    def ship(self, artifact: Artifact) -> Mapping[str, bytes] | None:
        if artifact.specialization.code is not None:  # the program brings it along
            return None
        from targets.cuda.compile.artifact import CudaArtifact
        from targets.cuda.compile.stored import ship

        return ship(artifact) if isinstance(artifact, CudaArtifact) else None

    def restore(self, specialization: Specialization, sections: Mapping[str, bytes]) -> Artifact:
        if specialization.code is not None:
            from targets.cuda.compile.stored import restore_code

            return restore_code(specialization, sections, _arch(specialization))
        from targets.cuda.compile.stored import restore

        return restore(specialization, sections, _arch(specialization))

    def forall_config(
        self, executable: Executable, extent: tuple[int, ...], block_dim: Dim3 | None
    ) -> LaunchConfig:

        artifact = executable.artifact
        specialization = artifact.specialization
        if specialization.traits.uses_tiles:
            block_dim = specialization.block_dim or DEFAULT_TILE_BLOCK
        if specialization.traits.loops_over_tiles:
            from targets.cuda.compile.artifact import CudaArtifact

            assert isinstance(artifact, CudaArtifact)
            assert block_dim is not None
            blocks = (executable.device, executable.resources, artifact.additions)
            return fill_device(*blocks, extent, block_dim)
        return map_extent(
            specialization.traits,
            executable.device,
            extent,
            block_dim,
            max_block_threads=executable.resources.max_block_threads,
            mapping=specialization.mapping,
        )


def _arch(specialization: Specialization) -> str:
    return DEFAULT_ARCH if specialization.arch is None else specialization.arch


def require_ptx(artifact: Artifact, device: Device) -> CudaArtifact:
    """Return the artifact, if it is PTX; raise `TypeError` for another compiler's."""
    from targets.cuda.compile.artifact import CudaArtifact

    if not isinstance(artifact, CudaArtifact):
        raise TypeError(
            f"the {device.target} target loads a CudaArtifact, found {type(artifact).__name__}"
        )
    return artifact


# Under ``forall`` of an element kernel that uses ``grid`` alone, the mapping it was compiled for
# says how many indices a block works on; by default the last axis of the extent runs along x, so
# that neighbouring threads touch neighbouring elements of a C-contiguous array. The entry's
# prologue undoes the mapping, and where the grid was cut to the device's limit it loops. Every
# other kernel has the first axis along x, one element a thread.

#: Block by rank of the extent. 256 threads: on an H200, axpy ran at 83 % of torch's speed with
#: this block, and at 60 % and 78 % with 128 and 512.
DEFAULT_BLOCKS: dict[int, Dim3] = {1: (256, 1, 1), 2: (32, 8, 1), 3: (32, 4, 2)}


def choose_block(ndim: int, max_block_threads: int) -> Dim3:
    """Return the default block of a rank, halved along z, y, then x until the kernel can have it.

    Examples
    --------
    >>> choose_block(2, 1024)
    (32, 8, 1)
    >>> choose_block(3, 64)
    (32, 2, 1)
    """
    block = list(DEFAULT_BLOCKS[ndim])
    for axis in (2, 1, 0):
        while block[0] * block[1] * block[2] > max_block_threads and block[axis] > 1:
            block[axis] //= 2
    return block[0], block[1], block[2]


def map_extent(
    traits: KernelTraits,
    device: Device,
    extent: tuple[int, ...],
    block_dim: Dim3 | None,
    *,
    max_block_threads: int,
    mapping: ElementMapping = ONE_EACH,
) -> LaunchConfig:
    """Choose grid and block so that every index of an extent is covered.

    `extent` is in the user's order; `max_block_threads` is what a block of the compiled kernel may
    have.

    Raises `LaunchConfigError` for a block kernel without a block, or an extent that needs more
    blocks than the device allows.
    """
    if block_dim is None:
        if traits.uses_block:
            raise LaunchConfigError(
                f"forall{extent} has no block",
                value=extent,
                limit="A kernel with shared memory, barriers or warp operations is written for a "
                "block of a certain shape",
                remedy="Give it one: kernel.forall(…, block=(…)), @kd.kernel(block=(…)), or "
                "kernel[grid, block](…)",
            )
        block_dim = choose_block(len(extent), max_block_threads)
    if not traits.uses_grid_only:
        mapping = ElementMapping(axes=tuple(range(len(extent))), grid_stride="")
    grid = list(mapping.blocks(extent, block_dim))
    for axis, limit in enumerate(device.limits.max_grid_dim):
        if grid[axis] <= limit:
            continue
        if "xyz"[axis] not in mapping.grid_stride:
            _refuse_grid(extent, block_dim, grid, axis, device)
        grid[axis] = limit
    return LaunchConfig((grid[0], grid[1], grid[2]), block_dim, extent)


def fill_device(
    device: Device,
    resources: Resources,
    additions: LaunchAdditions,
    extent: tuple[int, ...],
    block_dim: Dim3,
) -> LaunchConfig:
    """Return a configuration of as many blocks as run on a device at once.

    They take tiles in turn, so others would only begin when these have ended.
    """
    config = LaunchConfig((1, 1, 1), block_dim, extent)
    added = additions.added_to(config)
    blocks = 1
    try:
        limits = DeviceOccupancyLimits.from_device(device)
        kernel = KernelResources.from_resources(resources, limits)
        threads = math.prod(added.block_dim)
        blocks = occupancy(limits, kernel, threads, added.shared_bytes).active_blocks
    except ArgumentValueError:  # older than the model of occupancy, or its registers are unknown
        pass
    count = max(1, blocks) * device.limits.multiprocessor_count
    return replace(config, grid_dim=(count, 1, 1))


def _refuse_grid(
    extent: tuple[int, ...], block_dim: Dim3, grid: list[int], axis: int, device: Device
) -> NoReturn:
    raise LaunchConfigError(
        f"forall{extent} with block_dim {block_dim} needs {grid[axis]} blocks along {'xyz'[axis]}",
        value=grid[axis],
        limit=f"{device} allows {device.limits.max_grid_dim[axis]} (MAX_GRID_DIM_{'XYZ'[axis]})",
        remedy="Use a larger block, or put the longest axis of the extent first",
    )
