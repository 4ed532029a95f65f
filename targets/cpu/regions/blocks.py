"""The loop over the blocks of a call, and the handlers of operations that only blocks have."""

from __future__ import annotations

from llvmlite import ir

from kerneldsl.ir.operations import Region
from targets.cpu.intrinsics.units import block_place
from targets.cpu.regions import (
    cells,
    dynamic_slices,
    exchanges,
    grid_barriers,
    slots,
    storage,
    threads,
    warps,
)
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.loops import CountedLoop
from targets.cpu.regions.tiles import handlers as tiles

__all__ = ["write_blocks"]

#: What reserves memory once for all blocks of a call.
_MEMORY = {"cell": cells.cell, "exchange.room": exchanges.room, "slot": slots.slot}
_HANDLERS = {
    **cells.HANDLERS,
    **dynamic_slices.HANDLERS,
    **exchanges.HANDLERS,
    **grid_barriers.HANDLERS,
    **slots.HANDLERS,
    **storage.HANDLERS,
    **threads.HANDLERS,
    **tiles.HANDLERS,
    **warps.HANDLERS,
}


def write_blocks(emitter: CpuEmitter, region: Region) -> None:
    """Write the loop over the blocks of a call."""
    emitter.register(_HANDLERS)
    builder = emitter.builder
    for number, axis in enumerate("xyz"):
        emitter.ids[f"extent.{axis}"] = emitter.word(5 + number)
        emitter.ids[f"threadIdx.{axis}"] = ir.Constant(ir.IntType(64), 0)  # without a row along it
    waits = emitter.spec.traits.syncs_grid
    if not waits:
        _reserve(emitter, region)
    with CountedLoop(builder, emitter.first, emitter.last) as block:
        # Read for each block, so that LLVM does not write the loop twice, for grids with and
        # without rows.
        gx, gy, gz = (emitter.word(2 + axis) for axis in range(3))
        for axis, found in zip("xyz", block_place(builder, block, gx, gy, gz), strict=True):
            emitter.ids[f"blockIdx.{axis}"] = found
        emitter.ids |= {"gridDim.x": gx, "gridDim.y": gy, "gridDim.z": gz}
        if not waits:
            emitter.region(region)
        else:
            emitter.passes = grid_barriers.Passes(emitter, block)
            _reserve(emitter, region)
            emitter.region(region)
            emitter.passes.finish()


def _reserve(emitter: CpuEmitter, region: Region) -> None:
    """Reserve the memory that a block has while it runs."""
    for operation in region.operations:
        if operation.name in _MEMORY:
            _MEMORY[operation.name](emitter, operation)
    for operation in region.walk():
        if operation.name == "shared.array":
            storage.shared(emitter, operation)
