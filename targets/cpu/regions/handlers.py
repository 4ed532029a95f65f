"""The handler of each operation of every kernel, by its name; see `blocks` for those of blocks."""

from targets.cpu.regions import (
    exceptions,
    index_arithmetic,
    local_arrays,
    rows,
)
from targets.cpu.regions.lanes import handlers as lanes

__all__ = ["HANDLERS"]

HANDLERS = {
    **exceptions.HANDLERS,
    **index_arithmetic.HANDLERS,
    **lanes.HANDLERS,
    **rows.HANDLERS,
    **local_arrays.HANDLERS,
}
