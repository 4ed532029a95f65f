"""From a launch over an extent to its plan: what the planner is asked, and what becomes of it.

A plan is made once for each kernel, signature, device, class of extents
(:func:`~kerneldsl.planner.extent_classes.extent_class`) and set of promises that hold; whoever
launches looks it up by a key that holds those. Targets that deal out elements as mappings say
(:attr:`~kerneldsl.target.Target.maps_elements`) are planned for; others choose by themselves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kerneldsl.abi import LaunchMode
from kerneldsl.analysis.count_work import body_work
from kerneldsl.analysis.widening import WideStore, wide_stores
from kerneldsl.analysis.work import UNKNOWN_TRIPS
from kerneldsl.errors import ArgumentValueError, LaunchConfigError
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.kinds import Kind, array_kinds
from kerneldsl.planner.candidates import Candidate, fit_grid
from kerneldsl.planner.choose import Problem
from kerneldsl.planner.limits import DeviceOccupancyLimits
from kerneldsl.planner.orientation import orient
from kerneldsl.planner.rates import DeviceRates
from kerneldsl.planner.work import ElementWork, element_work
from kerneldsl.registry import get_target
from kerneldsl.runtime.arguments.binding import Binding
from kerneldsl.runtime.arguments.promise_table import NOTHING
from kerneldsl.runtime.launch import check_limits
from kerneldsl.runtime.placement import Place
from kerneldsl.runtime.together import in_clusters
from kerneldsl.target import (
    NO_PROMISES,
    ArrayPromises,
    Artifact,
    Device,
    Dim3,
    ElementMapping,
    LaunchConfig,
    Promises,
)
from kerneldsl.target.promises import MAX_ALIGNMENT, is_narrow

if TYPE_CHECKING:
    from kerneldsl.runtime.launch_shape import LaunchShape
    from kerneldsl.runtime.state import KernelState

__all__ = [
    "LaunchKey",
    "assumed_promises",
    "check_grid",
    "described_place",
    "find_wide_stores",
    "host_work",
    "is_planned",
    "launch_key",
    "make_problem",
    "notes_on",
    "planned_config",
    "planned_extents",
    "serves",
    "tiled_config",
    "worthwhile",
]

#: One place for each architecture, as places are compared by identity.
_described: dict[str, Place] = {}

_DOUBLE = re.compile(r"\b(?:add|sub|mul|fma|div|sqrt|rcp|min|max|neg|abs|cvt)\.\S*f64\b")


class LaunchKey(NamedTuple):
    """What an executable and a plan are found by.

    Parameters
    ----------
    codes : tuple of int
        Of the arguments' kinds.
    mode : LaunchMode
        Explicit, or ``forall`` of some rank.
    place : Place
        Where.
    block_dim : tuple of int or None
        The block that was asked for.
    is_overlapping : bool
        Whether arguments overlap and the kernel's barriers are judged by that.
    promises : int
        Number of all that holds of the arguments, in the state's table.
    extents : object
        The class of the extents, or what was asked for in its place; ``None`` where nothing is
        planned.
    """

    codes: tuple[int, ...]
    mode: LaunchMode
    place: Place
    block_dim: Dim3 | None
    is_overlapping: bool
    promises: int
    extents: Any


def launch_key(
    state: KernelState,
    shape: LaunchShape,
    place: Place,
    binding: Binding,
    is_overlapping: bool,
) -> LaunchKey:
    """The key of a launch."""
    promises, extents = NOTHING, None
    if place.target.maps_elements:
        if not (binding.host and not place.is_host):  # those are copied to other addresses
            promises = state.promises.number_of(binding, shape.extent)
        extents = planned_extents(state, shape, place)
    return LaunchKey(
        binding.codes, shape.mode, place, shape.block_dim, is_overlapping, promises, extents
    )


def planned_extents(state: KernelState, shape: LaunchShape, place: Place) -> Any:
    """The class of a launch's extents, or what was asked for in its place."""
    if state.traits.uses_grid_only:  # whose threads walk on where a grid is too small
        return shape.planned_for
    return shape.planned_within(place.device.limits)


def check_grid(shape: LaunchShape, device: Device) -> None:
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


def is_planned(state: KernelState, place: Place, shape: LaunchShape, *, is_debug: bool) -> bool:
    """Whether block and mapping of a launch are the planner's to choose."""
    return (
        shape.extent is not None
        and place.target.maps_elements
        and not state.traits.uses_block
        # Whoever counts indices by blockIdx has said how many a block serves.
        and (shape.tile is None or state.traits.uses_grid_only)
        and not is_debug
    )


def serves(compiled: Promises, found: Promises) -> bool:
    """Whether code compiled for some promises is as good as code for those that were found.

    What the code then does without are tests of indices and wide integers. Arrays that do not
    overlap, and wide accesses, are worth another form.
    """
    return (
        found.cover(compiled)
        and found.is_disjoint == compiled.is_disjoint
        and all(
            mine.alignment == its.alignment
            for mine, its in zip(found.arrays, compiled.arrays, strict=False)
        )
    )


def planned_config(candidate: Candidate, shape: LaunchShape, device: Device) -> LaunchConfig:
    """The configuration of a launch whose block and mapping are decided."""
    assert shape.extent is not None
    grid_dim = fit_grid(
        candidate.mapping, shape.extent, candidate.block_dim, device.limits.max_grid_dim
    )
    if grid_dim is None:
        blocks = candidate.mapping.blocks(shape.extent, candidate.block_dim)
        raise LaunchConfigError(
            f"the extent {shape.extent} needs {blocks} blocks of {candidate.block_dim} threads",
            value=shape.extent,
            limit=f"{device} allows {device.limits.max_grid_dim} (MAX_GRID_DIM)",
            remedy="Use a larger block, or put the longest axis of the extent first",
        )
    return LaunchConfig(
        grid_dim, candidate.block_dim, shape.extent, shared_bytes=shape.shared_bytes
    )


def tiled_config(shape: LaunchShape) -> LaunchConfig:
    """The configuration of a block kernel over an extent, whose first axis is along x.

    Its grid is made of whole clusters where there are any.
    """
    assert shape.extent is not None
    assert shape.block_dim is not None
    along = (*shape.extent, 1, 1)[:3]
    tile = shape.tile or shape.block_dim
    x, y, z = (-(-n // width) for n, width in zip(along, tile, strict=True))
    config = LaunchConfig((x, y, z), shape.block_dim, shape.extent, shared_bytes=shape.shared_bytes)
    cluster_dim = shape.together.cluster_dim
    return config if cluster_dim is None else in_clusters(config, cluster_dim)


def make_problem(
    unit: FunctionUnit,
    kinds: tuple[Kind, ...],
    device: Device,
    extent: tuple[int, ...],
    promises: Promises,
    *,
    block_dim: Dim3 | None,
    shared_bytes: int,
    can_map: bool,
    unknown_trips: float = UNKNOWN_TRIPS,
) -> Problem | None:
    """Say what is to be planned.

    Parameters
    ----------
    unit : FunctionUnit
        The kernel.
    kinds : tuple of Kind
        Of its arguments.
    device : Device
        Where.
    extent : tuple of int
        Positive extents; of their class, for a plan that serves the class.
    promises : Promises
        What holds of the arguments.
    block_dim : tuple of int or None
        The block, where it is given.
    shared_bytes : int
        Dynamic shared memory of a block.
    can_map : bool
        Whether indices may be dealt out otherwise than one to a thread.
    unknown_trips : float
        Rounds that a loop of unknown length is taken to make.

    Returns
    -------
    Problem or None
        ``None`` where too little is known of the device.
    """
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
    uses_double = _uses_double(kinds, find_wide_stores(unit, kinds))
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
        shared_bytes=shared_bytes,
        axes=axes,
    )


def host_work(
    unit: FunctionUnit, kinds: tuple[Kind, ...], *, x_is_last: bool, trips: float
) -> ElementWork:
    """What a body does for one index, on a CPU."""
    return element_work(body_work(unit, x_is_last=x_is_last, unknown_trips=trips), kinds)


def worthwhile(promises: Promises, mapping: ElementMapping) -> Promises:
    """The promises that code with a mapping makes use of; fewer forms are compiled."""
    return promises if promises is NO_PROMISES else promises.for_mapping(mapping)


def find_wide_stores(unit: FunctionUnit, kinds: tuple[Kind, ...]) -> tuple[WideStore, ...]:
    """Stores to float32 arrays of what the source computes in float64."""
    return wide_stores(unit, kinds)


def notes_on(stores: Sequence[WideStore], artifact: Artifact | None) -> tuple[str, ...]:
    """What to say of such stores; nothing where the compiler has narrowed the arithmetic.

    Parameters
    ----------
    stores : sequence of WideStore
        What the source says.
    artifact : Artifact or None
        The compiled code, where there is some; of PTX it is seen whether it computes in float64.
    """
    if artifact is not None and stores:
        try:
            if not _DOUBLE.search(artifact.text("ptx")):
                return ()
        except ValueError:  # a target without PTX
            pass
    return tuple(str(store) for store in stores)


def assumed_promises(kinds: Sequence[Kind], extent: tuple[int, ...] | None) -> Promises:
    """What is taken to hold of arguments of which the kinds alone are known.

    That is what holds of arrays that were made for the extent: they are aligned, apart from each
    other, and as long as it.
    """
    arrays = tuple(
        ArrayPromises(
            MAX_ALIGNMENT if kind.layout != "A" else 1,
            None,
            None,
            extent is not None and kind.ndim == len(extent),
        )
        for kind in array_kinds(kinds)
    )
    extent = extent or ()
    shapes = (extent for each in arrays if each.is_extent)
    return Promises(arrays, is_disjoint=True, is_narrow=is_narrow(extent, shapes))


def described_place(arch: str) -> Place:
    """A place for planning alone: a device of an architecture that is not there.

    Raises
    ------
    ArgumentValueError
        Not enough is known of the architecture.
    """
    known = _described.get(arch)
    if known is None:
        from kerneldsl.planner.described import described_device  # a launch needs none

        place = Place(get_target("cuda"), described_device(arch), is_described=True)
        known = _described.setdefault(arch, place)
    return known


def _uses_double(kinds: Sequence[Kind], stores: Sequence[WideStore]) -> bool:
    return bool(stores) or any(kind.element.is_double for kind in array_kinds(kinds))


def _max_vector(kinds: Sequence[Kind], promises: Promises) -> int:
    """The longest vector, up to 4, that the alignment of any array allows."""
    longest = 1
    for number, kind in enumerate(array_kinds(kinds)):
        alignment = promises.array(number).alignment
        longest = max(longest, min(4, alignment // kind.element.nbytes))
    return 1 << (longest.bit_length() - 1)
