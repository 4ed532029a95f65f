"""The facts about a kernel that targets, dispatch and the planner need."""

from __future__ import annotations

from kerneldsl.analysis.aliases import Augmented
from kerneldsl.errors import SourceLocation
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["AS_ONE", "BarrierProblem", "KernelTraits"]


@dataclass(frozen=True, slots=True)
class BarrierProblem:
    """A barrier that not every thread of a block is known to reach."""

    #: The barrier.
    where: SourceLocation
    #: The condition that varies, in the user's words.
    what: str
    #: How that value comes to vary, from the condition back to its source.
    chain: tuple[str, ...]
    #: Whether the condition depends on the thread's own index; else it could only not be proved
    #: uniform.
    is_provable: bool
    #: What helps, of an operation that a block does as one; of a barrier the target says it.
    remedy: str | None = None


#: Why an operation of a block is refused where single threads differ.
AS_ONE = "Every thread of a block must reach such an operation, with the same arguments"


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
    #: Positions of array parameters (or of tuples with arrays in them) that may be read, written.
    read: frozenset[int]
    written: frozenset[int]
    #: Augmented assignments of what was taken for elements of arrays.
    augmented: tuple[Augmented, ...]
    #: When no two arguments overlap in memory.
    barrier_problems: tuple[BarrierProblem, ...]
    #: When any two may.
    barrier_problems_if_overlapping: tuple[BarrierProblem, ...]
    #: It works on tiles, whose elements are spread over the threads of a block of known size.
    uses_tiles: bool = False
    #: It views arrays as vectors, of which it accesses several elements at once.
    views_vectors: bool = False
    #: Positions of array parameters that every launch takes for the state of a chain.
    chain_states: frozenset[int] = frozenset()
    #: It has a barrier of the whole grid, so that all blocks of a launch run at the same time.
    syncs_grid: bool = False

    @property
    def has_uniform_barriers(self) -> bool:
        """True if all threads reach each barrier, if arrays overlap too, and none is of a chain."""
        is_clear = not (self.barrier_problems or self.barrier_problems_if_overlapping)
        return self.has_barrier and is_clear and not self.chain_states
