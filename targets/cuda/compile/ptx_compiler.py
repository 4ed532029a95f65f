"""The compiler of all targets with PTX code: compile, store code, map an extent onto blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kerneldsl.contract import Compiler, PassInfo
from kerneldsl.utilities.address_space import require_addresses
from targets.cuda.architectures import ARCHITECTURES, DEFAULT_ARCH, older_architectures
from targets.cuda.compile.lowered import DEFAULT_TILE_BLOCK

if TYPE_CHECKING:
    from kerneldsl.analysis.traits import KernelTraits
    from kerneldsl.analysis.work import KernelWork
    from kerneldsl.contract import Artifact, Device, Dim3, Executable, LaunchConfig, Specialization
    from kerneldsl.contract.findings import BarrierProblem
    from kerneldsl.frontend.typed_unit import TypedUnit
    from kerneldsl.frontend.unit import FunctionUnit
    from kerneldsl.language.kinds import Kind
    from targets.cuda.compile.artifact import CudaArtifact

__all__ = ["PtxCompiler", "require_ptx"]


class PtxCompiler(Compiler):
    """Makes PTX."""

    maps_elements = True
    usual_architectures = ("sm_80", "sm_90", "sm_120")
    takes_code = True
    #: Family of the CUDA target: the compiler is the same, and its code serves a real device.
    code_family = "cuda"

    def __init__(self, name: str) -> None:
        self.name = name

    def compiles_for_block(self, traits: KernelTraits) -> bool:
        """Return whether each thread's elements of tiles are fixed at compile time."""
        return traits.uses_tiles

    def launch_arch(self, traits: KernelTraits, arch: str) -> str:
        """Return the architecture with all instructions of a device, if a kernel may use them.

        Products of tiles have ``wgmma``, and linked code may have any of them.
        """
        own = f"{arch}a"
        is_used = traits.joins_code or (traits.uses_products and arch == "sm_90")
        return own if is_used and own in ARCHITECTURES else arch

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
        from targets.cuda.compile.regions.read import typed_unit

        return typed_unit(unit, kinds)

    def typed_regions(self, unit: FunctionUnit, kinds: tuple[Kind, ...], made_by: Any) -> Any:
        require_addresses(f"typing {unit.qualname}", where=unit.place)
        from targets.cuda.compile.regions.read import typed_regions

        return typed_regions(unit, kinds, made_by)

    def work(
        self, unit: FunctionUnit, kinds: tuple[Kind, ...], block_dim: Dim3 | None
    ) -> KernelWork | None:
        """Count the IR of the kernel, which is then compiled."""
        # Numba is imported here first: threads that begin with other parts of it can deadlock.
        import kerneldsl.lowering.numba_internals.compiling  # noqa: F401
        from targets.cuda.compile.regions.read import count_kernel

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
        from targets.cuda.compile.mapping import map_extent

        artifact = executable.artifact
        specialization = artifact.specialization
        if specialization.traits.uses_tiles:
            block_dim = specialization.block_dim or DEFAULT_TILE_BLOCK
        if specialization.traits.loops_over_tiles:
            from targets.cuda.compile.artifact import CudaArtifact
            from targets.cuda.compile.mapping import fill_device

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
