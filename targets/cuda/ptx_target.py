"""What every target does alike whose code is PTX: compile, keep code, map an extent onto blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kerneldsl.target import Target
from targets.cuda.architectures import DEFAULT_ARCH

if TYPE_CHECKING:
    from kerneldsl.target import Artifact, Dim3, Executable, LaunchConfig, Specialization
    from targets.cuda.artifact import CudaArtifact

__all__ = ["PtxTarget"]


class PtxTarget(Target):
    """A target whose kernels become PTX; it has devices and memory of its own kind."""

    maps_elements = True

    def _arch(self, specialization: Specialization) -> str:
        """What to compile for: as asked, else as the first device is."""
        if specialization.arch is not None:
            return specialization.arch
        devices = self.devices()
        return devices[0].arch if devices else DEFAULT_ARCH

    def compile(self, specialization: Specialization) -> Artifact:
        from targets.cuda.compiler import compile_kernel

        return compile_kernel(specialization, arch=self._arch(specialization))

    @property
    def code_family(self) -> str:
        """CUDA's for all: it is the same compiler, and what it made serves a real device."""
        return "cuda"

    def code_identity(self, specialization: Specialization) -> Mapping[str, str] | None:
        from targets.cuda.stored import code_identity

        return code_identity(specialization, self._arch(specialization))

    def dump(self, artifact: Artifact) -> Mapping[str, bytes] | None:
        from targets.cuda.artifact import CudaArtifact
        from targets.cuda.stored import dump

        return dump(artifact) if isinstance(artifact, CudaArtifact) else None

    def restore(self, specialization: Specialization, sections: Mapping[str, bytes]) -> Artifact:
        from targets.cuda.stored import restore

        return restore(specialization, sections, self._arch(specialization))

    def _loadable(self, artifact: Artifact) -> CudaArtifact:
        """The artifact, if it is of this family; raises `TypeError` for another target's."""
        from targets.cuda.artifact import CudaArtifact

        if not isinstance(artifact, CudaArtifact):
            raise TypeError(
                f"the {self.name} target loads a CudaArtifact, found {type(artifact).__name__}"
            )
        return artifact

    def forall_config(
        self, executable: Executable, extent: tuple[int, ...], block_dim: Dim3 | None
    ) -> LaunchConfig:
        from targets.cuda.mapping import map_extent

        specialization = executable.artifact.specialization
        return map_extent(
            specialization.traits,
            executable.device,
            extent,
            block_dim,
            max_block_threads=executable.resources.max_block_threads,
            mapping=specialization.mapping,
        )
