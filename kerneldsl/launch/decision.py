"""Plan of a request: block, mapping and member, if the planner chooses them.

A plan is made once for each kernel, signature, device, class of extents
(:func:`~kerneldsl.planner.candidates.extent_class`) and set of promises. The request's key contains
these, and launches look the plan up by it. The planner plans for targets that map elements to
threads by mappings (:attr:`~kerneldsl.contract.Compiler.maps_elements`); other targets choose
themselves. If a kernel has a space, its members are candidates on every target, and the chosen one
is used for all promises.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kerneldsl.analysis.work import UNKNOWN_TRIPS
from kerneldsl.contract import ONE_EACH, ElementMapping, LaunchConfig, Promises, Resources
from kerneldsl.errors import ArgumentValueError, LaunchConfigError
from kerneldsl.language.kinds import Kind, array_kinds
from kerneldsl.launch.attributes import in_clusters
from kerneldsl.launch.dimensions import check_limits
from kerneldsl.launch.request import Request
from kerneldsl.launch.shape import LaunchShape
from kerneldsl.launch.specialize import specialize_anew
from kerneldsl.planner.candidates import Candidate, Choice
from kerneldsl.utilities.formatting import format_count
from kerneldsl.utilities.modules import may_be_shipped

if TYPE_CHECKING:
    from kerneldsl.launch.state import KernelState
    from kerneldsl.planner.choose import Problem
    from kerneldsl.planner.plan import LaunchPlan
    from kerneldsl.planner.space import Member

__all__ = [
    "decide",
    "host_members",
    "is_planned",
    "make_problems",
    "settle",
    "tiled_config",
]

#: Shared memory of a block that stays in a core's cache, and blocks for each thread of the CPU that
#: even out their differences.
_HOST_SHARED_BYTES, _HOST_BLOCKS = 32 * 1024, 4
#: A mapping that is shipped is taken up to this multiple of the best predicted time: compiling
#: another one takes longer than many launches gain.
_MOST_OF_BEST = 1.2
#: Axes of the threads of given blocks.
_BLOCK_AXES = (0, 1, 2)


def is_planned(request: Request) -> bool:
    """Return whether block and mapping, or the member, are the planner's to choose."""
    traits, shape = request.state.traits, request.shape
    if shape.space is not None:
        return True
    return (
        shape.extent is not None
        and request.device.compiler.maps_elements
        and not traits.uses_block
        # A kernel that uses blockIdx declares the number of indices of a block.
        and (shape.tile is None or traits.uses_grid_only)
        and not request.state.options.debug
    )


def decide(
    request: Request, resources_of: Callable[[Problem, ElementMapping], Resources]
) -> Choice | None:
    """Choose block, mapping and member, for the class of the extents.

    Parameters
    ----------
    request : Request
        The launch.
    resources_of : callable
        Compiles the kernel, or a member of its space, for a mapping, and says what it takes.

    Returns
    -------
    Choice or None
        ``None`` where nothing is planned, or too little is known of the device.

    Raises
    ------
    LaunchConfigError, ResourceLimitError
        A given plan is not of this kernel or extent, or no block, mapping and member can run.
    """
    state, shape, key = request.state, request.shape, request.key
    is_shared = shape.extent is not None and request.device.is_shared_out
    if not is_planned(request) and not is_shared:
        return None
    known = state.choices.get(key)
    if known is not None:
        return known
    assert shape.extent is not None
    measured = _measured(request)
    if measured is not None:
        found = Choice(measured, {}, is_measured=True)
    elif not is_planned(request):
        found = Choice(Candidate(shape.block_dim or (1, 1, 1)), {})
    elif shape.space is not None and request.device.is_shared_out:
        best = host_members(request)[0]
        found = Choice(Candidate(best.block_dim, ONE_EACH, best), {})
    elif shape.plan is not None and shape.space is None:
        found = Choice(_given_candidate(state, shape.plan, shape.extent), {})
    else:
        _check_grid(request)
        chosen = _choose(request, resources_of)
        if chosen is None:
            return None
        found = chosen
    settle(request, found)
    return found


def _choose(
    request: Request, resources_of: Callable[[Problem, ElementMapping], Resources]
) -> Choice | None:
    """Choose by the model; nothing is counted for the only member that is taken untuned."""
    untuned = _untuned(request)
    space = untuned.shape.space
    if space is not None and untuned is not request and len(space) == 1:
        (member,) = space
        if not is_planned(request.of(member)):
            mapping = ElementMapping(axes=_BLOCK_AXES, grid_stride="")
            return Choice(Candidate(member.block_dim, mapping, member), {})
    from kerneldsl.planner.choose import choose  # no CPU comes here

    problems = make_problems(untuned, request.extents)
    if problems is None:
        return None
    return choose([_preferring_shipped(request, each) for each in problems], resources_of)


def _preferring_shipped(request: Request, problem: Problem) -> Problem:
    """Choose among the mappings that the kernel's package ships, as long as they are good.

    A package is built for one card of each architecture, and others have other best mappings.
    """
    if not problem.can_map or not may_be_shipped():
        return problem
    from kerneldsl.launch.shipped import is_shipped, ships_anything
    from kerneldsl.planner.choose import preferring

    if not ships_anything(request.state.unit):
        return problem

    compiler = request.device.compiler
    return preferring(
        problem,
        lambda mapping: is_shipped(compiler, specialize_anew(request, mapping)),
        _MOST_OF_BEST,
    )


def _untuned(request: Request) -> Request:
    """Leave out the members of a space that are taken once they were measured alone."""
    space, extent = request.shape.space, request.shape.extent
    if space is None:
        return request
    dtypes = [each.dtype for each in array_kinds(request.kinds)]
    first = space.first_for(request.device, extent or (), dtypes)
    if first is space:
        return request
    return request._replace(shape=request.shape.within(first))


def settle(request: Request, choice: Choice) -> None:
    """Let launches of a request, and of the member that was chosen for it, take a choice."""
    request.state.choices[request.key] = choice
    member = choice.candidate.member
    if member is not None:
        of_member = request.of(member)
        of_member.state.choices[of_member.key] = choice


def _measured(request: Request) -> Candidate | None:
    """Return the candidate that was the fastest when the launch was tuned, if it was."""
    if request.shape.plan is not None or request.device.is_described:
        return None
    if not request.shape.policy.budget.uses_records:
        return None
    from kerneldsl.launch.measured import candidate_of, read_choice, shipped_choice

    known = read_choice(request) or shipped_choice(request)
    return None if known is None else candidate_of(known, request)


def tiled_config(shape: LaunchShape) -> LaunchConfig:
    """Return the configuration of a block kernel over an extent; its first axis is along x.

    If there are clusters, the grid consists of whole clusters.
    """
    assert shape.extent is not None
    assert shape.block_dim is not None
    along = (*shape.extent, 1, 1)[:3]
    tile = shape.tile or shape.block_dim
    x, y, z = (-(-n // width) for n, width in zip(along, tile, strict=True))
    config = LaunchConfig((x, y, z), shape.block_dim, shape.extent, shared_bytes=shape.shared_bytes)
    cluster_dim = shape.launch_attributes.cluster_dim
    return config if cluster_dim is None else in_clusters(config, cluster_dim)


def make_problems(request: Request, extent: tuple[int, ...] | None) -> list[Problem] | None:
    """Return the planning problem, or one for each member if the request selects none.

    - `request`: the launch.
    - `extent`: positive extents; of their class, for a plan that serves the class. ``None`` for a
      launch of grid and block.
    - returns: ``None`` where too little is known of the device.
    - raises `LaunchConfigError`: the same, where the kernel has a space: nothing else says which
      member to take.
    """
    space = request.shape.space
    if space is None:
        found = _make_problem(request, extent)
        return None if found is None else [found]
    problems = []
    for member in space:
        of_member = request.of(member, extent)
        problem = _make_problem(of_member, extent)
        if problem is None:
            name = request.state.unit.qualname
            raise LaunchConfigError(
                f"{name} has a space, and too little is known of "
                f"{request.device.name} to choose from it",
                limit="Occupancy is computed for compute capability 7.5 and newer",
                remedy="Name a member: kernel.member(block=…).forall(…)",
            )
        problems.append(replace(problem, member=member, constants=of_member.state.constants))
    return problems


def _make_problem(request: Request, extent: tuple[int, ...] | None) -> Problem | None:
    from kerneldsl.launch.fitted_models import model_for
    from kerneldsl.launch.work import kernel_work
    from kerneldsl.planner.choose import Problem
    from kerneldsl.planner.limits import DeviceOccupancyLimits
    from kerneldsl.planner.rates import DeviceRates
    from kerneldsl.planner.work import element_work, orient

    kinds, promises = request.kinds, request.promises
    device, shape = request.device, request.shape
    try:
        limits = DeviceOccupancyLimits.from_device(device)
    except ArgumentValueError:  # older than the model of occupancy
        return None
    can_map = is_planned(request) and request.state.traits.uses_grid_only
    trips: float = UNKNOWN_TRIPS
    if extent is None or not is_planned(request):
        extent, trips = _threads(shape)
    counted = kernel_work(request, None if can_map else shape.block_dim)
    body = counted.body(x_is_last=can_map, unknown_trips=trips)
    uses_double = bool(counted.wide_stores) or any(
        kind.element.is_double for kind in array_kinds(kinds)
    )
    axes, seen = None, kinds
    if can_map and len(extent) > 1:
        other = counted.body(x_is_last=False, unknown_trips=trips)
        oriented = orient(body, other, kinds, promises)
        body, seen = oriented.body, oriented.kinds
        axes = tuple(range(len(extent))) if oriented.is_first else None
    work = element_work(body, seen, uses_double=uses_double)
    model = model_for(device)
    return Problem(
        kernel=request.state.unit.qualname,
        extent=extent,
        work=work._replace(
            is_serial=work.is_serial or (not promises.is_disjoint and work.loads > 0)
        ),
        device=device,
        limits=limits,
        rates=model.of_device(DeviceRates.from_device(device)),
        model_constants=model.constants,
        max_vector=_max_vector(kinds, promises),
        can_map=can_map,
        block_dim=shape.block_dim,
        shared_bytes=shape.shared_bytes,
        axes=axes,
    )


def _threads(shape: LaunchShape) -> tuple[tuple[int, ...], float]:
    """Return the threads of a launch with a given block, and the rounds of loops of unknown length.

    Each thread has one index.
    """
    assert shape.block_dim is not None
    blocks = shape.grid_dim if shape.extent is None else tiled_config(shape).grid_dim
    assert blocks is not None
    threads = tuple(g * b for g, b in zip(blocks, shape.block_dim, strict=True))
    if shape.tile is None:
        return threads, UNKNOWN_TRIPS
    # A thread mostly works on several indices in a loop.
    return threads, max(1.0, math.prod(shape.tile) / math.prod(shape.block_dim))


def _check_grid(request: Request) -> None:
    """Refuse an extent that is too large for a grid of any block that may be chosen.

    - raises `LaunchConfigError` naming the driver's limit, its value and the value found.
    """
    shape, device = request.shape, request.device
    if request.state.traits.uses_grid_only:
        return  # its threads walk along axes where a grid is too small
    assert shape.extent is not None
    configs: Iterator[LaunchConfig]
    if shape.space is not None:
        configs = (tiled_config(shape.of(member, shape.extent)) for member in shape.space)
    else:
        mapping = ElementMapping(axes=tuple(range(len(shape.extent))), grid_stride="")
        configs = (
            LaunchConfig(mapping.blocks(shape.extent, block), block)
            for block in shape.blocks_within(device.limits)
        )
    most = device.limits.max_grid_dim
    widest = None
    for widest in configs:
        if all(n <= top for n, top in zip(widest.grid_dim, most, strict=True)):
            return
    assert widest is not None
    check_limits(device, widest.grid_dim, widest.block_dim, 0, 0, shape.extent)


def host_members(request: Request) -> list[Member]:
    """Return the members for a CPU, best first: the largest block with storage that fits a cache.

    Those that launches take before they are tuned come before the others. Threads of a block are
    loops there, which are better long; but each of the machine's threads should have some blocks.
    """
    space, threads = request.shape.space, request.device.limits.multiprocessor_count
    assert space is not None

    def rank(member: Member) -> tuple[bool, bool, bool, int]:
        tile = space.tile(member)
        blocks = math.prod(-(-n // width) for n, width in zip(request.extents, tile, strict=False))
        fits = space.shared_bytes(member) <= _HOST_SHARED_BYTES
        return space.is_first(member), fits, blocks >= _HOST_BLOCKS * threads, member.block_threads

    return sorted(space.members, key=rank, reverse=True)


def _given_candidate(state: KernelState, plan: LaunchPlan, extent: tuple[int, ...]) -> Candidate:
    """Block and mapping of a plan that the caller gave, if the kernel and the extent allow them."""
    mapping, ndim = plan.mapping, len(extent)
    if mapping.axes is not None and len(mapping.axes) != ndim:
        raise LaunchConfigError(
            f"a plan for {format_count(len(mapping.axes), 'axis', 'axes')} was given to a launch "
            f"over {ndim}",
            value=extent,
            limit="A plan applies to extents of as many axes as it was made for",
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


def _max_vector(kinds: Sequence[Kind], promises: Promises) -> int:
    """Return the longest vector, up to 4, that the alignment of any array allows."""
    longest = 1
    for number, kind in enumerate(array_kinds(kinds)):
        alignment = promises.array(number).alignment
        longest = max(longest, min(4, alignment // kind.element.nbytes))
    return 1 << (longest.bit_length() - 1)
