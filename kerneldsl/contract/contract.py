"""The contract that a target fulfils.

A *target* turns kernels into code for one family of devices and runs them there: it is a
:class:`Compiler` and some devices. The core knows targets by this contract alone; `targets/null`
fulfils it without hardware. Each method's docstring says what an implementation **must**,
**should** or **may** do.

Compiling and running are separate. :meth:`Compiler.compile` needs no device and returns an
:class:`Artifact` that can be inspected. :meth:`Device.load` loads it on a device as an
:class:`Executable` that can be launched.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kerneldsl.errors import ArgumentValueError
from kerneldsl.errors.kernels import wrong_value
from kerneldsl.utilities.observed import Observable, observed

if TYPE_CHECKING:
    from kerneldsl.analysis.traits import KernelTraits
    from kerneldsl.analysis.work import KernelWork
    from kerneldsl.contract.checks import Check
    from kerneldsl.contract.code import Artifact, Executable, LaunchConfig, Specialization
    from kerneldsl.contract.device import Device
    from kerneldsl.contract.findings import BarrierProblem
    from kerneldsl.contract.limits import Dim3
    from kerneldsl.contract.passes import PassInfo
    from kerneldsl.frontend.typed_unit import TypedUnit
    from kerneldsl.frontend.unit import FunctionUnit
    from kerneldsl.language.kinds import Kind

__all__ = ["Compiler", "Target"]


class Compiler(Observable, ABC):
    """Makes the code of a target's kernels."""

    #: The target's name.
    name: str
    #: Whether compiled code maps the indices of ``forall`` by `Specialization.mapping`. Then the
    #: core plans block and mapping, else :meth:`forall_config` decides.
    maps_elements: bool = False
    #: Architectures that packages usually ship code for. **May** be overridden.
    usual_architectures: tuple[str, ...] = ()
    #: Whether arrays are passed as buffers in numbered slots and offsets, not as addresses. Memory
    #: is then at a `BufferOffset`, and the code's `ParameterLayout` has slots.
    has_slots: bool = False
    #: Whether :meth:`compile` takes the code of a specialization (`Specialization.code`): CUDA C++,
    #: PTX and cubins.
    takes_code: bool = False

    def compiles_for(self, arch: str) -> bool:
        """Return whether an architecture is one of this compiler's.

        **Must** be overridden where :meth:`compile` does not read the architecture; the default
        leaves it to :meth:`compile` to refuse one.
        """
        return True

    def compiles_for_block(self, traits: KernelTraits) -> bool:
        """Return whether the code depends on the shape of the block. **May** be overridden."""
        return False

    def launch_arch(self, traits: KernelTraits, arch: str) -> str:
        """Return the architecture that a kernel is compiled for, to run on a device of one.

        **May** be overridden, if a device runs code of several architectures, and one of them
        alone has instructions that the kernel needs.
        """
        return arch

    @abstractmethod
    def forall_config(
        self, executable: Executable, extent: tuple[int, ...], block_dim: Dim3 | None
    ) -> LaunchConfig:
        """Choose grid and block so that every index of the extent is covered.

        For ``forall`` of an element kernel that uses only ``grid``, an implementation **may** map
        any axis of the extent to x. Its compiled prologue then reverses the mapping. Otherwise the
        first axis of the extent **must** be x.
        """

    @observed("compilation")
    @abstractmethod
    def compile(self, specialization: Specialization) -> Artifact:
        """Compile without a device.

        **Must** raise `KernelTypingError` with the kernel's line for a typing error, and
        `BarrierDivergenceError` for a barrier that it cannot accept. **Must not** end the process
        for any input.
        """

    def check_barriers(self, problems: Sequence[BarrierProblem]) -> None:
        """Refuse or warn of barriers that not every thread of a block may reach.

        **Should** be overridden. It is called with what :attr:`Artifact.barriers` has, for code
        that was stored, and for launches with arguments that overlap in memory. :meth:`compile`
        **must** do the same.

        Raises
        ------
        BarrierDivergenceError
            For a barrier that the target cannot accept.
        """

    def typed_unit(self, unit: FunctionUnit, kinds: tuple[Kind, ...]) -> TypedUnit:
        """Infer the types of a kernel in normal form, for arguments of some kinds.

        **May** be overridden, and **must** then give what ``docs/normal-form.md`` says, by the
        rules that the target compiles by, without a device. **Must** raise `KernelTypingError` as
        :meth:`compile` does.

        Raises
        ------
        ArgumentValueError
            The target infers no types, which the default says.
        """
        raise self._infers_nothing()

    def typed_regions(self, unit: FunctionUnit, kinds: tuple[Kind, ...], made_by: Any) -> Any:
        """Read a kernel as typed regions (`kerneldsl.ir`), before any pass.

        **May** be overridden, under the conditions of :meth:`typed_unit`. `made_by` is the class of
        the reader.

        Raises
        ------
        ArgumentValueError
            The target infers no types, which the default says.
        """
        raise self._infers_nothing()

    def _infers_nothing(self) -> ArgumentValueError:
        return ArgumentValueError(
            f"target is {self.name!r}",
            value=self.name,
            limit="This target infers no types of a kernel's values",
        )

    def work(
        self, unit: FunctionUnit, kinds: tuple[Kind, ...], block_dim: Dim3 | None
    ) -> KernelWork | None:
        """Count what a kernel does for one index, so that the core can plan its launches.

        A target that :attr:`maps_elements`, or that has kernels with a space, **should** override
        it. The core stores the result beside the code. `block_dim` is the block of all launches,
        if it is known. **Must** return ``None``, the default, for a kernel that it cannot read:
        :meth:`compile` then raises the error.
        """
        return None

    def passes(self) -> tuple[PassInfo, ...]:
        """Return the optimizing passes that `CompileOptions.disabled_passes` may name, in order.

        **May** be overridden. :meth:`compile` **must** then run all of them but those, and results
        **must not** depend on it.
        """
        return ()

    def remarks(self, specialization: Specialization) -> tuple[str, ...]:
        """Say what in a kernel keeps its code from being faster, a sentence or two each.

        **May** be overridden; plans show them as notes. **Must not** compile.
        """
        return ()

    # The following members let the core cache compiled code on disk; without them nothing is
    # cached.

    @property
    def code_family(self) -> str:
        """The name under which code is kept; targets that make the same code **may** share one."""
        return self.name

    def code_identity(self, specialization: Specialization) -> Mapping[str, str] | None:
        """Say what the code depends on beside the specialization and the common toolchain.

        Returns
        -------
        mapping or None
            Name to value, such as the processor's features or a library's digest. It is part of the
            key, so it **must** be equal on all machines that can use the code. With ``None``, the
            default, the code is not cached. **Must not** import a compiler.
        """
        return None

    def dump(self, artifact: Artifact) -> Mapping[str, bytes] | None:
        """Write an artifact of :meth:`compile` as bytes, in named sections.

        **Must** hold everything that :meth:`restore` needs beside the specialization. **May**
        return ``None`` for code that works in this process alone, and **must** where an address of
        this process is part of it.
        """
        return None

    def shipped_architectures(self, arch: str | None) -> tuple[str, ...]:
        """Return the architectures with shipped code that serves a device of this one, best first.

        **May** be overridden; by default there is none, and code is not shipped. An architecture
        **must** be one that :meth:`compile` knows, and code for it **must** run on the device
        whatever the versions of Python and NumPy are.
        """
        return ()

    def ship(self, artifact: Artifact) -> Mapping[str, bytes] | None:
        """Write an artifact for an architecture of :meth:`shipped_architectures`, to be shipped.

        As :meth:`dump`, and :meth:`restore` **must** read it, for any architecture that the code
        serves. The sections **must not** contain a time, a path or anything else that differs
        between two builds. The section ``metadata`` **must** be a JSON object.
        """
        return None

    def expect_code(self) -> None:
        """Import what :meth:`restore` needs, while another process compiles the code.

        **May** be overridden. **Must not** compile, and **must not** raise for what is missing.
        """

    @observed("cache hit")
    def restore(self, specialization: Specialization, sections: Mapping[str, bytes]) -> Artifact:
        """Make an artifact of what :meth:`dump` wrote, in another process or on another machine.

        The sections are unchanged, and belong to this specialization and :meth:`code_identity`.
        **Must** raise and warn as :meth:`compile` does, if that needs no compiler. **Must** raise
        `UnusableCodeError` if the process cannot use the sections. **Must not** end the process for
        any sections. **Should not** import a compiler.
        """
        raise NotImplementedError


class Target(ABC):
    """A family of devices and the compiler for them."""

    #: The name that ``kd.use`` and ``KERNELDSL_TARGET`` take.
    name: str
    #: Compiler of the target's code.
    compiler: Compiler

    @abstractmethod
    def unavailable_reason(self) -> str | None:
        """Say why no device can be used, or ``None``.

        **Must not** raise, and **should** say what to do about it.
        """

    @abstractmethod
    def devices(self) -> tuple[Device, ...]:
        """Return the devices, in the driver's order; empty if none of them can be used.

        **Must not** raise, **must** return the same objects as long as they are the same devices,
        and **should** be cheap: starting and launching need it.
        """

    def described(self, arch: str) -> Device:
        """Return a device of an architecture that need not be here, to plan for.

        **May** be overridden, with one object for each architecture.

        Raises
        ------
        ArgumentValueError
            Not enough is known of the architecture, which the default says of all.
        """
        raise wrong_value(
            "arch", arch, f"The target {self.name!r} cannot describe devices that are not present"
        )

    def device_of_pointer(self, pointer: int) -> Device:
        """Return the device that an address belongs to.

        **Should** be overridden if there can be several devices; the default is the first.
        """
        return self.devices()[0]

    def checks(self) -> Iterable[Check]:
        """Look at what the target needs on this machine, for ``kd.preflight()``.

        **May** be overridden. **Must not** raise where something is missing: that is a finding,
        with a remedy. Names **must** begin with the target's name and a dot.
        """
        return ()
