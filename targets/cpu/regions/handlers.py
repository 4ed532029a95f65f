"""The handler of each operation, by its name; a module has the handlers of its operations."""

from targets.cpu.regions import (
    cells,
    dynamic_slices,
    exceptions,
    exchanges,
    faults,
    gathered_atomics,
    grid_barriers,
    index_arithmetic,
    local_arrays,
    rows,
    slots,
    storage,
    threads,
    warps,
)
from targets.cpu.regions.lanes import handlers as lanes
from targets.cpu.regions.tiles import handlers as tiles

__all__ = ["HANDLERS"]

HANDLERS = {
    **exceptions.HANDLERS,
    **dynamic_slices.HANDLERS,
    **cells.HANDLERS,
    **exchanges.HANDLERS,
    **grid_barriers.HANDLERS,
    **faults.HANDLERS,
    **gathered_atomics.HANDLERS,
    **index_arithmetic.HANDLERS,
    **lanes.HANDLERS,
    **rows.HANDLERS,
    **local_arrays.HANDLERS,
    **slots.HANDLERS,
    **storage.HANDLERS,
    **threads.HANDLERS,
    **tiles.HANDLERS,
    **warps.HANDLERS,
}
