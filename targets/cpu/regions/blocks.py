"""The loop over the blocks of a call, and the handlers of operations that only blocks have."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from kerneldsl.ir.operations import Operation, Region
from kerneldsl.ir.tiles.elements import write_start
from kerneldsl.lowering.calls import join
from targets.cpu.math.workarounds import divide_unsigned
from targets.cpu.regions import exchanges, grid_barriers, ids, memory
from targets.cpu.regions.emitter import CountedLoop, CpuEmitter
from targets.cpu.regions.tiles import elements, folds, products, sorts
from targets.cpu.runtime.native_tables import LaunchWord

__all__ = ["write_blocks"]

_I64 = ir.IntType(64)
#: Rows of blocks that are visited column by column.
_TOP_ROWS = 4
#: What reserves memory once for all blocks of a call.
_MEMORY = {"cell": memory.cell, "exchange.room": exchanges.room, "slot": memory.slot}


def write_blocks(emitter: CpuEmitter, region: Region) -> None:
    """Write the loop over the blocks of a call."""
    emitter.register(_HANDLERS)
    builder = emitter.builder
    for number, axis in enumerate("xyz"):
        emitter.ids[f"extent.{axis}"] = emitter.word(LaunchWord.SPACE + 3 + number)
        emitter.ids[f"threadIdx.{axis}"] = ir.Constant(ir.IntType(64), 0)  # without a row along it
    waits = emitter.spec.traits.syncs_grid
    if not waits:
        _reserve(emitter, region)
    with CountedLoop(builder, emitter.first, emitter.last) as block:
        # Read for each block, so that LLVM does not write the loop twice, for grids with and
        # without rows.
        gx, gy, gz = (emitter.word(LaunchWord.SPACE + axis) for axis in range(3))
        for axis, found in zip("xyz", _block_place(emitter, block, gx, gy, gz), strict=True):
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
            memory.shared(emitter, operation)


def _block_place(emitter: CpuEmitter, block: Any, gx: Any, gy: Any, gz: Any) -> list[Any]:
    """Return the place ``x, y, z`` of a block in a grid, by its number.

    Blocks are visited down short columns, not along whole rows of the grid. Neighbours along either
    axis are then in the cache at the same time, as in tiles of a matrix product.
    """
    builder = emitter.builder
    one, zero, top_rows = _I64(1), _I64(0), _I64(_TOP_ROWS)
    has_rows = builder.or_(builder.icmp_signed(">", gy, one), builder.icmp_signed(">", gz, one))
    before = builder.block
    with builder.if_then(has_rows):
        z, plane = divide_unsigned(builder, block, builder.mul(gx, gy))
        strip, below = divide_unsigned(builder, plane, builder.mul(top_rows, gx))
        top = builder.mul(strip, top_rows)
        rows = emitter.smaller(top_rows, builder.sub(gy, top))
        x, row = divide_unsigned(builder, below, rows)
        y = builder.add(row, top)
        placed = builder.block
    both = ((block, x), (zero, y), (zero, z))
    return [join(builder, (in_line, before), (in_plane, placed)) for in_line, in_plane in both]


def _for_each(emitter: CpuEmitter, operation: Operation) -> None:
    """Count through a table of the constants."""
    (body,) = operation.regions
    values = operation.attributes.get("values", ())
    if operation.operands or not values or not any(each.name == "row" for each in body.walk()):
        emitter.for_each(operation)
        return
    builder = emitter.builder
    kind = ir.ArrayType(_I64, len(values))
    module = builder.module
    table = ir.GlobalVariable(module, kind, module.get_unique_name("values"))
    table.linkage, table.global_constant = "internal", True
    table.initializer = ir.Constant(kind, list(values))
    with CountedLoop(builder, _I64(0), _I64(len(values))) as number:
        place = builder.gep(table, [_I64(0), number])
        emitter.values[body.arguments[0]] = builder.load(place)
        emitter.operations(body.operations[:-1])


_HANDLERS = {
    "for_each": _for_each,
    **exchanges.HANDLERS,
    **grid_barriers.HANDLERS,
    **memory.HANDLERS,
    "tile.argsort": sorts.write_argsort,
    "tile.copy": elements.write_copy,
    "tile.fold": folds.write_fold,
    "tile.load": elements.write_load,
    "tile.map": elements.write_map,
    "tile.mma": products.write_mma,
    "tile.place": write_start,
    "tile.scan": folds.write_scan,
    "tile.sort": sorts.write_sort,
    "tile.store": elements.write_store,
    "tile.take": elements.write_taken,
    **ids.HANDLERS,
}
