"""From a launch in Python to a started kernel.

The fast path is short: are the captured constants the same objects, what are the arguments, where
do they live, is there an executable for that, pack, launch. Whatever is not at hand is made on the
slow path, once, and every error of the user's is raised before anything runs. What fails on the
side of a device may run on the CPU instead: :mod:`~kerneldsl.runtime.recovery`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from kerneldsl.environment import logger
from kerneldsl.language.kinds import Kind
from kerneldsl.runtime.arguments.arguments import bind, check_writable, overlap
from kerneldsl.runtime.arguments.binding import Binding
from kerneldsl.runtime.arguments.staging import HostArray, Progress, launch_staged
from kerneldsl.runtime.fallback import RECOVERABLE, fallback_policy, may_recover, reason_of
from kerneldsl.runtime.launch_shape import LaunchShape
from kerneldsl.runtime.placement import Place, place_of, resolve
from kerneldsl.runtime.planning import launch_key
from kerneldsl.runtime.specializer import Specializer
from kerneldsl.runtime.state import KernelState, Loaded
from kerneldsl.runtime.statistics import note_fallback
from kerneldsl.runtime.streams import recordings, streams
from kerneldsl.runtime.streams.launch_streams import launch_stream, note_uses
from kerneldsl.runtime.tally import launch_and_time
from kerneldsl.target import CompileOptions, LaunchConfig, Promises

__all__ = ["Dispatcher", "Launchable"]

#: Of a launch that failed before it was started.
_NOTHING_YET = Progress()


class Launchable(NamedTuple):
    """All that a launch is made of, found and ready.

    Parameters
    ----------
    state : KernelState
        The kernel, for the captured constants as they are.
    binding : Binding
        The arguments, as the kernel takes them.
    given : tuple of int
        Codes of the arguments' kinds, before a signature converted them.
    place : Place
        Where it runs.
    is_overlapping : bool
        Whether arguments overlap in memory, where that matters.
    promises : Promises
        What holds of the arguments, as far as it was looked at.
    loaded : Loaded
        The code.
    config : LaunchConfig
        In which configuration it is launched, in the default stream.
    """

    state: KernelState
    binding: Binding
    given: tuple[int, ...]
    place: Place
    is_overlapping: bool
    promises: Promises
    loaded: Loaded
    config: LaunchConfig


class Dispatcher(Specializer):
    """Launches one kernel; its parameters are those of `Specializer`."""

    def __init__(
        self,
        function: Callable[..., Any],
        options: CompileOptions,
        signature: tuple[Kind, ...] | None,
        constants: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(function, options, signature, constants)
        #: Devices and reasons for which it was warned that the CPU takes over.
        self._announced: set[tuple[str, str]] = set()

    # ------------------------------------------------------------------ launching

    def launch(
        self, shape: LaunchShape, args: tuple[Any, ...], instead: Place | None = None
    ) -> None:
        """Launch the kernel; errors are those of :meth:`Kernel.__getitem__` and its like.

        Parameters
        ----------
        shape : LaunchShape
            In which shape.
        args : tuple
            The arguments, one for each parameter.
        instead : Place, optional
            Where to launch whatever has been chosen: the CPU, in place of a device that failed.
        """
        state = self.state()
        binding = self._read(state, args)
        if self.signature is not None:
            self._conform(state, binding)
        traits = state.traits
        place = resolve(binding.place or shape.place) if instead is None else instead
        if place.asked is not None:
            self._launch_in_place_of(place, shape, args)
            return
        is_overlapping = state.overlap_matters and overlap(binding, traits.written)
        key = launch_key(state, shape, place, binding, is_overlapping)
        stream = shape.stream
        if stream is not None or binding.streams or streams.are_in_use:
            stream = launch_stream(place, stream, binding.streams)
        progress = _NOTHING_YET
        try:
            loaded = state.loaded.get(key)
            config = loaded.configs.get(shape.key) if loaded is not None else None
            if loaded is None or config is None:
                if not self._check(state, place, shape):
                    return  # an empty extent
                loaded = self._loader.load(state, place, shape, key)
                config = self._loader.configure(state, place, loaded, shape, key)
            values = binding.values
            if shape.extent is not None:
                values += shape.extent
            if stream is not None:
                config = loaded.in_stream(config, stream)
            if logger.isEnabledFor(logging.DEBUG):
                logger.debug("launch %s on %s: %s", state.unit.qualname, place.name, config)
            if stream is not None and recordings.is_recorded(stream):
                self._record(state, place, loaded, config, binding, args)
            elif binding.host and not place.is_host:
                progress = Progress()
                self._launch_staged(state, place, loaded, config, binding, progress)
            elif loaded.tally.is_due or self.options.debug:
                progress = Progress()
                self._start(loaded, config, values, progress)
            else:
                loaded.executable.launch(config, loaded.pack(*values))
        except RECOVERABLE as error:
            if place.is_host:
                raise
            if recordings.is_recorded(stream):
                if may_recover(error, state.unit.name) and fallback_policy() != "never":
                    error.add_line(
                        f"{state.unit.qualname} was to be recorded, and what runs on the CPU is "
                        "no step of a recording, so it was not run there instead"
                    )
                raise
            from kerneldsl.runtime.recovery import FailedLaunch

            failed = FailedLaunch(state.unit, traits, place, stream, args, binding, progress, error)
            if not failed.run_on_host(partial(self._launch_on_host, shape), self._announced):
                raise
            return
        count = next(loaded.tally.count)
        if count >= loaded.tally.due:
            loaded.tally.arm(count)
        # Not above: the kernel has been started, and whatever fails here must not run it again.
        if streams.are_in_use and not place.is_host:
            note_uses(args, stream)

    def _start(
        self, loaded: Loaded, config: LaunchConfig, values: list[Any], progress: Progress
    ) -> None:
        """Launch, and take the time where that is due."""
        # In debug mode a launch waits for the kernel, so that an error may come from after it.
        progress.has_begun = self.options.debug
        if loaded.tally.is_due:
            launch_and_time(loaded.tally, loaded.executable, config, loaded.pack(*values))
        else:
            loaded.executable.launch(config, loaded.pack(*values))

    def _launch_in_place_of(self, place: Place, shape: LaunchShape, args: tuple[Any, ...]) -> None:
        """Launch on the CPU, which stands in for a device that cannot be used, and count that."""
        assert place.asked is not None
        assert place.missing is not None
        if fallback_policy() == "never":
            raise place.missing.with_traceback(None)
        self.launch(shape, args, place.actual)
        note_fallback(place.asked, reason_of(place.missing))

    def _launch_on_host(self, shape: LaunchShape, args: tuple[Any, ...]) -> None:
        """Launch on the CPU after a device has failed."""
        # Now, and not in a stream of the CPU that is active or even recorded.
        stream = streams.default_stream("cpu") if streams.are_in_use else None
        on_host = LaunchShape(
            shape.grid_dim, shape.block_dim, shape.extent, stream, shape.shared_bytes
        )
        self.launch(on_host, args, place_of("cpu"))

    def _read(self, state: KernelState, args: tuple[Any, ...]) -> Binding:
        """Read the arguments of a launch, which may write them."""
        binding = self._bind(state, args)
        if binding.read_only and state.traits.written:
            check_writable(binding, state.unit.parameters, args, state.traits.written)
        return binding

    def _record(
        self,
        state: KernelState,
        place: Place,
        loaded: Loaded,
        config: LaunchConfig,
        binding: Binding,
        args: tuple[Any, ...],
    ) -> None:
        """Let the stream record the launch instead of making it."""
        if not place.is_host:
            if binding.host:
                recordings.refuse_recording(
                    config.stream,
                    "launch with NumPy arguments, which would have to be copied,",
                    "Copy them before: array = kd.to_device(array)",
                )
            if self.options.debug:
                recordings.refuse_recording(
                    config.stream,
                    "launch a kernel in debug mode, which waits for it,",
                    "Record it without debug=True",
                )
        launch = partial(loaded.executable.launch, config, loaded.pack(*binding.values))
        name = state.unit.name
        recordings.record_launch(config.stream, name, launch, *args, *binding.keep, loaded)

    def _launch_staged(
        self,
        state: KernelState,
        place: Place,
        loaded: Loaded,
        config: LaunchConfig,
        binding: Binding,
        progress: Progress,
    ) -> None:
        host, written = dict(binding.host), state.traits.written
        arrays = [
            HostArray(each, host[each.pointer], each.position in written)
            for each in binding.arrays
            if each.pointer in host
        ]
        launch_staged(
            place,
            arrays,
            binding.values,
            lambda values: self._start(loaded, config, values, progress),
            config.stream,
            progress,
        )

    # ------------------------------------------------------------------ what would be launched

    def find(
        self, shape: LaunchShape, args: tuple[Any, ...], *, make: bool = False
    ) -> Launchable | None:
        """What a launch in the default stream would start now; nothing is launched.

        Parameters
        ----------
        shape : LaunchShape
            In which shape.
        args : tuple
            The arguments, one for each parameter.
        make : bool, optional
            Whether to compile and load what is not there yet. What fails then on the side of a
            device is left to the launch, which may turn to the CPU.

        Returns
        -------
        Launchable or None
            ``None`` where something is not there, the extent is empty, or the CPU stands in for a
            device that cannot be used.

        Raises
        ------
        KernelError
            What is the user's own mistake, as the launch would raise it.
        """
        state = self.state()
        binding = self._read(state, args)
        given = binding.codes
        self._conform(state, binding)
        place = resolve(binding.place or shape.place)
        if place.asked is not None or (make and not self._check(state, place, shape)):
            return None
        is_overlapping = state.overlap_matters and overlap(binding, state.traits.written)
        key = launch_key(state, shape, place, binding, is_overlapping)
        loaded = state.loaded.get(key)
        config = loaded.configs.get(shape.key) if loaded is not None else None
        if make and (loaded is None or config is None):
            try:
                loaded = self._loader.load(state, place, shape, key)
                config = self._loader.configure(state, place, loaded, shape, key)
            except RECOVERABLE:
                if place.is_host:
                    raise
        if loaded is None or config is None:
            return None
        promises = state.promises[key.promises]
        return Launchable(state, binding, given, place, is_overlapping, promises, loaded, config)

    def place(self, args: tuple[Any, ...], otherwise: Place | None = None) -> Place:
        """Where a launch with these arguments, or in a stream of a place, would run now."""
        return resolve(bind(self.state().unit.parameters, args).place or otherwise).actual
