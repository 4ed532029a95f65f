"""From a launch in Python to a started kernel.

The fast path is short: are the captured constants the same objects, what are the arguments, where
do they live, is there an executable for that, pack, launch. Whatever is not at hand is made on the
slow path, once, and every error of the user's is raised before anything runs. What fails on the
side of a device may run on the CPU instead: :mod:`~kerneldsl.runtime.recovery`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from kerneldsl.abi import EXPLICIT, LaunchMode
from kerneldsl.environment import logger
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, LaunchConfigError
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import Kind, parse_signature
from kerneldsl.locks import ForkSafeLock
from kerneldsl.planner.choose import Problem, extent_class
from kerneldsl.planner.plan import LaunchPlan
from kerneldsl.runtime import recordings, streams
from kerneldsl.runtime.arguments import bind, check_writable, overlap
from kerneldsl.runtime.binding import Binding, code_of, kinds_of, positions_of
from kerneldsl.runtime.fallback import RECOVERABLE, fallback_policy, may_recover, reason_of
from kerneldsl.runtime.launch import check_limits
from kerneldsl.runtime.launch_streams import launch_stream, note_uses
from kerneldsl.runtime.loading import Loader
from kerneldsl.runtime.placement import Place, place_of, resolve
from kerneldsl.runtime.planning import (
    LaunchKey,
    assumed_promises,
    described_place,
    launch_key,
)
from kerneldsl.runtime.recovery import FailedLaunch
from kerneldsl.runtime.signature import conform
from kerneldsl.runtime.staging import HostArray, Progress, launch_staged
from kerneldsl.runtime.state import ArtifactKey, KernelState, Loaded, SpecializationInfo
from kerneldsl.runtime.statistics import note_fallback
from kerneldsl.runtime.tally import launch_and_time
from kerneldsl.runtime.together import ALONE, Together
from kerneldsl.target import (
    ONE_EACH,
    Artifact,
    CompileOptions,
    DeviceLike,
    Dim3,
    LaunchConfig,
    Promises,
    Resources,
    Specialization,
    Target,
)

__all__ = ["Dispatcher", "LaunchShape", "Launchable"]

_FORALL = {ndim: LaunchMode(ndim) for ndim in (1, 2, 3)}
#: States of a kernel whose captured constants go back and forth that are remembered.
_MAX_STATES = 16
#: Of a launch that failed before it was started.
_NOTHING_YET = Progress()


class LaunchShape:
    """Grid and block, or an extent, with stream and dynamic shared memory, already read."""

    __slots__ = (
        "block_dim",
        "extent",
        "grid_dim",
        "key",
        "mode",
        "place",
        "plan",
        "planned_for",
        "shared_bytes",
        "stream",
        "tile",
        "together",
    )

    def __init__(
        self,
        grid_dim: Dim3 | None,
        block_dim: Dim3 | None,
        extent: tuple[int, ...] | None,
        stream: Any,
        shared_bytes: int,
        plan: LaunchPlan | None = None,
        tile: Dim3 | None = None,
        together: Together = ALONE,
    ) -> None:
        self.grid_dim = grid_dim
        self.block_dim = block_dim
        self.extent = extent
        self.stream = stream
        #: Where the stream is, for a launch whose arguments may be anywhere.
        self.place = stream._place if isinstance(stream, streams.Stream) else None
        self.shared_bytes = shared_bytes
        self.mode = EXPLICIT if extent is None else _FORALL[len(extent)]
        self.plan = plan
        #: Indices of the extent that a block serves, where that is not one for each thread.
        self.tile = tile
        #: Which blocks run at the same time.
        self.together = together
        #: What is planned for: a class of extents, or the block and mapping of a given plan.
        self.planned_for: Any = None
        if plan is not None:
            self.planned_for = (plan.block_dim, plan.mapping, plan.host)
        elif extent is not None:
            self.planned_for = extent_class(extent)
        self.key = (grid_dim, block_dim, extent, shared_bytes, self.planned_for, tile, together)


@dataclass(frozen=True, slots=True)
class Launchable:
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


class Dispatcher:
    """Launches one kernel.

    Parameters
    ----------
    function : callable
        The Python function.
    options : CompileOptions
        From the decorator and the environment.
    signature : tuple of Kind or None
        The declared kinds of the parameters.
    constants : mapping, optional
        Values of the function's keyword-only parameters.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        options: CompileOptions,
        signature: tuple[Kind, ...] | None,
        constants: Mapping[str, Any] | None = None,
    ) -> None:
        self.function = function
        self.constants = constants
        self.options = options
        self.signature = signature
        self._signature_codes = tuple(map(code_of, signature)) if signature is not None else None
        self._loader = Loader(options)
        self._state: KernelState | None = None
        self._states: list[KernelState] = []
        self._lock = ForkSafeLock()
        #: Devices and reasons for which it was warned that the CPU takes over.
        self._announced: set[tuple[str, str]] = set()

    # ------------------------------------------------------------------ the unit

    def state(self) -> KernelState:
        """The normal form for the captured constants as they are now."""
        state = self._state
        if state is not None:
            try:
                for read, value in state.captured:
                    if read() is not value:
                        break
                else:
                    return state
            except NameError:  # deleted; making the unit anew says so, with the line
                pass
        return self._renew()

    def _renew(self) -> KernelState:
        with self._lock:
            for state in self._states:
                if state.is_current():
                    break
            else:
                state = self._make_state()
                self._states.append(state)
                del self._states[:-_MAX_STATES]
            self._state = state
            return state

    def _make_state(self) -> KernelState:
        from kerneldsl.analysis import analyze
        from kerneldsl.frontend.normalize import make_unit

        unit: FunctionUnit = make_unit(self.function, constants=self.constants)
        if self.signature is not None and len(self.signature) != len(unit.parameters):
            raise ArgumentTypeError(
                f"the signature of {unit.qualname} has {len(self.signature)} arguments",
                value=self.signature,
                limit=f"The kernel has {len(unit.parameters)} parameters: "
                + ", ".join(unit.parameters),
            )
        if self._states:
            changed = [c.path for c in self._states[-1].unit.captured if not _is_same(c)]
            logger.debug("%s is made anew: %s changed", unit.qualname, ", ".join(changed))
        return KernelState(unit, analyze(unit))

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
        is_overlapping = state.overlap_matters and overlap(args, traits.written)
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

    def _bind(self, state: KernelState, args: tuple[Any, ...]) -> Binding:
        """Read the arguments."""
        if len(args) != state.parameter_count:
            self._refuse_count(state.unit, args)
        return bind(state.unit.parameters, args)

    def _read(self, state: KernelState, args: tuple[Any, ...]) -> Binding:
        """Read the arguments of a launch, which may write them."""
        binding = self._bind(state, args)
        if binding.read_only and state.traits.written:
            check_writable(binding, state.unit.parameters, args, state.traits.written)
        return binding

    def _conform(self, state: KernelState, binding: Binding) -> None:
        """Convert the arguments to the declared signature."""
        if self.signature is not None and self._signature_codes is not None:
            conform(binding, self.signature, self._signature_codes, state.unit.parameters)

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
        is_overlapping = state.overlap_matters and overlap(args, state.traits.written)
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

    def _check(self, state: KernelState, place: Place, shape: LaunchShape) -> bool:
        """Check the shape against the device; say whether there is anything to launch."""
        traits = state.traits
        if shape.extent is not None and shape.block_dim is None and traits.uses_block:
            raise LaunchConfigError(
                f"{state.unit.qualname} works with its block (shared memory, barriers or warp "
                "operations), and forall was given no block",
                limit="forall chooses blocks for element kernels alone",
                remedy="Name it: kernel.forall(n, block=256)(…) or @kd.kernel(block=256)",
            )
        if traits.uses_dynamic_shared and shape.shared_bytes == 0:
            raise LaunchConfigError(
                f"{state.unit.qualname} uses dynamic shared memory, and was launched with "
                "shared_bytes 0",
                value=0,
                limit="shared.array(0, dtype) has as many bytes as the launch gives it",
                remedy="Give them: kernel[grid, block, stream, shared_bytes](…) or "
                "kernel.forall(n, block=…, shared_bytes=…)(…)",
            )
        check_limits(
            place.device,
            shape.grid_dim,
            shape.block_dim,
            traits.static_shared_bytes,
            shape.shared_bytes,
        )
        return shape.extent is None or 0 not in shape.extent

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
        positions = positions_of(binding)
        written = state.traits.written
        arrays = [
            HostArray(index, array, positions[index] in written) for index, array in binding.host
        ]
        launch_staged(
            place,
            arrays,
            binding.values,
            lambda values: self._start(loaded, config, values, progress),
            config.stream,
            progress,
        )

    def in_order(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """Arguments given by name, put behind those given by position.

        Raises
        ------
        ArgumentTypeError
            For a name that is unknown or given twice, or a parameter that is missing.
        """
        unit = self.state().unit
        rest = unit.parameters[len(args) :]
        wrong = [name for name in named if name not in rest]
        if wrong:
            known = wrong[0] in unit.parameters
            raise ArgumentTypeError(
                f"{unit.qualname} was given the argument {wrong[0]!r} "
                + ("twice" if known else "that it does not have"),
                value=wrong[0],
                limit=f"Its parameters are ({', '.join(unit.parameters)})",
            )
        missing = [name for name in rest if name not in named]
        if missing:
            self._refuse_count(unit, (*args, *named.values()))
        return (*args, *(named[name] for name in rest))

    def _refuse_count(self, unit: FunctionUnit, args: tuple[Any, ...]) -> NoReturn:
        wanted = unit.parameters
        if len(args) < len(wanted):
            what = "missing " + ", ".join(map(repr, wanted[len(args) :]))
        else:
            extra = len(args) - len(wanted)
            what = f"{extra} too many, from argument {len(wanted) + 1} on"
        raise ArgumentTypeError(
            f"{unit.qualname} was given {len(args)} arguments: {what}",
            value=len(args),
            limit=f"Its parameters are ({', '.join(wanted)})",
        )

    # ------------------------------------------------------------------ planning

    def plan(
        self,
        shape: LaunchShape,
        args: tuple[Any, ...],
        device: DeviceLike | None,
        arch: str | None,
    ) -> LaunchPlan:
        """Say how a launch would run; see :meth:`~kerneldsl.kernels.Launch.plan`."""
        key = self.key_of(shape, args, device, arch)
        state = self.state()
        self._check(state, key.place, shape)
        return self._loader.plan(state, shape, key)

    def plans(self, shape: LaunchShape, args: tuple[Any, ...]) -> tuple[LaunchPlan, ...]:
        """Every legal plan; see :meth:`~kerneldsl.kernels.Launch.plans`."""
        key = self.key_of(shape, args, None, None)
        state = self.state()
        self._check(state, key.place, shape)
        return self._loader.plans(state, shape, key)

    def given_problem(self, shape: LaunchShape, key: LaunchKey) -> Problem | None:
        """What the planner is asked of a launch whose block is given."""
        return self._loader.given_problem(self.state(), shape, key)

    def resources(self, key: LaunchKey, problem: Problem) -> Resources:
        """What the kernel takes with one index for each thread; compiled for that."""
        return self._loader.resources(self.state(), key, problem, ONE_EACH)

    def identity(self, args: tuple[Any, ...]) -> tuple[tuple[int, ...], Place]:
        """What kinds the arguments are of, and where a launch with them would run now."""
        binding = bind(self.state().unit.parameters, args)
        return binding.codes, resolve(binding.place).actual

    def key_of(
        self,
        shape: LaunchShape,
        args: tuple[Any, ...],
        device: DeviceLike | None,
        arch: str | None,
    ) -> LaunchKey:
        """The key of a launch, on a device that is named or described, or where it would run."""
        place = None if device is None else place_of(device).actual
        if arch is not None:
            place = described_place(arch)
        return self._key_of(self.state(), shape, args, place)

    def _key_of(
        self, state: KernelState, shape: LaunchShape, args: tuple[Any, ...], place: Place | None
    ) -> LaunchKey:
        """The key of a launch with these arguments, or with those of a signature."""
        if len(args) == 1 and isinstance(args[0], str):
            kinds = self._declared(state, args[0])
            place = place or resolve(shape.place).actual
            promises = state.promises.number(assumed_promises(kinds, shape.extent))
            codes = tuple(map(code_of, kinds))
            asked = shape.planned_for if place.target.maps_elements else None
            return LaunchKey(codes, shape.mode, place, shape.block_dim, False, promises, asked)
        binding = self._bind(state, args)
        self._conform(state, binding)
        place = place or resolve(binding.place or shape.place).actual
        is_overlapping = state.overlap_matters and overlap(args, state.traits.written)
        return launch_key(state, shape, place, binding, is_overlapping)

    def _declared(self, state: KernelState, text: str) -> tuple[Kind, ...]:
        """The kinds of a signature, as many as the kernel has parameters."""
        try:
            kinds = parse_signature(text)
        except ValueError as error:
            raise ArgumentValueError(str(error), value=text) from error
        if len(kinds) != state.parameter_count:
            self._refuse_count(state.unit, kinds)
        return kinds

    # ------------------------------------------------------------------ inspection

    def artifact(
        self,
        target: Target,
        args: tuple[Any, ...],
        mode: LaunchMode,
        block_dim: Dim3 | None,
        arch: str | None,
        ptx_version: str | None = None,
    ) -> Artifact:
        """Compile for arguments, or for a signature that is the only argument, without a device."""
        state, key = self._identify(target, args, mode, block_dim, arch, ptx_version)
        return state.artifact(target, key)

    def specialization(
        self,
        target: Target,
        args: tuple[Any, ...],
        mode: LaunchMode,
        block_dim: Dim3 | None,
        arch: str | None,
        ptx_version: str | None = None,
    ) -> Specialization:
        """What :meth:`artifact` would compile."""
        state, key = self._identify(target, args, mode, block_dim, arch, ptx_version)
        return state.specialization(key)

    def _identify(
        self,
        target: Target,
        args: tuple[Any, ...],
        mode: LaunchMode,
        block_dim: Dim3 | None,
        arch: str | None,
        ptx_version: str | None,
    ) -> tuple[KernelState, ArtifactKey]:
        state = self.state()
        is_overlapping = False
        if len(args) == 1 and isinstance(args[0], str):
            kinds = self._declared(state, args[0])
        elif not args and self.signature is not None:
            kinds = self.signature
        else:
            binding = self._bind(state, args)
            self._conform(state, binding)
            kinds = kinds_of(binding.codes)
            is_overlapping = state.overlap_matters and overlap(args, state.traits.written)
        if len(kinds) != state.parameter_count:
            self._refuse_count(state.unit, kinds)
        key = state.key(
            target, kinds, self.options, mode, block_dim, arch, is_overlapping, ptx_version
        )
        return state, key

    def infos(self) -> tuple[SpecializationInfo, ...]:
        """What has been compiled so far, for captured constants of any value."""
        return tuple(info for state in tuple(self._states) for info in state.infos())


def _is_same(captured: Any) -> bool:
    try:
        return captured.read() is captured.value
    except NameError:
        return False
