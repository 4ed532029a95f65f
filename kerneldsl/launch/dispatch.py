"""Dispatch of a launch: from a call in Python to a started kernel.

The fast path is short. It compares the captured constants by identity, reads the kinds and the
device of the arguments, looks up the executable, packs and launches. A missing part is made once on
the slow path (:mod:`~kerneldsl.launch.pipeline`). Every error of the user's is raised before
anything runs. After a failure of a device the launch may run on the CPU instead:
:mod:`~kerneldsl.launch.recovery`.
"""

from __future__ import annotations

import logging
from contextlib import nullcontext
from functools import partial
from inspect import CO_VARARGS
from typing import Any

from kerneldsl.contract import (
    Compiler,
    Device,
    DeviceLike,
    Dim3,
    Executable,
    LaunchConfig,
    Specialization,
)
from kerneldsl.contract.abi import LaunchMode
from kerneldsl.contract.launch_counter import launch_and_time
from kerneldsl.contract.streams import is_recorded
from kerneldsl.launch.arguments.arguments import Progress
from kerneldsl.launch.arguments.binding import kinds_of
from kerneldsl.launch.dimensions import check_rank
from kerneldsl.launch.pipeline import choose_member, prepare
from kerneldsl.launch.request import (
    Request,
    check_shape,
    in_order,
    make_request,
    named_device,
    read_arguments,
    read_kinds,
)
from kerneldsl.launch.shape import LaunchShape
from kerneldsl.launch.specialize import make_specialization
from kerneldsl.launch.state import Definition, KernelState, KernelStates
from kerneldsl.placement.devices import FallbackDevice, actual, host_device, resolve
from kerneldsl.placement.fallback import RECOVERABLE, fallback_policy, may_recover, reason_of
from kerneldsl.streams import current
from kerneldsl.streams.current import BaseStream, launch_stream, note_uses
from kerneldsl.utilities.environment import logger
from kerneldsl.utilities.locks import no_fork
from kerneldsl.utilities.observed import Observable, observed

__all__ = ["Dispatcher"]

#: Progress of a launch that failed before the kernel was started.
_NOTHING_YET = Progress()


class Dispatcher(KernelStates, Observable):
    """Launches one kernel."""

    def __init__(self, definition: Definition) -> None:
        super().__init__(definition)
        #: Qualified name of the kernel.
        self.name = definition.function.__qualname__
        self.is_debug = definition.options.debug
        code = getattr(definition.function, "__code__", None)
        #: The position of ``*rest``, which takes the other arguments as a tuple.
        self._rest_at = code.co_argcount if code and code.co_flags & CO_VARARGS else None
        #: Devices and reasons for which it was warned that the CPU takes over.
        self._announced: set[tuple[str, str]] = set()

    # ------------------------------------------------------------------ launching

    @observed("launch")
    def launch(
        self, shape: LaunchShape, args: tuple[Any, ...], instead: Device | None = None
    ) -> None:
        """Launch the kernel; errors are those of :meth:`Kernel.__getitem__` and its like.

        - `shape`: in which shape.
        - `args`: the arguments, one for each parameter.
        - `instead`: where to launch whatever has been chosen: the CPU, in place of a device that
          failed.
        """
        args = self._packed(args)
        with no_fork:  # a child would wait for what is imported for ever
            state = self.state() if shape.member is None else self._state_of(shape)
            request = make_request(state, shape, args, instead, is_launch=True)
        state, device, binding = request.state, request.device, request.binding
        if request.fallback is not None:
            self._launch_in_place_of(request.fallback, shape, args)
            return
        stream = shape.stream
        if stream is not None or binding.streams or current.are_in_use:
            stream = launch_stream(device, stream, binding.streams)
        progress = _NOTHING_YET
        try:
            if shape.space is not None:
                request = choose_member(request)
                state, shape = request.state, request.shape
            executable = state.loaded.get(request.key)
            config = executable.configs.get(shape.key) if executable is not None else None
            if executable is None or config is None:
                if not check_shape(request):
                    return  # an empty extent
                with no_fork, getattr(stream, "keeping_capture", nullcontext)():
                    executable, config = self._prepare(request)
            if executable.barriers is not None:
                from kerneldsl.launch.barrier_checks import check_launch

                check_launch(request, executable.barriers, config)
            values = binding.values
            if shape.extent is not None:
                values += shape.extent
            if stream is not None:
                config = executable.in_stream(config, stream)
            if logger.isEnabledFor(logging.DEBUG):
                logger.debug("launch %s on %s: %s", state.unit.qualname, device, config)
            if stream is not None and is_recorded(stream):
                self._record(request, executable, config, args)
            elif binding.host and not device.shares_host_memory:
                progress = Progress()
                self._launch_staged(request, executable, config, progress)
            elif executable.counter.is_due or self.is_debug:
                progress = Progress()
                self._start(executable, config, values, progress)
            else:
                executable.launch(config, executable.pack(*values))
        except RECOVERABLE as error:
            if device.is_host:
                raise
            if is_recorded(stream):
                if may_recover(error, state.unit.name) and fallback_policy() != "never":
                    error.add_line(
                        f"{state.unit.qualname} was to be captured, and what runs on the CPU is "
                        "no part of a capture, so it was not run there instead"
                    )
                raise
            from kerneldsl.launch.recovery import FailedLaunch

            failed = FailedLaunch(
                state.unit, state.traits, device, stream, args, binding, progress, error
            )
            if not failed.run_on_host(partial(self._launch_on_host, shape), self._announced):
                raise
            return
        counter = executable.counter
        count = next(counter.count)
        if count >= counter.due:
            counter.arm(count)
        # These calls are after the ``try``: the kernel has been started, and no failure may run it
        # again.
        if current.are_in_use and not device.is_synchronous:
            note_uses((*args, *state.hidden), stream)

    def _prepare(self, request: Request) -> tuple[Executable, LaunchConfig]:
        """Make what a launch starts."""
        return prepare(request)

    def _start(
        self,
        executable: Executable,
        config: LaunchConfig,
        values: list[Any],
        progress: Progress,
    ) -> None:
        """Launch, and take the time if that is due."""
        # A launch in debug mode waits for the kernel, so an error may come from after its start.
        progress.has_begun = self.is_debug
        if executable.counter.is_due:
            launch_and_time(executable, config, executable.pack(*values))
        else:
            executable.launch(config, executable.pack(*values))

    def _launch_in_place_of(
        self, chosen: FallbackDevice, shape: LaunchShape, args: tuple[Any, ...]
    ) -> None:
        """Launch on the CPU, which replaces a device that cannot be used, and count that."""
        if fallback_policy() == "never":
            raise chosen.missing.with_traceback(None)
        from kerneldsl.statistics.collect import note_fallback

        self.launch(shape, args, chosen.device)
        note_fallback(chosen.asked, reason_of(chosen.missing))

    def _launch_on_host(self, shape: LaunchShape, args: tuple[Any, ...]) -> None:
        """Launch on the CPU after a device has failed."""
        # Now, and not in a stream of the CPU that is active or even recorded.
        stream = BaseStream._default(host_device()) if current.are_in_use else None
        self.launch(shape.in_stream(stream), args, host_device())

    def _record(
        self,
        request: Request,
        executable: Executable,
        config: LaunchConfig,
        args: tuple[Any, ...],
    ) -> None:
        """Let the stream record the launch instead of making it."""
        from kerneldsl.streams import order  # few programs record a stream

        binding = request.binding
        if not request.device.is_synchronous:
            if binding.host:
                order.refuse_recording(
                    config.stream,
                    "launch with NumPy arguments, which would have to be copied,",
                    "Copy them before: array = kd.to_device(array)",
                )
            if self.is_debug:
                order.refuse_recording(
                    config.stream,
                    "launch a kernel in debug mode, which waits for it,",
                    "Capture it without debug=True",
                )
        launch = partial(executable.launch, config, executable.pack(*binding.values))
        name = request.state.unit.name
        order.record_launch(config.stream, name, launch, *args, *binding.keep, executable)

    def _launch_staged(
        self, request: Request, executable: Executable, config: LaunchConfig, progress: Progress
    ) -> None:
        from kerneldsl.launch.arguments.staging import HostArray, launch_staged

        binding = request.binding
        host, written = dict(binding.host), request.state.traits.written
        arrays = [
            HostArray(each, host[each.pointer], each.position in written)
            for each in binding.arrays
            if each.pointer in host
        ]
        launch_staged(
            request.device,
            arrays,
            binding.values,
            lambda values: self._start(executable, config, values, progress),
            config.stream,
            progress,
        )

    def _state_of(self, shape: LaunchShape) -> KernelState:
        """Find the kernel as it is now; of one with a space, the member that the shape is of."""
        return self.state() if shape.member is None else self.of_member(shape.member).state()

    # ------------------------------------------------------------------ what would be launched

    def find(
        self, shape: LaunchShape, args: tuple[Any, ...], *, make: bool = False
    ) -> tuple[Request, Executable, LaunchConfig] | None:
        """Return what a launch in the default stream would start now; nothing is launched.

        - `shape`: in which shape.
        - `args`: the arguments, one for each parameter.
        - `make`: whether to compile and load what is not there yet. What fails then on the side of
          a device is left to the launch, which may turn to the CPU.
        - returns: the request, the code, and the configuration in the default stream. ``None``
          where something is not there, the extent is empty, or the CPU replaces a device that
          cannot be used.
        - raises `KernelError`: what is the user's own mistake, as the launch would raise it.
        """
        if self._rest_at is not None or not shape.is_repeatable:
            return None  # native code packs no tuples
        state = self._state_of(shape)
        if state.hidden:
            return None  # nor does it add arguments
        request = make_request(state, shape, args, is_launch=True)
        if request.fallback is not None:
            return None
        if shape.space is not None and not make and request.key not in request.state.choices:
            return None
        try:
            request = choose_member(request)
            if make and not check_shape(request):
                return None
            executable = request.state.loaded.get(request.key)
            config = None if executable is None else executable.configs.get(request.shape.key)
            if make and config is None:
                executable, config = prepare(request)
        except RECOVERABLE:
            if request.device.is_host:
                raise
            return None
        if executable is None or config is None:
            return None
        return request, executable, config

    def _packed(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        at = self._rest_at
        return args if at is None else (*args[:at], args[at:])

    def in_order(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """Put arguments given by name after those given by position."""
        return in_order(self.state().unit, args, named)

    def identity(
        self, shape: LaunchShape, args: tuple[Any, ...]
    ) -> tuple[KernelState, tuple[int, ...], Device]:
        """Return the kernel as it is now, the kinds of arguments, and the device for it now."""
        state = self._state_of(shape)
        binding = read_arguments(state, args, is_launch=True)
        device = actual(resolve(binding.device or shape.device))
        return state.for_compiler(device.compiler), binding.given, device

    def request(
        self,
        shape: LaunchShape,
        args: tuple[Any, ...],
        device: DeviceLike | None = None,
        arch: str | None = None,
    ) -> Request:
        """Return the request for a launch on a named or described device, by default its own.

        `args` may be the text of a signature.
        """
        named = named_device(device, arch)
        is_values = not (len(args) == 1 and isinstance(args[0], str))
        given = self._packed(args) if is_values else args
        return make_request(self._state_of(shape), shape, given, named)

    def specialize(
        self,
        compiler: Compiler,
        args: tuple[Any, ...],
        mode: LaunchMode,
        block_dim: Dim3 | None,
        arch: str | None,
        ptx_version: str | None = None,
    ) -> tuple[KernelState, Specialization]:
        """Return what is compiled for arguments, or for a signature that is the only argument."""
        state = self.state().for_compiler(compiler)
        if not args and state.signatures:
            binding = read_kinds(state, state.signatures[0][0])
        else:
            binding = read_arguments(state, args)
        if mode.forall_ndim is not None:
            check_rank(state.unit, state.traits, mode.forall_ndim)
        return state, make_specialization(
            state,
            compiler,
            kinds_of(binding.codes),
            mode,
            block_dim,
            arch,
            ptx_version=ptx_version,
        )
