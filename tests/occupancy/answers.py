"""The model's answers in the columns of the oracle's, so that the two can be compared."""

from __future__ import annotations

from kerneldsl.errors import ResourceLimitError
from kerneldsl.planner import (
    BlockLimits,
    DeviceOccupancyLimits,
    KernelResources,
    available_dynamic_shared_bytes,
    max_potential_block_size,
    occupancy,
)
from tests.occupancy.header import OUTPUTS

__all__ = ["FACTORS", "differences", "model_answer"]

#: Bits of the header's field of limiting factors, by the limit's name.
FACTORS = {
    "warps": 1,
    "registers": 2,
    "shared_memory": 4,
    "blocks": 8,
    "barriers": 16,
    "virtual_resources": 32,
}
_INVALID = 1


def model_answer(
    device: DeviceOccupancyLimits, kernel: KernelResources, row: dict[str, int]
) -> dict[str, int]:
    """What the model says of one configuration."""
    threads, dynamic = row["block_threads"], row["dynamic_shared_bytes"]
    found = occupancy(device, kernel, threads, dynamic)
    limits = {
        name: -1 if blocks is None else blocks
        for name, blocks in zip(BlockLimits._fields, found.limits, strict=True)
    }
    slope = row["dynamic_bytes_per_thread"]
    try:
        block, grid, _ = max_potential_block_size(
            device, kernel, (lambda block: slope * block + dynamic) if slope else dynamic
        )
    except ResourceLimitError:
        block = grid = 0
    try:
        available = available_dynamic_shared_bytes(device, kernel, row["wanted_blocks"], threads)
        available_status = 0
    except ResourceLimitError:
        available, available_status = -1, _INVALID
    return {
        "status": 0,
        "active_blocks": found.active_blocks,
        **limits,
        "registers_per_block": found.registers_per_block,
        "shared_bytes_per_block": found.shared_bytes_per_block,
        "limiting_factors": sum(FACTORS[name] for name in found.limiters),
        "potential_status": 0,
        "potential_block_threads": block,
        "potential_grid_blocks": grid,
        "available_status": available_status,
        "available_bytes": available,
    }


def differences(ours: dict[str, int], theirs: dict[str, int]) -> dict[str, tuple[int, int]]:
    """Columns in which the answers differ, as (ours, theirs)."""
    expected = dict(theirs)
    # Where barriers are what limits, the header leaves the bits of what would have without them.
    for name, bit in FACTORS.items():
        if theirs["limiting_factors"] & bit and theirs[name] != theirs["active_blocks"]:
            assert theirs["barriers"] == theirs["active_blocks"]
            expected["limiting_factors"] -= bit
    return {name: (ours[name], expected[name]) for name in OUTPUTS if ours[name] != expected[name]}
