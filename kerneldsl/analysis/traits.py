"""The facts about a kernel that targets, dispatch and the planner need."""

from __future__ import annotations

from kerneldsl.frontend.effects.aliases import Augmented
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["KernelTraits"]


@dataclass(frozen=True)
class KernelTraits:
    """Properties of a kernel, its callees included."""

    #: The kernel uses a block-level operation (shared memory, a barrier, a warp operation). It is
    #: then a *block kernel*, and otherwise an *element kernel*.
    uses_block: bool
    #: The kernel is an element kernel that reads its place by ``grid`` and ``gridsize`` alone. Its
    #: indices may then be mapped to threads in any way.
    uses_grid_only: bool
    #: Ranks with which ``grid`` is called.
    grid_ndims: frozenset[int]
    #: The kernel has a block or warp barrier.
    has_barrier: bool
    #: The kernel declares ``shared.array(0, dtype)``.
    uses_dynamic_shared: bool
    #: Bytes of the static shared arrays, each aligned to 16 bytes.
    static_shared_bytes: int
    #: Positions of array parameters (or of tuples with arrays in them) that may be written.
    written: frozenset[int]
    #: Augmented assignments of values that were assumed to be elements of arrays.
    augmented: tuple[Augmented, ...]
    #: The kernel works on tiles. The threads of a block of known size share their elements.
    uses_tiles: bool = False
    #: The kernel multiplies tiles.
    uses_products: bool = False
    #: The kernel loops over tiles that blocks of any grid take in turn.
    loops_over_tiles: bool = False
    #: The kernel views arrays as vectors, and accesses several elements at once.
    views_vectors: bool = False
    #: The kernel has a shared array of the dtype of some value, so its bytes are not known yet.
    infers_shared: bool = False
    #: The kernel has a barrier of the whole grid, so all blocks of a launch run at the same time.
    syncs_grid: bool = False
    #: The kernel is linked with CUDA C++ or PTX alone, which may have instructions of one
    #: architecture.
    joins_code: bool = False
