"""A launch that failed on a device, run on the CPU instead: what becomes of its arguments.

Arguments in host memory are taken as they are, as long as nothing has been copied back over them.
Arrays on the device are copied to the host, as one if they overlap, and what was written is
copied back. So the device must be alive, and the kernel must not have begun there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from kerneldsl.analysis.traits import KernelTraits
from kerneldsl.contract import Device
from kerneldsl.contract.abi import ArrayParameters
from kerneldsl.contract.locations import alignment_number
from kerneldsl.errors import (
    BarrierDivergenceError,
    CompileError,
    DriverError,
    KernelError,
    KernelTypingError,
    LaunchConfigError,
    TargetUnavailableError,
    UnsupportedConstructError,
)
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.element_types import numpy_dtype
from kerneldsl.language.kinds import ArrayKind, Kind, TupleKind
from kerneldsl.launch.arguments.arguments import Progress
from kerneldsl.launch.arguments.binding import Binding, PassedArray, kinds_of
from kerneldsl.memory.geometry import ArrayGeometry
from kerneldsl.memory.pools import device_memories
from kerneldsl.memory.strided import host_view, overlapping
from kerneldsl.memory.transfer import write_array
from kerneldsl.placement.fallback import announce, fallback_policy, may_recover, reason_of
from kerneldsl.statistics.collect import note_copy, note_fallback
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.environment import logger

__all__ = ["FailedLaunch"]

#: Errors that the CPU target may raise before anything has run.
_REFUSALS = (
    BarrierDivergenceError,
    CompileError,
    KernelTypingError,
    LaunchConfigError,
    TargetUnavailableError,
    UnsupportedConstructError,
)
_ALIGNMENT = 256
#: Copies in host memory of arrays on the device.
_Mirrors: TypeAlias = dict[ArrayParameters, np.ndarray[Any, Any]]


@dataclass(frozen=True, slots=True)
class FailedLaunch:
    """A launch that failed on a device."""

    #: The kernel.
    unit: FunctionUnit
    traits: KernelTraits
    #: The device on which it failed.
    device: Device
    #: The stream of the launch.
    stream: Any
    #: The arguments.
    args: tuple[Any, ...]
    #: Values and kinds read from the arguments.
    binding: Binding
    #: Progress of the launch before it failed.
    progress: Progress
    #: The error that the launch raised.
    error: KernelError

    def run_on_host(
        self,
        launch: Callable[[tuple[Any, ...]], None],
        announced: set[tuple[str, str]],
    ) -> bool:
        """Run the kernel on the CPU, if that is allowed and safe.

        - `launch`: launches on the CPU with the arguments it is given.
        - `announced`: fallbacks that were already announced for this kernel.
        - returns: whether it ran; if not, the caller raises `error`, which names what may be
          half-written.
        """
        damaged = self._damaged()
        if damaged:
            self.error.add_line(
                "The kernel may have begun, so it was not run on the CPU instead; these arguments "
                "may be half-written: " + ", ".join(damaged)
            )
            return False
        if not may_recover(self.error, self.unit.name) or fallback_policy() == "never":
            return False
        is_lost = self._is_lost()
        if is_lost and self.progress.has_begun:
            # Another thread got the error before this launch was noted, so this launch may also
            # have caused it.
            self.error.add_line(
                f"{self.unit.qualname} had been started, so it may have done it and was not run on "
                "the CPU instead"
            )
            return False
        arrays = self._device_arrays()
        if not is_lost and self.binding.host:
            self._wait()
        if arrays and is_lost:
            names = dict.fromkeys(self.unit.parameters[array.position] for array in arrays)
            self.error.add_line(
                "It cannot run on the CPU instead: these arguments lie in the memory of the lost "
                "device: " + ", ".join(names)
            )
            return False
        try:
            mirrors = self._mirror(arrays)
        except DriverError as error:
            self.error.add_line(f"It cannot run on the CPU instead: {error.what}")
            return False
        except MemoryError:
            self.error.add_line(
                "It cannot run on the CPU instead: the host has no room for copies of its arrays"
            )
            return False
        announce(self.unit.qualname, str(self.device), self.error, announced)
        try:
            launch(self._host_args(mirrors))
        except _REFUSALS as refusal:
            self.error.add_line(f"It cannot run on the CPU instead: {refusal.what}")
            raise self.error from refusal
        note_fallback(str(self.device), reason_of(self.error))
        try:
            self._write_back(arrays, mirrors)
        except DriverError as error:
            written = [self.unit.parameters[position] for position in sorted(self.traits.written)]
            error.add_line(
                f"{self.unit.qualname} ran on the CPU instead of {self.device}, and its "
                "results could not all be copied back; these arguments may be half-written: "
                + ", ".join(written)
            )
            raise
        return True

    def _is_lost(self) -> bool:
        """Return whether the device is lost with this error, or was before."""
        return isinstance(self.error, DriverError) and self.error.is_fatal

    def _wait(self) -> None:
        """Wait for the device, as a launch with arrays in host memory does.

        A copy that is under way may write such an array, or memory that is read after the launch.

        - raises `DriverError`: what was under way has taken the device away, which must be seen.
        """
        if all(memory.device is not self.device for memory in device_memories()):
            return  # nothing was ever put there, and waiting would start the device
        try:
            self.device.synchronize()
        except DriverError as error:
            if error.is_fatal:
                raise error from self.error
            logger.debug("%s", error)  # then nothing of ours can be under way

    # ------------------------------------------------------------------ what is damaged

    def _damaged(self) -> list[str]:
        """Return the names of the arguments that the kernel may have changed already."""
        touched = {
            array.position
            for array in self.binding.arrays
            if array.pointer in self.progress.touched
        }
        if self.progress.has_begun and not self._is_lost():  # then they are gone altogether
            touched |= self.traits.written & {array.position for array in self._device_arrays()}
        return [self.unit.parameters[position] for position in sorted(touched)]

    # ------------------------------------------------------------------ arrays on the device

    def _device_arrays(self) -> list[PassedArray]:
        """Return the arguments, alone or in tuples, that lie on the device."""
        on_host = dict(self.binding.host)
        return [
            array
            for array in self.binding.passed_arrays()
            if array.parameters.pointer not in on_host
        ]

    def _mirror(self, arrays: list[PassedArray]) -> _Mirrors:
        """Copy arrays to the host, those that overlap into one piece of memory."""
        mirrors: _Mirrors = {}
        for low, high, together in overlapping(arrays, PassedArray.byte_range):
            memory = np.empty(high - low + 2 * _ALIGNMENT, np.uint8)
            # Addresses keep their remainder, so that every element stays aligned.
            start = memory.ctypes.data + (alignment_number(low) - memory.ctypes.data) % _ALIGNMENT
            if high > low:
                self.device.copy_to_host(start, low, high - low, self.stream)
                note_copy(self.device, "device_to_host", high - low)
            for array in together:
                address, dtype = start + (array.location - low), numpy_dtype(array.kind.dtype)
                mirrors[array.parameters] = host_view(
                    address, array.shape, array.strides, dtype, memory
                )
        return mirrors

    def _host_args(self, mirrors: _Mirrors) -> tuple[Any, ...]:
        arrays = iter(self.binding.arrays)

        def replace(arg: Any, kind: Kind) -> Any:
            if isinstance(kind, TupleKind):
                members = (replace(a, k) for a, k in zip(arg, kind.elements, strict=True))
                return arg._make(members) if kind.names else tuple(members)
            return mirrors.get(next(arrays), arg) if isinstance(kind, ArrayKind) else arg

        return tuple(
            replace(arg, kind)
            for arg, kind in zip(self.args, kinds_of(self.binding.codes), strict=True)
        )

    def _write_back(self, arrays: list[PassedArray], mirrors: _Mirrors) -> None:
        for array in arrays:
            if array.position in self.traits.written:
                mirror = mirrors[array.parameters]
                memory = self.device, array.location, array.shape, array.strides, mirror.dtype
                write_array(ArrayGeometry(*memory, owner=None), mirror, self.stream)
