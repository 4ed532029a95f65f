"""Compiled code: its specialization, the artifact, and the executable on a device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from kerneldsl.contract.abi import EXPLICIT, LaunchMode, ParameterLayout
from kerneldsl.contract.element_mapping import ONE_EACH, ElementMapping
from kerneldsl.contract.findings import NO_BARRIERS, BarrierFacts
from kerneldsl.contract.options import DEFAULT_OPTIONS, CompileOptions
from kerneldsl.contract.promises import NO_PROMISES, Promises
from kerneldsl.utilities.cached_property import cached_property
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.observed import Observable, observed
from kerneldsl.utilities.shown import Shown

if TYPE_CHECKING:
    from kerneldsl.analysis.traits import KernelTraits
    from kerneldsl.analysis.work import KernelWork
    from kerneldsl.contract.abi import SlotParameters
    from kerneldsl.contract.device import Device
    from kerneldsl.contract.device_code import DeviceCode
    from kerneldsl.contract.findings import Finding
    from kerneldsl.contract.launch_counter import LaunchCounter
    from kerneldsl.contract.limits import Dim3
    from kerneldsl.contract.native import NativeEntry
    from kerneldsl.contract.passes import PassRemark
    from kerneldsl.contract.tensor_maps import TensorMap
    from kerneldsl.frontend.unit import FunctionUnit
    from kerneldsl.language.kinds import Kind

__all__ = [
    "Artifact",
    "Executable",
    "HostShare",
    "LaunchConfig",
    "Resources",
    "Specialization",
    "UnusableCodeError",
]


@dataclass(frozen=True, eq=False)
class Specialization:
    """One kernel for one combination of all that its code depends on.

    It is the key of artifacts and executables. Two are equal if the unit and the traits are the
    same objects, and all other fields are equal.

    Parameters
    ----------
    unit : FunctionUnit
        The kernel in normal form.
    traits : KernelTraits
        The results of the analysis.
    kinds : tuple of Kind
        Kinds of the arguments.
    options : CompileOptions
        From the decorator and the environment.
    mode : LaunchMode
        Explicit, or ``forall`` of some rank.
    block_dim : tuple of int or None
        The block, for a target that compiles for one (:meth:`Compiler.compiles_for_block`).
    arch : str or None
        The architecture, such as ``"sm_90"``; ``None`` for the target's default.
    ptx_version : str or None
        Version of the PTX ISA that the caller requests, such as ``"8.7"``. With ``None`` the
        target chooses. Targets without PTX ignore it.
    mapping : ElementMapping
        The mapping of indices to threads by ``forall``. It differs from the default only for
        kernels that use only ``grid``. A target **may** ignore it, and then ignores that of a
        launch, too.
    promises : Promises
        The properties of the arguments that every launch of the code has checked. A target **may**
        use them.
    code : DeviceCode or None
        The kernel's own code, for a target that takes it (:attr:`Compiler.takes_code`). The unit
        then has its parameters alone.
    """

    unit: FunctionUnit
    traits: KernelTraits
    kinds: tuple[Kind, ...]
    options: CompileOptions = DEFAULT_OPTIONS
    mode: LaunchMode = EXPLICIT
    block_dim: Dim3 | None = None
    arch: str | None = None
    ptx_version: str | None = None
    mapping: ElementMapping = ONE_EACH
    promises: Promises = NO_PROMISES
    code: DeviceCode | None = None

    @cached_property
    def _identity(self) -> tuple[object, ...]:
        others = (getattr(self, field.name) for field in fields(self)[2:])
        return (id(self.unit), id(self.traits), *others)

    @cached_property
    def _hash(self) -> int:
        return hash(self._identity)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Specialization):
            return NotImplemented
        return self is other or self._identity == other._identity

    def __hash__(self) -> int:
        return self._hash

    @property
    def layout(self) -> ParameterLayout:
        """The parameters of the compiled entry."""
        return ParameterLayout(self.unit.parameters, self.kinds, self.mode, self.options.debug)


@dataclass(frozen=True, slots=True)
class Resources(Shown):
    """Resources of a device that one compiled kernel needs.

    Parameters
    ----------
    registers : int or None
        Registers per thread; ``None`` on a target without such a limit.
    spill_bytes, local_bytes : int or None
        Bytes that a thread spills, and the size of its stack frame.
    static_shared_bytes : int
        Bytes of shared memory per block, without the dynamic memory of the launch.
    max_block_threads : int
        The largest block that can be launched.
    """

    registers: int | None
    spill_bytes: int | None
    local_bytes: int | None
    static_shared_bytes: int
    max_block_threads: int


class UnusableCodeError(Exception):
    """Cached code that this process cannot use, so that it compiles again."""


class Artifact(ABC):
    """Compiled code that is not yet on a device."""

    specialization: Specialization
    #: Name of the entry in the compiled code.
    entry_name: str
    #: Seconds spent in each step of compiling.
    timings: Mapping[str, float]
    #: Architecture that it is for, the target's choice where the caller named none; ``None`` if
    #: it is for this machine alone.
    arch: str | None = None
    #: Results of the optimizing passes of :meth:`Compiler.passes`. **May** be left empty.
    passes: tuple[PassRemark, ...] = ()
    #: Work of the kernel for one index, by which the core shares a launch among threads of the
    #: host. A target **should** set it if its devices are shared out (`Device.is_shared_out`).
    work: KernelWork | None = None
    #: Tensor maps that the kernel takes after the parameters of its arguments. They describe arrays
    #: that :meth:`Promises.array` promises to be aligned to 16 bytes.
    tensor_maps: tuple[TensorMap, ...] = ()
    #: Messages of a compiler about the source, such as warnings. **May** be left empty.
    log: str = ""
    #: Warnings about the kernel. Code that is not compiled in this process has none.
    findings: tuple[Finding, ...] = ()
    #: Facts about the kernel's barriers, after :meth:`Compiler.compile`. A launch of stored code
    #: takes them from the notes on the code.
    barriers: BarrierFacts = NO_BARRIERS

    @abstractmethod
    def text(self, form: str) -> str:
        """Return the code in one of the target's forms.

        Parameters
        ----------
        form : str
            ``"source"``, ``"llvm"``, ``"asm"``, ``"ptx"``… For an unknown form, an implementation
            **must** raise ``ValueError`` with the names of its forms.
        """

    def forms_at_hand(self) -> tuple[str, ...]:
        """Return the forms of :meth:`text` that need no compilation, for example for cards.

        **Should** be overridden. The forms **may** need a tool that is missing; :meth:`text` then
        raises `ToolMissingError`.
        """
        return ()

    def code(self, form: str) -> bytes:
        """Return the code in one of its forms, as bytes for a file.

        **May** support forms that are not text, such as machine code. The others are those of
        :meth:`text`, in UTF-8.
        """
        return self.text(form).encode()

    def code_with(self, others: Sequence[Artifact], form: str) -> bytes:
        """Return this code and that of one kernel for other architectures, as one file.

        **Must** support the forms that the target's entry lists in `together`.
        """
        raise ValueError(f"code in the form {form!r} is for one architecture")

    @property
    def static_shared_bytes(self) -> int:
        """Bytes of a block's shared memory, without the dynamic memory of a launch.

        This is the size that the program declares. An implementation **must** add the size that
        it declares itself.
        """
        return self.specialization.traits.static_shared_bytes

    @abstractmethod
    def resources(self) -> Resources:
        """Return the resources that the kernel needs.

        **May** run an assembler. Without one it **must** raise `ToolMissingError`.
        """


@dataclass(frozen=True, slots=True)
class HostShare:
    """Sharing of a launch on the CPU among threads.

    Parameters
    ----------
    threads : int
        Number of threads; 1 is the calling thread alone.
    chunk : int
        Indices that a thread takes at a time; for a block kernel, threads of blocks.
    """

    threads: int
    chunk: int

    @property
    def is_parallel(self) -> bool:
        """True if the pool of threads is woken."""
        return self.threads > 1


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """Place and shape of a launch of a compiled kernel.

    Parameters
    ----------
    grid_dim, block_dim : tuple of int
        Blocks of the grid and threads of a block, x first. Already checked against the device.
    extent : tuple of int or None
        Under ``forall`` the extent, in the user's order.
    stream : DeviceStream or int or None
        The stream. ``None`` is the default stream of the device. A number is the handle of the
        stream in which another library has made an argument.
    shared_bytes : int
        Dynamic shared memory of a block.
    cluster_dim : tuple of int or None
        Blocks of a cluster.
    is_cooperative : bool
        Whether all blocks must run at once.
    share : HostShare or None
        How the host's threads share the work, on a target that uses them. With ``None`` the target
        decides.
    """

    grid_dim: Dim3
    block_dim: Dim3
    extent: tuple[int, ...] | None = None
    stream: Any = None
    shared_bytes: int = 0
    cluster_dim: Dim3 | None = None
    is_cooperative: bool = False
    share: HostShare | None = None


class Executable(Observable, ABC):
    """Compiled code on a device, ready to be launched.

    An implementation **must** set `artifact` and `device`, and compares its objects by identity.
    The other attributes belong to the launches, which set them when the code is loaded.
    """

    artifact: Artifact
    device: Device
    #: Packs the flat values of a launch: `ParameterLayout.pack`.
    pack: Callable[..., bytes | SlotParameters]
    #: Counts the launches.
    counter: LaunchCounter
    #: Checked configurations, by :attr:`LaunchShape.key`.
    configs: dict[tuple[Any, ...], LaunchConfig]
    #: Facts about the kernel's barriers that each launch must check, if there are any.
    barriers: BarrierFacts | None = None
    #: A configuration, a stream, and the configuration with the stream in it.
    _in_stream: tuple[LaunchConfig, Any, LaunchConfig] | None = None

    def in_stream(self, config: LaunchConfig, stream: Any) -> LaunchConfig:
        """Return a configuration with a stream in it, remembered for the next launch."""
        known = self._in_stream
        if known is not None and known[0] is config and known[1] == stream:
            return known[2]
        found = replace(config, stream=stream)
        self._in_stream = (config, stream, found)
        return found

    @property
    def resources(self) -> Resources:
        """Resources of the kernel on its device; by default the artifact's."""
        return self.artifact.resources()

    @observed("run")
    @abstractmethod
    def launch(self, config: LaunchConfig, parameters: Any) -> None:
        """Start the kernel.

        Parameters
        ----------
        config : LaunchConfig
            Grid, block, stream and dynamic shared memory. Its extent is not empty.
        parameters : bytes or SlotParameters
            The result of `ParameterLayout.pack`: `SlotParameters` if `Compiler.has_slots`, else
            bytes. They do not contain the pointer to the fault record. In debug mode, the
            implementation **must** add it.

        **May** return before the kernel has finished. In debug mode **must** wait, and raise the
        `KernelFault` that the kernel recorded.
        """

    def native_entry(self, config: LaunchConfig) -> NativeEntry | None:
        """Describe how native code starts the kernel in this configuration.

        It is called after :meth:`launch` has accepted the configuration, never in debug mode. The
        stream is the device's default stream. **May** return ``None``: then every launch calls
        :meth:`launch`.
        """
        return None
