"""Compute all traits of a kernel from its normal form, in one call."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from kerneldsl.analysis.traits import KernelTraits
from kerneldsl.frontend.effects.effects import augmented_values, syncs_grid, written_parameters
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.intrinsics.intrinsic import BLOCK_LEVEL, Effect, Typing
from kerneldsl.language.kinds import ArrayKind, Kind

__all__ = ["SHARED_ALIGNMENT", "analyze", "shared_array_sizes", "traits_for"]

_PLACE = ("threadIdx.", "blockIdx.", "blockDim.", "gridDim.")
#: Every shared array starts at a multiple of this many bytes.
SHARED_ALIGNMENT = 16


def analyze(unit: FunctionUnit) -> KernelTraits:
    """Collect the facts about a kernel."""
    uses = list(unit.all_uses())
    uses_block = any(use.intrinsic.effect & BLOCK_LEVEL or use.intrinsic.is_of_lane for use in uses)
    reads_place = any(use.intrinsic.name.startswith(_PLACE) for use in uses)
    shared = [use for use in uses if use.intrinsic.effect & Effect.ALLOCATE_SHARED]
    return KernelTraits(
        uses_block=uses_block,
        uses_grid_only=not uses_block and not reads_place,
        grid_ndims=frozenset(
            use.static["ndim"] for use in uses if use.intrinsic.name in ("grid", "gridsize")
        ),
        has_barrier=any(use.intrinsic.is_barrier for use in uses),
        uses_dynamic_shared=any(use.static["shape"] == (0,) for use in shared),
        static_shared_bytes=sum(_aligned(_size(use)) for use in shared) + group_bytes(uses),
        written=written_parameters(unit),
        augmented=augmented_values(unit),
        uses_tiles=unit.uses_tiles(),
        uses_products=any(use.intrinsic.name == "mma" for use in uses),
        loops_over_tiles=any(use.intrinsic.name == "tiles" for use in uses),
        views_vectors=any(use.intrinsic.typing is Typing.VIEW for use in uses),
        infers_shared=any(use.static["dtype"] is None for use in shared),
        syncs_grid=syncs_grid(unit),
        joins_code=_joins_code(unit),
    )


def _joins_code(unit: FunctionUnit) -> bool:
    """Return whether a kernel is linked with code in text, and with nothing else."""
    forms = {file.form for code in unit.linked_functions().values() for file in code.files}
    if not forms:
        return False
    from kerneldsl.frontend.linked_code import CodeForm

    return forms <= {CodeForm.CUDA, CodeForm.PTX}


def traits_for(unit: FunctionUnit, traits: KernelTraits, kinds: tuple[Kind, ...]) -> KernelTraits:
    """Return the facts about a kernel for arguments of some kinds.

    An array of the dtype of what is no argument of the kernel counts as one of 8-byte elements.
    """
    nbytes = sum(map(_aligned, shared_array_sizes(unit, kinds))) + group_bytes(unit.all_uses())
    return replace(traits, static_shared_bytes=nbytes)


def shared_array_sizes(unit: FunctionUnit, kinds: tuple[Kind, ...]) -> list[int]:
    """Return the bytes of each static shared array, for arguments of some kinds."""
    known = dict(zip(unit.parameters, kinds, strict=True))
    inferred = {
        id(use): kind.dtype
        for use, parameter in unit.uses_of_dtypes()
        if isinstance(kind := known.get(parameter), ArrayKind)
    }
    return [
        size
        for use in unit.all_uses()
        if use.intrinsic.effect & Effect.ALLOCATE_SHARED
        and (size := _size(use, inferred.get(id(use))))
    ]


def group_bytes(uses: Iterable[IntrinsicUse]) -> int:
    """Return the bytes of shared memory that all operations on a block's values take together."""
    needed = (use.intrinsic.shared_bytes for use in uses)
    return max(needed, default=0)


def _size(use: IntrinsicUse, inferred: str | None = None) -> int:
    dtype = use.static["dtype"] or inferred or "float64"
    size: int = math.prod(use.static["shape"]) * ELEMENT_TYPES[dtype].nbytes
    return size


def _aligned(size: int) -> int:
    """Return the bytes of an array up to where the next may start."""
    return -(-size // SHARED_ALIGNMENT) * SHARED_ALIGNMENT
