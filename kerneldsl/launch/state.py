"""A kernel's normal form for its captured constants as they are, and what was made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from kerneldsl.analysis.traits import KernelTraits
from kerneldsl.contract import Artifact, CompileOptions, Device, Specialization
from kerneldsl.errors import ArgumentTypeError, CompileError, KernelError, TargetUnavailableError
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import Kind, for_parameters, format_signature
from kerneldsl.launch.arguments.binding import code_of, kinds_of
from kerneldsl.launch.arguments.checked_promises import PromiseTable
from kerneldsl.launch.compile_errors import too_deep
from kerneldsl.launch.recorded import recordings
from kerneldsl.utilities.environment import logger
from kerneldsl.utilities.formatting import format_count
from kerneldsl.utilities.locks import ForkSafeLock, OnceTable
from kerneldsl.utilities.modules import may_be_shipped

if TYPE_CHECKING:
    from kerneldsl.analysis.work import KernelWork
    from kerneldsl.contract import Compiler, Dim3, Executable
    from kerneldsl.contract.device_code import DeviceCode
    from kerneldsl.launch.specialization_info import SpecializationInfo
    from kerneldsl.planner.candidates import Choice
    from kerneldsl.planner.space import Member

__all__ = ["Definition", "KernelState", "KernelStates"]

#: Number of states that are remembered, of a kernel with captured constants that alternate.
_MAX_STATES = 16


class Definition(NamedTuple):
    """Normal form of a kernel with its analyses."""

    #: The Python function.
    function: Callable[..., Any]
    #: Options from the decorator and the environment.
    options: CompileOptions
    #: The declared kinds of the parameters, one or several; none where each launch's count.
    signatures: tuple[tuple[Kind, ...], ...] = ()
    #: Values of the function's keyword-only parameters; of a kernel with a space, those of its
    #: first member.
    constants: Mapping[str, Any] | None = None
    #: The kernel's own code, for targets that take it. The function then has its parameters alone.
    code: DeviceCode | None = None
    #: The kernel that other targets run instead.
    host: KernelStates | None = None
    #: Whether numba.cuda's rules apply. Captured constants keep the values of the first launch, and
    #: threads return at a guard around the rest of the kernel.
    follows_numba: bool = False
    #: Another store of compiled code, besides the cache. Its method ``bring(key, kinds)`` copies
    #: code into the cache, and returns whether it has any; ``keep(key, reads)`` copies code from
    #: the cache. ``values_of(function)`` gives the constants that the code was compiled with.
    store: Any = None


class KernelState:
    """One normal form of a kernel; a captured constant that changes makes another one.

    - `unit`: the normal form.
    - `traits`: results of the analysis.
    - `options`: the kernel's.
    - `signatures`: the declared kinds of the parameters, and their codes.
    - `captured`: readers of the captured constants, and their values.
    - `promises`: facts about the arguments that launches have checked.
    - `loaded`: key of a request to executable, for the fast path.
    - `choices`: key of a request to what was planned for it; of a request that leaves the member of
      a space open, all but the promises.
    - `constants`: values of the compile-time parameters.
    - `hidden`: arrays from outside, which launches add to the arguments.
    - `parameter_count`: number of arguments of a launch.
    - `of_member`: finds the state for a member of the kernel's space, if it has one.
    - `forms`: all but the promises of what code is compiled for, to the specializations it was
      compiled for.
    - `code`: the kernel's own code, if it is not compiled from the unit.
    - `store`: the definition's store.
    - `links`: whether the kernel calls linked functions.
    - `counted`: the unit with the work that the planner counts. For a kernel with its own code that
      is the CPU function, if it has one.
    - `works`: name of the target, kinds and block to what the kernel does for one index.
    - `artifacts`, `compile_s`: name of the target and specialization to compiled code, and to the
      seconds that took.
    - `executables`, `failures`: specialization and device to the code there, or to what failed
      permanently, so that it is not tried at every launch.
    """

    __slots__ = (
        "_host",
        "artifacts",
        "captured",
        "choices",
        "code",
        "compile_s",
        "constants",
        "counted",
        "executables",
        "failures",
        "forms",
        "hidden",
        "links",
        "loaded",
        "of_member",
        "options",
        "parameter_count",
        "promises",
        "signatures",
        "store",
        "traits",
        "unit",
        "works",
    )

    def __init__(
        self,
        definition: Definition,
        unit: FunctionUnit,
        traits: KernelTraits,
        of_member: Callable[[Member], KernelState] | None = None,
        *,
        counted: FunctionUnit | None,
        hidden: tuple[Any, ...] = (),
    ) -> None:
        self.unit = unit
        self.hidden = hidden
        self.parameter_count = len(unit.parameters) - len(hidden)
        self.code = definition.code
        self.store = definition.store
        self._host = definition.host
        self.counted = counted
        self.of_member = of_member
        self.traits = traits
        self.constants = tuple((definition.constants or {}).values())
        self.options = definition.options
        self.signatures = tuple(
            (kinds, tuple(map(code_of, kinds)))
            for kinds in (
                for_parameters(each, self.parameter_count) + self.hidden_kinds()
                for each in definition.signatures
            )
        )
        captured = () if definition.follows_numba else unit.captured
        self.captured = tuple((c.read, c.value) for c in captured)
        self.links = bool(unit.linked_functions())
        self.promises = PromiseTable(traits)
        self.loaded: dict[tuple[Any, ...], Executable] = {}
        self.choices: dict[tuple[Any, ...], Choice] = {}
        self.forms: dict[tuple[Any, ...], list[Specialization]] = {}
        self.artifacts: OnceTable[tuple[str, Specialization], Artifact] = OnceTable()
        self.works: dict[tuple[str, tuple[Kind, ...], Dim3 | None], KernelWork] = {}
        self.compile_s: dict[tuple[str, Specialization], float] = {}
        self.executables: OnceTable[tuple[Specialization, Device], Executable] = OnceTable()
        self.failures: dict[tuple[Specialization, Device], KernelError] = {}

    def hidden_kinds(self) -> tuple[Kind, ...]:
        """Return the kinds of the arrays from outside."""
        if not self.hidden:
            return ()
        from kerneldsl.launch.arguments.arguments import bind

        return kinds_of(bind(self.unit.parameters[self.parameter_count :], self.hidden).codes)

    def for_compiler(self, compiler: Compiler) -> KernelState:
        """Return what a target compiles: of a kernel with its own code perhaps the CPU function.

        - raises `TargetUnavailableError` if the target does not take the code, and there is no CPU
          function.
        """
        if self.links and not compiler.takes_code:
            self.unit.require_bodies(compiler.name)
        if self.code is None or compiler.takes_code:
            return self
        if self._host is None:
            name = self.unit.qualname
            raise TargetUnavailableError(
                f"{name} is {self.code.module.form}, which the target {compiler.name!r} does not "
                "run",
                where=self.unit.locate(self.unit.tree),
                value=compiler.name,
                limit="It has no CPU function",
                remedy=f"Give one: cpu=a kernel or function with the parameters of {name}; or run "
                "on a machine with an NVIDIA GPU",
            )
        return self._host.state()

    def is_current(self) -> bool:
        """Return whether every captured constant is still the object it was."""
        try:
            return all(read() is value for read, value in self.captured)
        except NameError:  # deleted; making the unit anew says so with the line
            return False

    def infos(self) -> tuple[SpecializationInfo, ...]:
        """Return what has been compiled so far."""
        from kerneldsl.launch.specialization_info import SpecializationInfo

        return tuple(
            SpecializationInfo(
                target,
                compiled.arch,
                format_signature(compiled.kinds),
                compiled.mode.forall_ndim,
                compiled.block_dim,
                seconds,
            )
            for (target, compiled), seconds in tuple(self.compile_s.items())
        )

    def compiled(self) -> tuple[tuple[str, Artifact], ...]:
        """Return the target and the code of what has been compiled so far."""
        keys = tuple(self.compile_s)
        return tuple((key[0], made) for key in keys if (made := self.artifacts.get(key)))


class KernelStates:
    """The states of one kernel.

    - `definition`: the kernel.
    """

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        #: States for members of the kernel's space, by the values of the compile-time parameters.
        self._members: dict[tuple[Any, ...], Self] = {}
        self._current: KernelState | None = None
        self._states: list[KernelState] = []
        self._lock = ForkSafeLock()

    def state(self) -> KernelState:
        """Return the state for the captured constants as they are now."""
        state = self._current
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

    def of_member(self, member: Member) -> Self:
        """Find those for a member of the kernel's space; those with equal constants share."""
        given, values = self.definition.constants or {}, dict(member.values)
        constants = {name: values.get(name, value) for name, value in given.items()}
        code = tuple(constants.values())
        self._members.setdefault(tuple(given.values()), self)
        known = self._members.get(code)
        if known is None:
            made = type(self)(self.definition._replace(constants=constants))
            made._members = self._members
            known = self._members.setdefault(code, made)
        return known

    def _state_of_member(self, member: Member) -> KernelState:
        return self.of_member(member).state()

    def _renew(self) -> KernelState:
        with self._lock:
            for state in self._states:
                if state.is_current():
                    break
            else:
                state = self._make_state()
                self._states.append(state)
                del self._states[:-_MAX_STATES]
            self._current = state
            return state

    def _make_state(self) -> KernelState:
        function, _, signatures, constants, code, host, follows_numba, _ = self.definition
        if code is not None:
            return self._make_state_of_code(code, host)
        shipped = None if follows_numba else _shipped_form(function, constants)
        reads = None if self.definition.store is None else self.definition.store.values_of
        unit, traits = shipped or _make_unit(function, constants, follows_numba, reads)
        hidden = self._hidden_of(unit) if unit.hidden else ()
        count = len(unit.parameters) - len(hidden)
        for signature in signatures:
            if len(for_parameters(signature, count)) == count:
                continue
            raise ArgumentTypeError(
                f"the signature ({format_signature(signature)}) of {unit.qualname} has "
                f"{format_count(len(signature), 'argument')}",
                value=signature,
                limit=f"The kernel has {format_count(count, 'parameter')}: "
                + ", ".join(unit.parameters[:count]),
            )
        if self._states:
            changed = [c.path for c in self._states[-1].unit.captured if not _is_same(c)]
            logger.debug("%s is rebuilt: %s changed", unit.qualname, ", ".join(changed))
        # Only a kernel with a space is part of a reference cycle.
        of_member = None if constants is None else self._state_of_member
        return KernelState(self.definition, unit, traits, of_member, counted=unit, hidden=hidden)

    def _hidden_of(self, unit: FunctionUnit) -> tuple[Any, ...]:
        """Return the arrays from outside as a launch takes them."""
        return unit.hidden

    def _make_state_of_code(self, code: DeviceCode, host: KernelStates | None) -> KernelState:
        from kerneldsl.launch.own_code import traits_of_code, unit_of_code

        definition, kinds = self.definition, self.definition.signatures[0]
        known = None if host is None else host.state()
        unit = unit_of_code(code, definition.function, None if known is None else known.unit)
        traits = traits_of_code(kinds, None if known is None else known.traits)
        counted = None if known is None else known.unit
        return KernelState(definition, unit, traits, counted=counted)

    def infos(self) -> tuple[SpecializationInfo, ...]:
        """Return what has been compiled so far, for captured constants and members of any value."""
        return tuple(info for state in self._every() for info in state.infos())

    def compiled(self) -> tuple[tuple[str, Artifact], ...]:
        """Return the target and the code of each of them."""
        return tuple(made for state in self._every() for made in state.compiled())

    def _every(self) -> Iterator[KernelState]:
        every: list[KernelStates] = [self, *self._members.values()]
        for each in dict.fromkeys(every):
            yield from tuple(each._states)
        if self.definition.host is not None:
            yield from self.definition.host._every()


def _shipped_form(
    function: Callable[..., Any], constants: Mapping[str, Any] | None
) -> tuple[FunctionUnit, KernelTraits] | None:
    """Return a kernel as its package describes it, if it does."""
    if not may_be_shipped() or recordings:
        return None
    from kerneldsl.shipping.forms import find_form

    return find_form(function, constants or {})


def _make_unit(
    function: Callable[..., Any],
    constants: Mapping[str, Any] | None,
    follows_numba: bool,
    reads: Callable[[Any], Mapping[str, Any] | None] | None,
) -> tuple[FunctionUnit, KernelTraits]:
    from kerneldsl.analysis.analyze import analyze
    from kerneldsl.frontend.normalize import make_unit

    try:
        unit = make_unit(function, constants=constants, reads=reads, follows_numba=follows_numba)
        return unit, analyze(unit)
    except (RecursionError, CompileError) as error:
        refused = too_deep(error, function)
        if refused is None:
            raise
        raise refused from error


def _is_same(captured: Any) -> bool:
    try:
        return captured.read() is captured.value
    except NameError:
        return False
