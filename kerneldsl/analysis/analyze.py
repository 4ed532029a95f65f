"""From a kernel's normal form to its traits: one call for everything the core asks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from kerneldsl.analysis.effects import Effects, array_effects, augmented_values, syncs_grid
from kerneldsl.analysis.tile_shapes import uses_tiles
from kerneldsl.analysis.traits import BarrierProblem, KernelTraits
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.intrinsics.intrinsic import BLOCK_LEVEL, Effect, Typing
from kerneldsl.language.kinds import Kind, TupleKind, array_kinds

__all__ = ["SHARED_ALIGNMENT", "analyze", "shared_array_bytes", "tuple_parameters"]

_PLACE = ("threadIdx.", "blockIdx.", "blockDim.", "gridDim.")
#: Every shared array starts at a multiple of this many bytes.
SHARED_ALIGNMENT = 16


def analyze(
    unit: FunctionUnit,
    kinds: Sequence[Kind] = (),
    *,
    has_uniform_barriers: bool = False,
    effects: Effects | None = None,
) -> KernelTraits:
    """Collect the facts about a kernel.

    Kinds of arguments are needed where :func:`tuple_parameters` names any: what an index takes out
    of a tuple of arrays has not the shape of what another index takes. `has_uniform_barriers` says
    that an earlier analysis of the same unit found what :attr:`KernelTraits.has_uniform_barriers`
    tests; the barriers are then not analyzed again. `effects` is what :func:`array_effects` found
    of it, if it assigns no array in place.

    Raises `UnsupportedConstructError` where a device function with a barrier is called in a place
    that is only sometimes evaluated, and where a block may not do its part of a chain once, and
    `BarrierDivergenceError` where a thread may not reach a barrier of the grid.
    """
    uses = list(unit.all_uses())
    uses_block = any(use.intrinsic.effect & BLOCK_LEVEL or use.intrinsic.is_of_lane for use in uses)
    has_barrier = any(use.intrinsic.is_barrier for use in uses)
    reads_place = any(use.intrinsic.name.startswith(_PLACE) for use in uses)
    shared = [use for use in uses if use.intrinsic.effect & Effect.ALLOCATE_SHARED]
    problems: tuple[BarrierProblem, ...] = ()
    overlapping: tuple[BarrierProblem, ...] = ()
    states = frozenset[int]()
    if has_barrier and not has_uniform_barriers:
        # Kernels without barriers need none of this, and their launches import as little as may be.
        from kerneldsl.analysis.chains import chain_states, check_chains
        from kerneldsl.analysis.grid_barriers import check_grid_barriers
        from kerneldsl.analysis.inline import inline_block_functions
        from kerneldsl.analysis.uniformity import barrier_problems

        flat = inline_block_functions(unit)
        problems, overlapping = barrier_problems(flat, tuple_parameters(unit, kinds))
        overlapping += check_grid_barriers(flat, tuple_parameters(unit, kinds))
        check_chains(flat, tuple_parameters(unit, kinds))
        states = chain_states(flat)
    read, written = array_effects(unit) if effects is None else effects
    return KernelTraits(
        uses_block=uses_block,
        uses_grid_only=not uses_block and not reads_place,
        grid_ndims=frozenset(
            use.static["ndim"] for use in uses if use.intrinsic.name in ("grid", "gridsize")
        ),
        has_barrier=has_barrier,
        uses_dynamic_shared=any(use.static["shape"] == (0,) for use in shared),
        static_shared_bytes=sum(shared_array_bytes(use) for use in shared) + group_bytes(uses),
        read=read,
        written=written,
        augmented=augmented_values(unit) if effects is None else (),
        barrier_problems=problems,
        barrier_problems_if_overlapping=overlapping,
        uses_tiles=uses_tiles(unit),
        views_vectors=any(use.intrinsic.typing is Typing.VIEW for use in uses),
        chain_states=states,
        syncs_grid=syncs_grid(unit),
    )


def tuple_parameters(unit: FunctionUnit, kinds: Sequence[Kind]) -> frozenset[str]:
    """Return the parameters that are tuples with arrays in them."""
    pairs = zip(unit.parameters, kinds, strict=False)
    return frozenset(
        name for name, kind in pairs if isinstance(kind, TupleKind) and any(array_kinds([kind]))
    )


def group_bytes(uses: Iterable[IntrinsicUse]) -> int:
    """Return the bytes of shared memory that all operations on a block's values take together."""
    needed = (use.intrinsic.shared_bytes for use in uses)
    return max(needed, default=0)


def shared_array_bytes(use: IntrinsicUse) -> int:
    """Return the bytes of a shared array, rounded up to the next's alignment; 0 if dynamic."""
    size: int = math.prod(use.static["shape"]) * ELEMENT_TYPES[use.static["dtype"]].nbytes
    return -(-size // SHARED_ALIGNMENT) * SHARED_ALIGNMENT
