"""The contract that a target fulfils.

A *target* turns kernels into code for one family of devices and runs them there. The core knows
targets by this contract alone; `targets/null` fulfils it without hardware. Each method's docstring
says what an implementation **must**, **should** or **may** do.

Compiling and running are apart: :meth:`Target.compile` needs no device and gives an
:class:`Artifact` that can be looked at; :meth:`Target.load` puts it on a device as an
:class:`Executable` that can be launched.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kerneldsl.abi import EXPLICIT, LaunchMode, ParameterLayout
from kerneldsl.analysis.traits import KernelTraits
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import Kind

__all__ = [
    "Artifact",
    "Buffer",
    "CompileOptions",
    "Device",
    "DeviceLimits",
    "Dim3",
    "Executable",
    "LaunchConfig",
    "Resources",
    "Specialization",
    "Target",
]

#: Extents along x, y and z.
Dim3: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """What ``@kd.kernel(...)`` can ask of the compiler.

    Parameters
    ----------
    fastmath : bool
        Allow every floating-point transformation LLVM knows, and approximate functions.
    contract : bool
        Allow a multiply and an add to become one fused operation, as nvcc does by default.
    debug : bool
        Check indices, and let ``assert`` and ``raise`` act.
    lineinfo : bool
        Put source lines into the compiled code, for profilers.
    wraparound : bool
        Negative indices count from the end, as in Python; False promises there are none.
    max_registers : int or None
        Registers a thread may use.
    launch_bounds : tuple of int or None
        Largest number of threads of a block, and optionally the smallest number of blocks that
        should fit on a multiprocessor.
    """

    fastmath: bool = False
    contract: bool = True
    debug: bool = False
    lineinfo: bool = False
    wraparound: bool = True
    max_registers: int | None = None
    launch_bounds: tuple[int] | tuple[int, int] | None = None


@dataclass(frozen=True)
class Specialization:
    """One kernel for one combination of everything its code depends on.

    Parameters
    ----------
    unit : FunctionUnit
        The kernel in normal form.
    traits : KernelTraits
        What the analysis found.
    kinds : tuple of Kind
        Kinds of the arguments.
    options : CompileOptions
        From the decorator and the environment.
    mode : LaunchMode
        Explicit, or ``forall`` of some rank.
    block_dim : tuple of int or None
        The block, for a target that compiles for one (:meth:`Target.compiles_for_block`).
    arch : str or None
        The architecture, such as ``"sm_90"``; ``None`` for the target's default.
    ptx_version : str or None
        Version of the PTX ISA that the caller asks for, such as ``"8.7"``; ``None`` lets the
        target choose. Targets without PTX do not look at it.
    """

    unit: FunctionUnit
    traits: KernelTraits
    kinds: tuple[Kind, ...]
    options: CompileOptions = CompileOptions()
    mode: LaunchMode = EXPLICIT
    block_dim: Dim3 | None = None
    arch: str | None = None
    ptx_version: str | None = None

    @property
    def layout(self) -> ParameterLayout:
        """The parameters of the compiled entry."""
        return ParameterLayout(self.unit.parameters, self.kinds, self.mode, self.options.debug)


@dataclass(frozen=True, slots=True)
class Resources:
    """What one compiled kernel takes of a device.

    Parameters
    ----------
    registers : int or None
        Registers a thread; ``None`` on a target that has no such limit.
    spill_bytes, local_bytes : int or None
        Bytes a thread spills, and its whole stack frame.
    static_shared_bytes : int
        Bytes of shared memory a block, beside what the launch adds.
    max_block_threads : int
        The largest block that can be launched.
    """

    registers: int | None
    spill_bytes: int | None
    local_bytes: int | None
    static_shared_bytes: int
    max_block_threads: int


class Artifact(ABC):
    """Compiled code that is not yet on a device."""

    specialization: Specialization
    #: Name of the entry in the compiled code.
    entry_name: str
    #: Seconds spent in each step of compiling.
    timings: Mapping[str, float]

    @abstractmethod
    def text(self, form: str) -> str:
        """Return the code in one of the target's forms.

        Parameters
        ----------
        form : str
            ``"source"``, ``"llvm"``, ``"asm"``, ``"ptx"``… An implementation **must** raise
            ``ValueError`` naming the forms it has when asked for another.
        """

    @abstractmethod
    def resources(self) -> Resources:
        """Return what the kernel takes.

        **May** run an assembler; **must** raise `ToolMissingError` where it has none.
        """


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """Limits of a device that a launch is checked against, with the driver's names for them."""

    max_threads_per_block: int
    max_block_dim: Dim3
    max_grid_dim: Dim3
    max_shared_memory_per_block: int
    """Bytes of static and dynamic shared memory a block may have together, opt-in included."""
    warp_size: int
    multiprocessor_count: int


@dataclass(frozen=True)
class Device:
    """One device of a target.

    Parameters
    ----------
    target : str
        Name of the target.
    index : int
        Its number there.
    name : str
        What it is called.
    arch : str
        Architecture that :meth:`Target.compile` takes, such as ``"sm_90"`` or ``"native"``.
    limits : DeviceLimits
        What a launch is checked against.
    """

    target: str
    index: int
    name: str
    arch: str
    limits: DeviceLimits
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __str__(self) -> str:
        return self.target if self.target == "cpu" else f"{self.target}:{self.index}"


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """Where and in which shape a compiled kernel is launched.

    Parameters
    ----------
    grid_dim, block_dim : tuple of int
        Blocks of the grid and threads of a block, x first. Already checked against the device.
    extent : tuple of int or None
        Under ``forall`` the extent, in the user's order.
    stream : object
        The target's stream; ``None`` is its default.
    shared_bytes : int
        Dynamic shared memory of a block.
    """

    grid_dim: Dim3
    block_dim: Dim3
    extent: tuple[int, ...] | None = None
    stream: Any = None
    shared_bytes: int = 0


class Executable(ABC):
    """Compiled code on a device, ready to be launched."""

    artifact: Artifact
    device: Device

    @abstractmethod
    def launch(self, config: LaunchConfig, parameters: bytes) -> None:
        """Start the kernel.

        Parameters
        ----------
        config : LaunchConfig
            Grid, block, stream and dynamic shared memory. A launch with an empty extent never
            gets here.
        parameters : bytes
            Packed as the layout says, without the pointer to the fault record, which the
            implementation **must** add in debug mode.

        **May** return before the kernel has finished. In debug mode **must** wait, and raise the
        `KernelFault` that the kernel recorded.
        """


class Buffer(ABC):
    """Memory of a device, freed when the object goes."""

    device: Device
    #: Address on the device.
    pointer: int
    nbytes: int


class Target(ABC):
    """A family of devices and the compiler for them."""

    #: The name that ``kd.use`` and ``KERNELDSL_TARGET`` take.
    name: str
    #: Whether kernels read and write NumPy arrays where they are.
    is_host: bool = False

    @abstractmethod
    def unavailable_reason(self) -> str | None:
        """Say why no device can be used, or ``None``.

        **Must not** raise, and **should** say what to do about it.
        """

    @abstractmethod
    def devices(self) -> tuple[Device, ...]:
        """Return the usable devices, in the driver's order; empty where there are none."""

    def compiles_for_block(self, traits: KernelTraits) -> bool:
        """Whether the code depends on the shape of the block. **May** be overridden."""
        return False

    @abstractmethod
    def forall_config(
        self, executable: Executable, extent: tuple[int, ...], block_dim: Dim3 | None
    ) -> LaunchConfig:
        """Choose grid and block so that every index of the extent is covered.

        Under ``forall`` of an element kernel that uses ``grid`` alone, an implementation **may**
        map any axis of the extent to x; its own compiled prologue undoes the mapping. Otherwise
        the first axis of the extent **must** be x.
        """

    @abstractmethod
    def compile(self, specialization: Specialization) -> Artifact:
        """Compile without a device.

        **Must** raise `KernelTypingError` with the kernel's line for a typing error,
        `BarrierDivergenceError` for a barrier it cannot accept, and **must not** end the process
        for any input.
        """

    @abstractmethod
    def load(self, artifact: Artifact, device: Device) -> Executable:
        """Put compiled code on a device."""

    @abstractmethod
    def allocate(self, device: Device, nbytes: int, stream: Any = None) -> Buffer:
        """Allocate memory, at least 256-byte aligned; ``nbytes`` may be 0."""

    @abstractmethod
    def copy_from_host(
        self, device: Device, destination: int, source: int, nbytes: int, stream: Any = None
    ) -> None:
        """Copy host memory to a device address; **must** be complete in the stream's order."""

    @abstractmethod
    def copy_to_host(
        self, device: Device, destination: int, source: int, nbytes: int, stream: Any = None
    ) -> None:
        """Copy device memory to a host address; **must** be complete on return."""

    @abstractmethod
    def copy_on_device(
        self, device: Device, destination: int, source: int, nbytes: int, stream: Any = None
    ) -> None:
        """Copy within a device, in the stream's order."""

    @abstractmethod
    def synchronize(self, device: Device) -> None:
        """Wait until everything started on the device has finished."""

    def wait_stream(self, device: Device, stream: Any, earlier: Any) -> None:
        """Let what is put into ``stream`` from now on wait for what is in ``earlier`` now.

        An implementation **should** order the two without holding up the host; the default waits
        for the whole device.
        """
        self.synchronize(device)

    def device_of_pointer(self, pointer: int) -> Device:
        """Return the device that an address belongs to.

        **Should** be overridden where there can be more than one device; the default is the first.
        """
        return self.devices()[0]
