"""Written by docs/library_stubs.py."""

from kerneldsl.planner.block_limits import (
    BlockLimits as BlockLimits,
    KernelResources as KernelResources,
)
from kerneldsl.planner.block_occupancy import (
    Occupancy as Occupancy,
    PotentialBlock as PotentialBlock,
    available_dynamic_shared_bytes as available_dynamic_shared_bytes,
    max_potential_block_size as max_potential_block_size,
    occupancy as occupancy,
)
from kerneldsl.planner.grid_coverage import (
    Coverage as Coverage,
    bytes_to_saturate as bytes_to_saturate,
    coverage as coverage,
)
from kerneldsl.planner.limits import (
    COMPUTE_CAPABILITIES as COMPUTE_CAPABILITIES,
    ComputeCapability as ComputeCapability,
    DeviceOccupancyLimits as DeviceOccupancyLimits,
)

__all__: list[str]
