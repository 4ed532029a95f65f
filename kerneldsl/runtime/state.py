"""Everything that was made from one normal form of a kernel: traits, artifacts, executables."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kerneldsl.abi import LaunchMode, ParameterLayout
from kerneldsl.analysis.traits import KernelTraits
from kerneldsl.environment import logger
from kerneldsl.errors import KernelError, UnsupportedConstructError
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import ArrayKind, Kind, TupleKind, format_signature
from kerneldsl.planner.choose import Choice
from kerneldsl.runtime.arguments.promise_table import PromiseTable
from kerneldsl.runtime.fallback import PERMANENT, fallback_policy
from kerneldsl.runtime.kept import compile_or_load
from kerneldsl.runtime.once import OnceTable
from kerneldsl.runtime.placement import Place
from kerneldsl.runtime.tally import Tally, tally_of
from kerneldsl.target import (
    NO_PROMISES,
    ONE_EACH,
    Artifact,
    CompileOptions,
    Dim3,
    ElementMapping,
    Executable,
    LaunchConfig,
    Promises,
    Specialization,
    Target,
)

if TYPE_CHECKING:
    from kerneldsl.runtime.specialization_info import SpecializationInfo

__all__ = ["KernelState", "Loaded"]


class Loaded:
    """An executable with what a launch of it needs at hand."""

    __slots__ = ("_in_stream", "configs", "executable", "pack", "tally")

    def __init__(self, executable: Executable, pack: Callable[..., bytes], tally: Tally) -> None:
        self.executable = executable
        self.pack = pack
        #: Counts the launches.
        self.tally = tally
        #: Checked launch configurations, by grid, block, extent and shared memory.
        self.configs: dict[tuple[Any, ...], LaunchConfig] = {}
        #: A configuration, a stream, and the configuration with the stream in it.
        self._in_stream: tuple[LaunchConfig, Any, LaunchConfig] | None = None

    def in_stream(self, config: LaunchConfig, stream: Any) -> LaunchConfig:
        """The configuration with a stream in it, remembered for the next launch."""
        known = self._in_stream
        if known is not None and known[0] is config and known[1] == stream:
            return known[2]
        found = replace(config, stream=stream)
        self._in_stream = (config, stream, found)
        return found


class KernelState:
    """One normal form of a kernel; a captured constant that changes makes another one.

    Attributes
    ----------
    unit : FunctionUnit
        The normal form.
    traits : KernelTraits
        What the analysis found, for arguments that do not overlap.
    captured : tuple of (callable, object)
        What reads each captured constant, and what it was.
    overlap_matters : bool
        Whether the kernel's barriers are judged otherwise when arguments overlap in memory.
    loaded : dict
        Launch key to executable, for the fast path.
    promises : PromiseTable
        What launches have checked of their arguments.
    choices : dict
        Launch key to what was planned for it.
    forms : dict
        All but the promises of what code is compiled for, to the promises it was compiled for.
    """

    __slots__ = (
        "_failures",
        "_known_traits",
        "artifacts",
        "captured",
        "choices",
        "compile_s",
        "executables",
        "forms",
        "loaded",
        "overlap_matters",
        "parameter_count",
        "promises",
        "traits",
        "traits_if_overlapping",
        "unit",
    )

    def __init__(self, unit: FunctionUnit, traits: KernelTraits) -> None:
        self.unit = unit
        self.traits = traits
        self.traits_if_overlapping = replace(
            traits, barrier_problems=traits.barrier_problems_if_overlapping
        )
        self.overlap_matters = traits.barrier_problems != traits.barrier_problems_if_overlapping
        self.captured = tuple((c.read, c.value) for c in unit.captured)
        self.parameter_count = len(unit.parameters)
        #: By name of the target and specialization, as the seconds that compiling took.
        self.artifacts: OnceTable[tuple[str, Specialization], Artifact] = OnceTable()
        self.compile_s: dict[tuple[str, Specialization], float] = {}
        self.executables: OnceTable[tuple[Specialization, Place], Loaded] = OnceTable()
        self.loaded: dict[tuple[Any, ...], Loaded] = {}
        self.promises = PromiseTable(traits)
        self.choices: dict[tuple[Any, ...], Choice] = {}
        self.forms: dict[tuple[Any, ...], list[Promises]] = {}
        #: What failed for good on a device, so that it is not tried at every launch.
        self._failures: dict[tuple[Specialization, Place], KernelError] = {}
        #: Traits for kinds with tuples, whose barriers are judged by what the tuples hold.
        self._known_traits: dict[tuple[tuple[Kind, ...], bool], KernelTraits] = {}

    def is_current(self) -> bool:
        """Whether every captured constant is still the object it was."""
        try:
            return all(read() is value for read, value in self.captured)
        except NameError:  # deleted; making the unit anew says so with the line
            return False

    def artifact(self, target: Target, specialization: Specialization) -> Artifact:
        """Compiled code, made the first time."""
        return self.artifacts.get_or_make(
            (target.name, specialization), lambda: self._compile(target, specialization)
        )

    def specialize(
        self,
        target: Target,
        kinds: tuple[Kind, ...],
        options: CompileOptions,
        mode: LaunchMode,
        block_dim: Dim3 | None,
        arch: str | None,
        is_overlapping: bool,
        ptx_version: str | None = None,
        *,
        mapping: ElementMapping = ONE_EACH,
        promises: Promises = NO_PROMISES,
    ) -> Specialization:
        """What code for these arguments depends on; the rest is left out of it.

        Raises
        ------
        UnsupportedConstructError
            Where an augmented assignment turns out to change an array that was not known to be
            written.
        """
        self._refuse_hidden_writes(kinds)
        return Specialization(
            self.unit,
            self._traits_for(kinds, is_overlapping=is_overlapping and self.overlap_matters),
            kinds,
            options,
            mode,
            block_dim if target.compiles_for_block(self.traits) else None,
            arch,
            ptx_version,
            mapping,
            promises,
        )

    def _traits_for(self, kinds: tuple[Kind, ...], *, is_overlapping: bool) -> KernelTraits:
        """The traits that hold for arguments of some kinds; the same object for the same ones."""
        traits = self.traits_if_overlapping if is_overlapping else self.traits
        if not traits.has_barrier or not any(isinstance(kind, TupleKind) for kind in kinds):
            return traits
        known = self._known_traits.get((kinds, is_overlapping))
        if known is None:
            from kerneldsl.analysis.analyze import analyze

            found = analyze(self.unit, kinds)
            problems = found.barrier_problems
            if is_overlapping:
                problems = found.barrier_problems_if_overlapping
            made = replace(traits, barrier_problems=problems)
            known = self._known_traits.setdefault((kinds, is_overlapping), made)
        return known

    def load(self, place: Place, specialization: Specialization) -> Loaded:
        """Code on a device, compiled and loaded the first time.

        What failed there for good is not tried again, unless the policy of fallback is
        ``"never"``: the same error is raised.
        """
        key = (specialization, place)
        failure = self._failures.get(key)
        if failure is not None and fallback_policy() != "never":
            raise copy.copy(failure) from failure.__cause__
        try:
            return self.executables.get_or_make(key, lambda: self._load(place, specialization))
        except PERMANENT as error:
            if not place.is_host and fallback_policy() != "never":
                # A copy, because lines may be added to the error, and its traceback holds frames.
                self._failures[key] = remembered = copy.copy(error)
                remembered.__cause__ = error.__cause__
            raise

    def _refuse_hidden_writes(self, kinds: tuple[Kind, ...]) -> None:
        """What a kernel writes is known before its arguments' ranks are, and must stay true."""
        for position, index_count, where in self.traits.augmented:
            kind = kinds[position]
            if (
                isinstance(kind, ArrayKind)
                and index_count < kind.ndim
                and position not in self.traits.written
            ):
                name = self.unit.parameters[position]
                indices = "1 index" if index_count == 1 else f"{index_count} indices"
                raise UnsupportedConstructError(
                    f"An augmented assignment changes a view of {name} in place: {name} has "
                    f"{kind.ndim} axes and gets {indices}",
                    where=where,
                    value=kind.ndim,
                    limit="What a kernel writes must be seen without the ranks of its arguments",
                    remedy="Loop over its elements: for j in range(row.size): row[j] += value",
                )

    def _compile(self, target: Target, specialization: Specialization) -> Artifact:
        started = time.perf_counter()
        artifact, how = compile_or_load(target, specialization)
        elapsed = time.perf_counter() - started
        self.compile_s[target.name, specialization] = elapsed
        logger.debug(
            "%s %s(%s) for %s%s in %.1f ms",
            how,
            self.unit.qualname,
            format_signature(specialization.kinds),
            target.name,
            f" {specialization.arch}" if specialization.arch else "",
            elapsed * 1e3,
        )
        return artifact

    def _load(self, place: Place, specialization: Specialization) -> Loaded:
        artifact = self.artifact(place.target, specialization)
        started = time.perf_counter()
        executable = place.target.load(artifact, place.device)
        # The executable itself adds the pointer to the fault record.
        layout = ParameterLayout(self.unit.parameters, specialization.kinds, specialization.mode)
        logger.debug(
            "loaded %s on %s in %.1f ms",
            artifact.entry_name,
            place.name,
            (time.perf_counter() - started) * 1e3,
        )
        kernel = f"{self.unit.module}.{self.unit.qualname}"
        return Loaded(executable, layout.packer.pack, tally_of(kernel, place))

    def infos(self) -> tuple[SpecializationInfo, ...]:
        """What has been compiled so far."""
        from kerneldsl.runtime.specialization_info import SpecializationInfo

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
