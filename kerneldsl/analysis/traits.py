"""The facts about a kernel that targets, dispatch and the planner need."""

from __future__ import annotations

from kerneldsl.frontend.effects.aliases import Augmented
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["KernelTraits"]


@dataclass(frozen=True)
class KernelTraits:
    """Properties of a kernel, its callees included."""

    #: It uses a block-level operation (shared memory, a barrier, a warp operation): a *block
    #: kernel*; else an *element kernel*.
    uses_block: bool
    #: An element kernel that reads its place by ``grid`` and ``gridsize`` alone, so that its
    #: indices may be mapped to threads in any way.
    uses_grid_only: bool
    #: Ranks with which ``grid`` is called.
    grid_ndims: frozenset[int]
    #: It has a block or warp barrier.
    has_barrier: bool
    #: It declares ``shared.array(0, dtype)``.
    uses_dynamic_shared: bool
    #: Bytes of its static shared arrays, each aligned to 16.
    static_shared_bytes: int
    #: Positions of array parameters (or of tuples with arrays in them) that may be written.
    written: frozenset[int]
    #: Augmented assignments of what was taken for elements of arrays.
    augmented: tuple[Augmented, ...]
    #: It works on tiles. The threads of a block of known size share their elements.
    uses_tiles: bool = False
    #: It multiplies tiles.
    uses_products: bool = False
    #: It loops over tiles that blocks of any grid take in turn.
    loops_over_tiles: bool = False
    #: It views arrays as vectors, and accesses several elements at once.
    views_vectors: bool = False
    #: It has a shared array of the dtype of some value, so that its bytes are not known yet.
    infers_shared: bool = False
    #: It has a barrier of the whole grid, so that all blocks of a launch run at the same time.
    syncs_grid: bool = False
    #: It is linked with CUDA C++ or PTX alone, which may have instructions of one architecture.
    joins_code: bool = False
