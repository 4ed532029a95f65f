"""The CPU as a target: parallel, vectorized, with real barriers."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kerneldsl.analysis.traits import KernelTraits
from kerneldsl.contract import (
    Artifact,
    Compiler,
    Device,
    DeviceLimits,
    Dim3,
    Executable,
    LaunchConfig,
    MemoryType,
    Specialization,
    Target,
)
from kerneldsl.errors import ResourceLimitError
from kerneldsl.utilities.address_space import require_addresses
from kerneldsl.utilities.formatting import format_bytes
from kerneldsl.utilities.locks import OnceTable
from targets.cpu.codegen.levels import LEVELS, supported_levels

if TYPE_CHECKING:
    from kerneldsl.contract import Check, DeviceInfo, PoolBackend
    from kerneldsl.contract.findings import BarrierProblem
    from kerneldsl.frontend.typed_unit import TypedUnit
    from kerneldsl.frontend.unit import FunctionUnit
    from kerneldsl.language.kinds import Kind
    from targets.cpu.intrinsics.table import Lowering
    from targets.cpu.runtime.artifact import CpuArtifact

__all__ = ["CpuTarget"]

#: The architecture of devices: this machine's.
_ARCH = "native"
#: Blocks of ``forall``, chosen only so that ``blockDim`` has a value; elements are merged.
_DEFAULT_BLOCKS: dict[int, Dim3] = {1: (256, 1, 1), 2: (32, 8, 1), 3: (32, 4, 2)}


class CpuCompiler(Compiler):
    """Compiles kernels by the region IR, for this machine or for a level of processors."""

    name = "cpu"
    usual_architectures = tuple(LEVELS)

    def compiles_for(self, arch: str) -> bool:
        """Return whether it is this machine's own, or a level of processors."""
        return arch == _ARCH or arch in LEVELS

    def compiles_for_block(self, traits: KernelTraits) -> bool:
        """Return whether loops over the block's threads are part of the code."""
        return not traits.uses_grid_only

    def forall_config(
        self, executable: Executable, extent: tuple[int, ...], block_dim: Dim3 | None
    ) -> LaunchConfig:
        """Cover the extent with blocks along its axes, the first along x."""
        block = executable.artifact.specialization.block_dim or block_dim
        block = block or _DEFAULT_BLOCKS[len(extent)]
        padded = (*extent, 1, 1)[:3]
        grid = tuple(-(-n // b) for n, b in zip(padded, block, strict=True))
        return LaunchConfig((grid[0], grid[1], grid[2]), block, extent)

    def check_barriers(self, problems: Sequence[BarrierProblem]) -> None:
        """Raise for the first one."""
        if problems:
            from targets.cpu.runtime.faults import refuse_divergent_barriers

            refuse_divergent_barriers(problems)

    def compile(self, specialization: Specialization) -> CpuArtifact:
        """Check the kernel, and compile it by the region IR."""
        unit = specialization.unit
        require_addresses(f"compiling {unit.qualname}", where=unit.place)
        # Numba is imported here first: threads that begin with other parts of it can deadlock.
        import kerneldsl.lowering.numba_internals.compiling  # noqa: F401
        from targets.cpu.regions.compile import compile_kernel

        if not all(use.intrinsic.is_index for use in unit.all_uses()):
            from kerneldsl.lowering.missing import refuse_missing

            refuse_missing(unit, "cpu", _lowerings, "targets/cpu/intrinsics/table.py")
        refuse_too_much_shared(specialization)
        return compile_kernel(_with_block(specialization))

    def typed_unit(self, unit: FunctionUnit, kinds: tuple[Kind, ...]) -> TypedUnit:
        """Read the kernel with Numba's types for this machine's processor."""
        require_addresses(f"typing {unit.qualname}", where=unit.place)
        from targets.cpu.regions.compile import typed_unit

        return typed_unit(unit, kinds)

    def typed_regions(self, unit: FunctionUnit, kinds: tuple[Kind, ...], made_by: Any) -> Any:
        require_addresses(f"typing {unit.qualname}", where=unit.place)
        from targets.cpu.regions.compile import typed_regions

        return typed_regions(unit, kinds, made_by)

    def remarks(self, specialization: Specialization) -> tuple[str, ...]:
        """Name the local arrays that keep threads from being lanes."""
        from targets.cpu.regions.read import remarks_on_arrays

        return () if specialization.options.debug else remarks_on_arrays(specialization)

    def code_identity(self, specialization: Specialization) -> Mapping[str, str] | None:
        """Return the processor; ``None`` where object code of another process is not loaded."""
        from targets.cpu.runtime.objects import IS_SUPPORTED, host_identity

        return host_identity() if IS_SUPPORTED and specialization.arch == _ARCH else None

    def dump(self, artifact: Artifact) -> Mapping[str, bytes] | None:
        """Return object code and metadata."""
        from targets.cpu.runtime.artifact import CpuArtifact
        from targets.cpu.runtime.stored import dump

        return dump(artifact) if isinstance(artifact, CpuArtifact) else None

    def shipped_architectures(self, arch: str | None) -> tuple[str, ...]:
        """Return the levels of processors that this machine's processor has, the best first."""
        from targets.cpu.runtime.objects import IS_SUPPORTED

        if arch != _ARCH:
            return () if arch is None else (arch,)
        return supported_levels() if IS_SUPPORTED else ()

    def ship(self, artifact: Artifact) -> Mapping[str, bytes] | None:
        """Return object code for a level, and what it takes to call it."""
        from targets.cpu.runtime.artifact import CpuArtifact
        from targets.cpu.runtime.stored import ship

        return ship(artifact) if isinstance(artifact, CpuArtifact) else None

    def expect_code(self) -> None:
        """Import what links object code, and what shares a launch; and make a linker."""
        import targets.cpu.runtime.stored
        import targets.cpu.runtime.threads  # noqa: F401 -- for the launch
        from targets.cpu.runtime.objects import IS_SUPPORTED, make_linker

        if IS_SUPPORTED:
            make_linker()

    def restore(self, specialization: Specialization, sections: Mapping[str, bytes]) -> Artifact:
        """Link object code into this process."""
        from targets.cpu.runtime.stored import restore

        specialization = _with_block(specialization)
        return restore(specialization, sections, lambda: self.compile(specialization))


class CpuDevice(Device):
    """The processors of this machine."""

    is_host = is_shared_out = shares_host_memory = is_synchronous = True
    memory_type = MemoryType.CPU
    compiler = CpuCompiler()

    def describe(self) -> DeviceInfo:
        """Model, cores, vector extensions in use, caches and memory."""
        from targets.cpu.runtime.processors import describe_cpu

        return describe_cpu(self)

    def load(self, artifact: Artifact) -> Executable:
        """Do nothing: the code is in this process already."""
        from targets.cpu.runtime.artifact import CpuArtifact, CpuExecutable

        assert isinstance(artifact, CpuArtifact)
        return CpuExecutable(artifact, self)

    def thread_count(self) -> int:
        """Count the threads; their pool is made later, of code that a cached kernel brings."""
        from targets.cpu.runtime.threads import thread_count

        return thread_count()

    def thread_pool(self) -> tuple[int, float] | None:
        """Return the threads that share a launch, and the cost of waking them."""
        from targets.cpu.runtime.threads import threading_layer, wake_ns

        layer = threading_layer()
        return layer.thread_count, wake_ns(layer)

    def synchronize(self) -> None:
        """Do nothing: a launch returns when it has finished."""

    def create_pool(self) -> PoolBackend:
        """Make a pool of host memory."""
        from targets.cpu.runtime.host_pool import HostPool

        return HostPool(self)

    def memory_info(self) -> tuple[int, int]:
        """Return the bytes of the machine's memory that are available, and in all."""
        from targets.cpu.runtime.processors import memory_info

        return memory_info()

    def copy_from_host(
        self,
        destination: int,
        source: int,
        nbytes: int,
        stream: Any = None,
        *,
        blocking: bool = True,
    ) -> None:
        """Copy memory, also where the two overlap."""
        ctypes.memmove(destination, source, nbytes)

    copy_to_host = copy_from_host
    copy_on_device = copy_from_host

    def fill(self, destination: int, pattern: bytes, count: int, stream: Any = None) -> None:
        """Set memory to repetitions of a pattern."""
        from targets.cpu.runtime.host_pool import fill

        fill(destination, pattern, count)


class CpuTarget(Target):
    """Runs kernels on the processors of this machine."""

    name = "cpu"
    compiler = CpuDevice.compiler

    def unavailable_reason(self) -> str | None:
        """Return ``None``: there is a CPU."""
        return None

    def devices(self) -> tuple[Device, ...]:
        """Return the machine's processors, as one device."""
        return (_device(),)

    def checks(self) -> Iterable[Check]:
        """Return what ``kd.preflight()`` looks at; see :mod:`targets.cpu.runtime.host_pool`."""
        from targets.cpu.runtime.host_pool import check_cpu

        return check_cpu()


def _lowerings() -> Mapping[str, Lowering]:
    from targets.cpu.intrinsics.table import LOWERINGS

    return LOWERINGS


def _with_block(specialization: Specialization) -> Specialization:
    """Return the specialization with a block chosen here, if it needs one and has none."""
    traits = specialization.traits
    if specialization.block_dim is not None or traits.uses_grid_only:
        return specialization
    rank = specialization.mode.forall_ndim or max(traits.grid_ndims, default=1)
    return replace(specialization, block_dim=_DEFAULT_BLOCKS[rank])


def refuse_too_much_shared(specialization: Specialization) -> None:
    """Raise for more declared shared memory than a launch would grant."""
    nbytes = specialization.traits.static_shared_bytes
    most = _device().limits.max_shared_memory_per_block
    if nbytes > most:
        raise ResourceLimitError(
            f"{specialization.unit.qualname} declares {format_bytes(nbytes)} of shared memory",
            where=specialization.unit.locate(specialization.unit.tree),
            value=nbytes,
            limit=f"A block on the CPU can have {format_bytes(most)} of it",
            remedy="Use smaller shared arrays",
        )


#: The single device: two device objects would not compare as one.
_devices: OnceTable[str, CpuDevice] = OnceTable()


def _device() -> CpuDevice:
    return _devices.get_or_make("cpu", _make_device)


def _make_device() -> CpuDevice:
    from targets.cpu.runtime.processors import cpu_model, runnable_threads

    limits = DeviceLimits(
        max_threads_per_block=1024,
        max_block_dim=(1024, 1024, 64),
        max_grid_dim=(2**31 - 1, 2**31 - 1, 2**31 - 1),
        max_shared_memory_per_block=1024 * 1024,
        warp_size=32,
        multiprocessor_count=runnable_threads().threads,
    )
    return CpuDevice("cpu", 0, cpu_model(), _ARCH, limits, kind="cpu")
