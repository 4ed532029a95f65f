"""From a launch to an executable and a configuration, made once and found again by its key.

Under ``forall`` of an element kernel the planner decides first: block and mapping, from what the
compiled kernel takes. Everything else is launched in the shape that it was given.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from kerneldsl.analysis.work import UNKNOWN_TRIPS
from kerneldsl.errors import LaunchConfigError, ToolMissingError
from kerneldsl.planner.candidates import Candidate
from kerneldsl.planner.choose import (
    Choice,
    Problem,
    choose,
    estimate_resources,
)
from kerneldsl.planner.host import describe_share, element_ns, share_on_host
from kerneldsl.runtime.arguments.binding import kinds_of
from kerneldsl.runtime.launch import check_limits
from kerneldsl.runtime.placement import Place
from kerneldsl.runtime.planning import (
    LaunchKey,
    check_grid,
    find_wide_stores,
    host_work,
    is_planned,
    make_problem,
    notes_on,
    planned_config,
    serves,
    tiled_config,
    worthwhile,
)
from kerneldsl.runtime.state import KernelState, Loaded
from kerneldsl.runtime.together import ALONE, check_together, in_clusters
from kerneldsl.target import (
    ONE_EACH,
    Artifact,
    CompileOptions,
    Dim3,
    ElementMapping,
    HostShare,
    LaunchConfig,
    Promises,
    Resources,
    Specialization,
)

if TYPE_CHECKING:
    from kerneldsl.planner.plan import LaunchPlan
    from kerneldsl.runtime.launch_shape import LaunchShape

__all__ = ["Loader"]

#: Checked configurations of one executable that are remembered.
_MAX_CONFIGS = 1024


class Loader:
    """Finds, or makes, what the launches of one kernel need.

    Parameters
    ----------
    options : CompileOptions
        The kernel's.
    """

    def __init__(self, options: CompileOptions) -> None:
        self.options = options

    # ----------------------------------------------------------------- launching

    def load(self, state: KernelState, place: Place, shape: LaunchShape, key: LaunchKey) -> Loaded:
        """Code for a launch, on its device."""
        mapping = self._mapping(state, place, shape, key)
        promises = worthwhile(state.promises[key.promises], mapping)
        loaded = state.loaded[key] = self._load_form(state, key, mapping, promises)
        return loaded

    def asked_for(self, state: KernelState, shape: LaunchShape, key: LaunchKey) -> Specialization:
        """What a launch would be compiled for, were nothing compiled for its kernel yet."""
        mapping = self._mapping(state, key.place, shape, key)
        promises = worthwhile(state.promises[key.promises], mapping)
        return self._specialize(state, key, mapping, promises)

    def _mapping(
        self, state: KernelState, place: Place, shape: LaunchShape, key: LaunchKey
    ) -> ElementMapping:
        """How a launch deals out its indices."""
        if is_planned(state, place, shape, is_debug=self.options.debug):
            choice = self._choice(state, shape, key)
            if choice is not None and state.traits.uses_grid_only:
                return choice.candidate.mapping
        return ONE_EACH

    def configure(
        self, state: KernelState, place: Place, loaded: Loaded, shape: LaunchShape, key: LaunchKey
    ) -> LaunchConfig:
        """Grid and block of a launch, checked."""
        choice = state.choices.get(key)
        if shape.extent is not None and choice is not None:
            config = planned_config(choice.candidate, shape, place.device)
        elif shape.extent is not None and shape.tile is not None:
            config = tiled_config(shape)
            check_limits(place.device, config.grid_dim, config.block_dim, 0, 0, shape.extent)
        elif shape.extent is not None:
            config = place.target.forall_config(loaded.executable, shape.extent, shape.block_dim)
            config = replace(config, extent=shape.extent, shared_bytes=shape.shared_bytes)
            check_limits(place.device, config.grid_dim, config.block_dim, 0, 0, shape.extent)
        else:
            assert shape.grid_dim is not None
            assert shape.block_dim is not None
            config = LaunchConfig(shape.grid_dim, shape.block_dim, shared_bytes=shape.shared_bytes)
        if shape.together != ALONE:
            config = self._together(state, loaded, shape, config)
        if place.is_host:
            given = None if shape.plan is None else shape.plan.host
            share = given or self._share(state, place, key, config)
            config = replace(config, share=share)
        if len(loaded.configs) >= _MAX_CONFIGS:
            loaded.configs.clear()
        loaded.configs[shape.key] = config
        return config

    def _share(
        self, state: KernelState, place: Place, key: LaunchKey, config: LaunchConfig
    ) -> HostShare | None:
        """How threads of the host share a launch."""
        pool = place.target.thread_pool()
        if pool is None:
            return None
        extent = config.extent or ()
        trips: float = UNKNOWN_TRIPS
        if config.extent is None or state.traits.uses_block:
            threads = math.prod(config.grid_dim) * math.prod(config.block_dim)
            trips = max(trips, math.prod(extent) / max(threads, 1)) if config.extent else trips
            extent = (threads,)
        is_mapped = state.traits.uses_grid_only and config.extent is not None
        work = host_work(state.unit, kinds_of(key.codes), x_is_last=is_mapped, trips=trips)
        return share_on_host(math.prod(extent), element_ns(work, extent), *pool)

    def _together(
        self, state: KernelState, loaded: Loaded, shape: LaunchShape, config: LaunchConfig
    ) -> LaunchConfig:
        """The configuration of a launch whose blocks run together, checked."""
        name, together = state.unit.qualname, shape.together
        if shape.extent is not None and not state.traits.uses_block:
            raise LaunchConfigError(
                f"forall of the element kernel {name} was given cluster or cooperative",
                value=together,
                limit="Blocks that run together are of use to kernels that work with their block",
                remedy=f"Leave them out, or launch {name}[grid, block](…)",
            )
        if together.cluster_dim is not None and shape.extent is not None:
            config = in_clusters(config, together.cluster_dim)
        config = replace(
            config, cluster_dim=together.cluster_dim, is_cooperative=together.is_cooperative
        )
        executable = loaded.executable
        resources = None if executable.device.target == "cpu" else executable.resources
        check_together(name, config, executable.device, resources)
        return config

    def _load_form(
        self, state: KernelState, key: LaunchKey, mapping: ElementMapping, promises: Promises
    ) -> Loaded:
        """Code with a mapping, for promises that hold: what is compiled already, if it will do."""
        form = (*key[:-2], mapping)
        known = state.forms.setdefault(form, [])
        promises = next((each for each in known if serves(each, promises)), promises)
        loaded = state.load(key.place, self._specialize(state, key, mapping, promises))
        if promises not in known:
            known.append(promises)
        return loaded

    def _specialize(
        self, state: KernelState, key: LaunchKey, mapping: ElementMapping, promises: Promises
    ) -> Specialization:
        return state.specialize(
            key.place.target,
            kinds_of(key.codes),
            self.options,
            key.mode,
            key.block_dim,
            key.place.device.arch,
            key.is_overlapping,
            mapping=mapping,
            promises=promises,
        )

    # ------------------------------------------------------------------ planning

    def _choice(self, state: KernelState, shape: LaunchShape, key: LaunchKey) -> Choice | None:
        """Block and mapping of a launch, decided for the class of its extents."""
        known = state.choices.get(key)
        if known is not None:
            return known
        assert shape.extent is not None
        if shape.plan is not None:
            found = Choice(_given_candidate(state, shape.plan, shape.extent), {})
        else:
            if not state.traits.uses_grid_only:
                check_grid(shape, key.place.device)
            problem = self._problem(state, shape, key, key.extents)
            if problem is None:
                return None
            found = choose(problem, lambda mapping: self.resources(state, key, problem, mapping))
        state.choices[key] = found
        return found

    def _problem(
        self, state: KernelState, shape: LaunchShape, key: LaunchKey, extent: tuple[int, ...]
    ) -> Problem | None:
        return make_problem(
            state.unit,
            kinds_of(key.codes),
            key.place.device,
            extent,
            state.promises[key.promises],
            block_dim=shape.block_dim,
            shared_bytes=shape.shared_bytes,
            can_map=state.traits.uses_grid_only,
        )

    def resources(
        self, state: KernelState, key: LaunchKey, problem: Problem, mapping: ElementMapping
    ) -> Resources:
        """What the kernel takes with a mapping, compiled for that."""
        used = mapping if problem.can_map else ONE_EACH
        promises = worthwhile(state.promises[key.promises], used)
        if not key.place.is_described:
            return self._load_form(state, key, used, promises).executable.resources
        artifact = self._artifact(state, key, used)
        try:
            return artifact.resources()
        except ToolMissingError:  # no assembler on this machine
            return estimate_resources(problem, mapping, {})

    def _artifact(self, state: KernelState, key: LaunchKey, mapping: ElementMapping) -> Artifact:
        promises = worthwhile(state.promises[key.promises], mapping)
        known = state.forms.get((*key[:-2], mapping), [])
        promises = next((each for each in known if serves(each, promises)), promises)
        specialization = self._specialize(state, key, mapping, promises)
        return state.artifact(key.place.target, specialization)

    def plan(self, state: KernelState, shape: LaunchShape, key: LaunchKey) -> LaunchPlan:
        """The plan of a launch, with its reasons."""
        if shape.extent is not None and 0 in shape.extent:
            return replace(
                _bare(state, shape, key, (0, 0, 0)),
                reasons=("The extent is empty: nothing is launched.",),
            )
        if is_planned(state, key.place, shape, is_debug=self.options.debug):
            plan = self._decided(state, shape, key)
        else:
            plan = self._given(state, shape, key)
        if plan is None and key.place.is_host:
            return self._on_host(state, shape, key)
        if plan is None:
            return replace(
                _bare(state, shape, key, shape.grid_dim or (1, 1, 1)),
                reasons=("Too little is known of the device for more to be said.",),
            )
        mapping = plan.mapping if state.traits.uses_grid_only and key.mode.is_forall else ONE_EACH
        return replace(
            plan,
            device=key.place.name,
            notes=self._notes(state, key, mapping),
            cluster_dim=shape.together.cluster_dim,
            is_cooperative=shape.together.is_cooperative,
        )

    def _decided(self, state: KernelState, shape: LaunchShape, key: LaunchKey) -> LaunchPlan | None:
        """The plan of a launch whose block and mapping are the planner's to choose."""
        from kerneldsl.planner.describe import describe

        assert shape.extent is not None
        choice = self._choice(state, shape, key)
        problem = self._problem(state, shape, key, shape.extent)
        if choice is None or problem is None:
            return None
        if not choice.compiled:
            mapping = choice.candidate.mapping
            resources = self.resources(state, key, problem, mapping)
            choice = Choice(choice.candidate, {mapping: resources})
        return describe(problem, choice)

    def _given(self, state: KernelState, shape: LaunchShape, key: LaunchKey) -> LaunchPlan | None:
        """The plan of a launch whose shape is given: what it does to the device."""
        from kerneldsl.planner.describe import describe

        if key.place.is_host or shape.block_dim is None:
            return None
        problem = self.given_problem(state, shape, key)
        if problem is None:
            return None
        (mapping,) = problem.mappings()
        resources = self.resources(state, key, problem, mapping)
        plan = describe(problem, Choice(Candidate(shape.block_dim, mapping), {mapping: resources}))
        return replace(plan, extent=shape.extent, considered_count=0)

    def _on_host(self, state: KernelState, shape: LaunchShape, key: LaunchKey) -> LaunchPlan:
        """The plan of a launch on the CPU: how its threads share the work."""
        loaded = self.load(state, key.place, shape, key)
        config = self.configure(state, key.place, loaded, shape, key)
        plan = _bare(state, shape, key, config.grid_dim)
        pool = key.place.target.thread_pool()
        reasons: tuple[str, ...] = ()
        if config.share is not None and pool is not None:
            reasons = describe_share(config.share, *pool)
        return replace(
            plan, block_dim=config.block_dim, host=config.share, reasons=reasons, notes=()
        )

    def given_problem(
        self, state: KernelState, shape: LaunchShape, key: LaunchKey
    ) -> Problem | None:
        """What there is to say of a launch whose block is given: one index for each thread."""
        assert shape.block_dim is not None
        blocks = shape.grid_dim if shape.extent is None else tiled_config(shape).grid_dim
        assert blocks is not None
        threads = tuple(g * b for g, b in zip(blocks, shape.block_dim, strict=True))
        trips: float = UNKNOWN_TRIPS
        if shape.tile is not None:
            # What a thread does for several indices, it mostly does in a loop.
            trips = max(1.0, math.prod(shape.tile) / math.prod(shape.block_dim))
        return make_problem(
            state.unit,
            kinds_of(key.codes),
            key.place.device,
            threads,
            state.promises[key.promises],
            block_dim=shape.block_dim,
            shared_bytes=shape.shared_bytes,
            can_map=False,
            unknown_trips=trips,
        )

    def plans(
        self, state: KernelState, shape: LaunchShape, key: LaunchKey
    ) -> tuple[LaunchPlan, ...]:
        """Every legal plan, the best first."""
        from kerneldsl.planner.describe import every_plan

        if is_planned(state, key.place, shape, is_debug=self.options.debug):
            assert shape.extent is not None
            problem = None if 0 in shape.extent else self._problem(state, shape, key, shape.extent)
            if problem is not None:
                compiled = {
                    each: self.resources(state, key, problem, each) for each in problem.mappings()
                }
                return tuple(
                    replace(each, device=key.place.name) for each in every_plan(problem, compiled)
                )
        return (self.plan(state, shape, key),)

    def _notes(
        self, state: KernelState, key: LaunchKey, mapping: ElementMapping
    ) -> tuple[str, ...]:
        stores = find_wide_stores(state.unit, kinds_of(key.codes))
        return notes_on(stores, self._artifact(state, key, mapping) if stores else None)


def _given_candidate(state: KernelState, plan: LaunchPlan, extent: tuple[int, ...]) -> Candidate:
    """Block and mapping of a plan that the caller gave, if the kernel and the extent allow them."""
    mapping, ndim = plan.mapping, len(extent)
    if mapping.axes is not None and len(mapping.axes) != ndim:
        raise LaunchConfigError(
            f"a plan for {len(mapping.axes)} axes was given to a launch over {ndim}",
            value=extent,
            limit="A plan is taken for extents of as many axes as it was made for",
            remedy="Plan this extent: kernel.forall(*extent).plan(...)",
        )
    if state.traits.uses_grid_only:
        return Candidate(plan.block_dim, mapping)
    if mapping.item_count > 1:
        raise LaunchConfigError(
            f"a plan with {mapping.item_count} indices a thread was given to {state.unit.name}",
            value=mapping.items,
            limit="A kernel that reads threadIdx, blockIdx or blockDim has one index a thread",
            remedy="dataclasses.replace(plan, mapping=kd.ElementMapping()) keeps the block alone",
        )
    return Candidate(plan.block_dim, ElementMapping(axes=tuple(range(ndim)), grid_stride=""))


def _bare(state: KernelState, shape: LaunchShape, key: LaunchKey, grid_dim: Dim3) -> LaunchPlan:
    """A plan of which the device alone is known."""
    from kerneldsl.planner.plan import LaunchPlan

    return LaunchPlan(
        kernel=state.unit.qualname,
        device=key.place.name,
        arch=key.place.device.arch,
        extent=shape.extent,
        grid_dim=grid_dim,
        block_dim=shape.block_dim or (1, 1, 1),
        shared_bytes=shape.shared_bytes,
    )
