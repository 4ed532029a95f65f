"""From a kernel and arguments to what is compiled and planned for them; nothing is launched here.

A kernel's normal form holds for its captured constants as they are; arguments are read against its
parameters and its declared signature; their kinds, the shape and the place are the key by which
:mod:`~kerneldsl.runtime.dispatch` finds code to launch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from kerneldsl.abi import LaunchMode
from kerneldsl.environment import logger
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, LaunchConfigError
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import Kind, parse_signature
from kerneldsl.locks import ForkSafeLock
from kerneldsl.planner.choose import Problem
from kerneldsl.runtime.arguments.arguments import bind, overlap
from kerneldsl.runtime.arguments.binding import Binding, code_of, kinds_of
from kerneldsl.runtime.arguments.promise_table import NOTHING
from kerneldsl.runtime.arguments.signature import conform
from kerneldsl.runtime.launch import check_limits
from kerneldsl.runtime.launch_shape import LaunchShape
from kerneldsl.runtime.loading import Loader
from kerneldsl.runtime.placement import Place, place_of, resolve
from kerneldsl.runtime.planning import (
    LaunchKey,
    assumed_promises,
    described_place,
    launch_key,
    planned_extents,
)
from kerneldsl.runtime.state import KernelState
from kerneldsl.target import (
    ONE_EACH,
    Artifact,
    CompileOptions,
    DeviceLike,
    Dim3,
    Resources,
    Specialization,
    Target,
)

if TYPE_CHECKING:
    from kerneldsl.planner.plan import LaunchPlan
    from kerneldsl.runtime.specialization_info import SpecializationInfo

__all__ = ["Specializer"]

#: States of a kernel whose captured constants go back and forth that are remembered.
_MAX_STATES = 16


class Specializer:
    """Specializes one kernel.

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
        from kerneldsl.analysis.analyze import analyze
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

    def infos(self) -> tuple[SpecializationInfo, ...]:
        """What has been compiled so far, for captured constants of any value."""
        return tuple(info for state in tuple(self._states) for info in state.infos())

    # ------------------------------------------------------------------ arguments

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

    def _bind(self, state: KernelState, args: tuple[Any, ...]) -> Binding:
        """Read the arguments."""
        if len(args) != state.parameter_count:
            self._refuse_count(state.unit, args)
        return bind(state.unit.parameters, args)

    def _conform(self, state: KernelState, binding: Binding) -> None:
        """Convert the arguments to the declared signature."""
        if self.signature is not None and self._signature_codes is not None:
            conform(binding, self.signature, self._signature_codes, state.unit.parameters)

    def _declared(self, state: KernelState, text: str) -> tuple[Kind, ...]:
        """The kinds of a signature, as many as the kernel has parameters."""
        try:
            kinds = parse_signature(text)
        except ValueError as error:
            raise ArgumentValueError(str(error), value=text) from error
        if len(kinds) != state.parameter_count:
            self._refuse_count(state.unit, kinds)
        return kinds

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

    # ------------------------------------------------------------------ what a launch would use

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

    def identity(
        self, shape: LaunchShape, args: tuple[Any, ...]
    ) -> tuple[KernelState, tuple[int, ...], Place]:
        """The kernel as it is now, the kinds of arguments, and where a launch would run now."""
        state = self.state()
        binding = self._bind(state, args)
        return state, binding.codes, resolve(binding.place or shape.place).actual

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
            asked = planned_extents(state, shape, place) if place.target.maps_elements else None
            return LaunchKey(codes, shape.mode, place, shape.block_dim, False, promises, asked)
        binding = self._bind(state, args)
        self._conform(state, binding)
        place = place or resolve(binding.place or shape.place).actual
        is_overlapping = state.overlap_matters and overlap(binding, state.traits.written)
        return launch_key(state, shape, place, binding, is_overlapping)

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

    def launched(
        self,
        shape: LaunchShape,
        args: tuple[Any, ...],
        device: DeviceLike | None,
        arch: str | None,
    ) -> tuple[Target, tuple[Specialization, ...]]:
        """What a launch may compile: for arrays on the device, and for copies of NumPy's."""
        key = self.key_of(shape, args, device, arch)
        state = self.state()
        self._check(state, key.place, shape)
        keys = [key] if key.promises == NOTHING else [key, key._replace(promises=NOTHING)]
        asked = dict.fromkeys(self._loader.asked_for(state, shape, each) for each in keys)
        return key.place.target, tuple(asked)

    # ------------------------------------------------------------------ without a device

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
        asked = self.specialization(target, args, mode, block_dim, arch, ptx_version)
        return self.state().artifact(target, asked)

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
            is_overlapping = state.overlap_matters and overlap(binding, state.traits.written)
        if len(kinds) != state.parameter_count:
            self._refuse_count(state.unit, kinds)
        return state.specialize(
            target, kinds, self.options, mode, block_dim, arch, is_overlapping, ptx_version
        )


def _is_same(captured: Any) -> bool:
    try:
        return captured.read() is captured.value
    except NameError:
        return False
