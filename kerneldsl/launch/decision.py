"""From a request to its plan: block and mapping, where they are the planner's to choose.

A plan is made once for each kernel, signature, device, class of extents
(:func:`~kerneldsl.planner.extent_classes.extent_class`) and set of promises that hold; whoever
launches looks it up by the request's key, which holds those. Targets that deal out elements as
mappings say (:attr:`~kerneldsl.target.Target.maps_elements`) are planned for; others choose by
themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kerneldsl.analysis.count_work import body_work
from kerneldsl.analysis.widening import WideStore, wide_stores
from kerneldsl.analysis.work import UNKNOWN_TRIPS
from kerneldsl.errors import ArgumentValueError, LaunchConfigError
from kerneldsl.language.kinds import Kind, array_kinds
from kerneldsl.launch.dimensions import check_limits
from kerneldsl.launch.request import Request
from kerneldsl.launch.shape import LaunchShape
from kerneldsl.planner.candidates import Candidate, fit_grid
from kerneldsl.planner.choose import Choice, Problem, choose
from kerneldsl.planner.limits import DeviceOccupancyLimits
from kerneldsl.planner.orientation import orient
from kerneldsl.planner.rates import DeviceRates
from kerneldsl.planner.work import element_work
from kerneldsl.target import (
    ONE_EACH,
    Device,
    ElementMapping,
    Promises,
    Resources,
)

if TYPE_CHECKING:
    from kerneldsl.launch.state import KernelState
    from kerneldsl.planner.plan import LaunchPlan

__all__ = ["decide", "is_planned", "make_problem", "mapping_of", "wide_stores_of"]


def is_planned(request: Request) -> bool:
    """Whether block and mapping of a launch are the planner's to choose."""
    traits, shape = request.state.traits, request.shape
    return (
        shape.extent is not None
        and request.place.compiler.maps_elements
        and not traits.uses_block
        # Whoever counts indices by blockIdx has said how many a block serves.
        and (shape.tile is None or traits.uses_grid_only)
        and not request.state.options.debug
    )


def decide(
    request: Request, resources_of: Callable[[Problem, ElementMapping], Resources]
) -> Choice | None:
    """Choose block and mapping, for the class of the extents.

    Parameters
    ----------
    request : Request
        The launch.
    resources_of : callable
        Compiles the kernel for a mapping, and says what it takes.

    Returns
    -------
    Choice or None
        ``None`` where nothing is planned, or too little is known of the device.

    Raises
    ------
    LaunchConfigError, ResourceLimitError
        A given plan is not of this kernel or extent, or no block and mapping can run.
    """
    if not is_planned(request):
        return None
    state, shape, key = request.state, request.shape, request.key
    known = state.choices.get(key)
    if known is not None:
        return known
    assert shape.extent is not None
    if shape.plan is not None:
        found = Choice(_given_candidate(state, shape.plan, shape.extent), {})
    else:
        if not state.traits.uses_grid_only:
            _check_grid(shape, request.place)
        problem = make_problem(request, request.extents)
        if problem is None:
            return None
        found = choose(problem, lambda mapping: resources_of(problem, mapping))
    state.choices[key] = found
    return found


def mapping_of(request: Request, choice: Choice | None) -> ElementMapping:
    """How the indices of a launch are mapped to threads."""
    if choice is None or not request.state.traits.uses_grid_only:
        return ONE_EACH
    return choice.candidate.mapping


def make_problem(
    request: Request,
    extent: tuple[int, ...],
    *,
    can_map: bool | None = None,
    unknown_trips: float = UNKNOWN_TRIPS,
) -> Problem | None:
    """Say what is to be planned.

    Parameters
    ----------
    request : Request
        The launch.
    extent : tuple of int
        Positive extents; of their class, for a plan that serves the class.
    can_map : bool, optional
        Whether indices may be mapped otherwise than one to a thread; by default where the kernel
        uses ``grid`` alone.
    unknown_trips : float
        Rounds that a loop of unknown length is taken to make.

    Returns
    -------
    Problem or None
        ``None`` where too little is known of the device.
    """
    unit, kinds, promises = request.state.unit, request.kinds, request.promises
    device, block_dim = request.place, request.shape.block_dim
    if can_map is None:
        can_map = request.state.traits.uses_grid_only
    try:
        limits = DeviceOccupancyLimits.from_device(device)
    except ArgumentValueError:  # older than the model of occupancy
        return None
    body = body_work(
        unit,
        x_is_last=can_map,
        unknown_trips=unknown_trips,
        block_dim=None if can_map else block_dim,
    )
    uses_double = _uses_double(kinds, wide_stores_of(request))
    axes, seen = None, kinds
    if can_map and len(extent) > 1:
        other = body_work(unit, x_is_last=False, unknown_trips=unknown_trips)
        oriented = orient(body, other, kinds, promises)
        body, seen = oriented.body, oriented.kinds
        axes = tuple(range(len(extent))) if oriented.is_first else None
    work = element_work(body, seen, uses_double=uses_double)
    return Problem(
        kernel=unit.qualname,
        extent=extent,
        work=work._replace(is_serial=not promises.is_disjoint and work.loads > 0),
        device=device,
        limits=limits,
        rates=DeviceRates.from_device(device),
        max_vector=_max_vector(kinds, promises),
        can_map=can_map,
        block_dim=block_dim,
        shared_bytes=request.shape.shared_bytes,
        axes=axes,
    )


def wide_stores_of(request: Request) -> tuple[WideStore, ...]:
    """Stores to float32 arrays of what the source computes in float64."""
    return wide_stores(request.state.unit, request.kinds)


def _check_grid(shape: LaunchShape, device: Device) -> None:
    """Refuse an extent that is too large for a grid of any block that may be chosen.

    Raises
    ------
    LaunchConfigError
        Naming the driver's limit, its value and the value found.
    """
    assert shape.extent is not None
    mapping = ElementMapping(axes=tuple(range(len(shape.extent))), grid_stride="")
    most = device.limits.max_grid_dim
    blocks = shape.blocks_within(device.limits)
    if not any(fit_grid(mapping, shape.extent, block, most) for block in blocks):
        widest = blocks[-1]
        grid_dim = mapping.blocks(shape.extent, widest)
        check_limits(device, grid_dim, widest, 0, 0, shape.extent)


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


def _uses_double(kinds: Sequence[Kind], stores: Sequence[WideStore]) -> bool:
    return bool(stores) or any(kind.element.is_double for kind in array_kinds(kinds))


def _max_vector(kinds: Sequence[Kind], promises: Promises) -> int:
    """The longest vector, up to 4, that the alignment of any array allows."""
    longest = 1
    for number, kind in enumerate(array_kinds(kinds)):
        alignment = promises.array(number).alignment
        longest = max(longest, min(4, alignment // kind.element.nbytes))
    return 1 << (longest.bit_length() - 1)
