"""How each compute capability hands out registers and shared memory, which no driver tells.

References
----------
CUDA C++ Programming Guide, "Compute Capabilities", table "Technical Specifications per Compute
Capability"; NVIDIA's header ``cuda_occupancy.h`` of CUDA 13.5.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

__all__ = ["COMPUTE_CAPABILITIES", "KB", "RULES", "AllocationRules", "ComputeCapability"]

#: Major and minor.
ComputeCapability: TypeAlias = tuple[int, int]

#: Bytes of a KB, as CUDA's documents count.
KB = 1024

# Sizes in KB that the memory shared with the L1 cache can be given, smallest first.
_TURING = (32, 64)
_UP_TO_100 = (0, 8, 16, 32, 64, 100)
_UP_TO_164 = (*_UP_TO_100, 132, 164)
_UP_TO_228 = (*_UP_TO_164, 196, 228)
_UP_TO_328 = (*_UP_TO_228, 328)


class AllocationRules(NamedTuple):
    """What a compute capability fixes.

    Parameters
    ----------
    threads : int or None
        Threads on a multiprocessor; ``None`` where NVIDIA has not published it.
    blocks : int
        Blocks on a multiprocessor.
    carveouts : tuple of int
        Sizes of shared memory a multiprocessor can be set to, KB, ascending.
    shared_unit : int
        Bytes that shared memory of a block is rounded up to.
    reserved : int
        Bytes of shared memory that the driver takes of each block.
    barriers_per_block : int or None
        Barriers there are for each block that a multiprocessor has room for; ``None`` where they
        are no limit.
    virtual_resources : int or None
        Virtual resources of a multiprocessor; ``None`` where there are none.
    """

    threads: int | None
    blocks: int
    carveouts: tuple[int, ...]
    shared_unit: int = 128
    reserved: int = KB
    barriers_per_block: int | None = None
    virtual_resources: int | None = None


#: The rules, by compute capability, oldest first.
RULES: dict[ComputeCapability, AllocationRules] = {
    (7, 5): AllocationRules(1024, 16, _TURING, shared_unit=256, reserved=0),
    (8, 0): AllocationRules(2048, 32, _UP_TO_164),
    (8, 6): AllocationRules(1536, 16, _UP_TO_100),
    (8, 7): AllocationRules(1536, 16, _UP_TO_164),
    (8, 8): AllocationRules(1536, 16, _UP_TO_100),
    (8, 9): AllocationRules(1536, 24, _UP_TO_100),
    (9, 0): AllocationRules(2048, 32, _UP_TO_228, barriers_per_block=2),
    (10, 0): AllocationRules(2048, 32, _UP_TO_228, barriers_per_block=2, virtual_resources=128),
    # CUDA 13 calls it 11.0, and published its threads under that number.
    (10, 1): AllocationRules(1536, 24, _UP_TO_228, barriers_per_block=1, virtual_resources=128),
    (10, 3): AllocationRules(2048, 32, _UP_TO_228, barriers_per_block=1, virtual_resources=128),
    (10, 7): AllocationRules(None, 16, _UP_TO_328, barriers_per_block=1, virtual_resources=128),
    (11, 0): AllocationRules(1536, 24, _UP_TO_228, barriers_per_block=1, virtual_resources=128),
    (12, 0): AllocationRules(1536, 24, _UP_TO_100, barriers_per_block=1, virtual_resources=128),
    (12, 1): AllocationRules(1536, 24, _UP_TO_100, barriers_per_block=1, virtual_resources=128),
}

#: The compute capabilities whose rules are known, oldest first.
COMPUTE_CAPABILITIES: tuple[ComputeCapability, ...] = tuple(RULES)
