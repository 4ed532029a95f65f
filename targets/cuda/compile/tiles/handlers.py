"""The tile operations of a kernel, for the emitter that writes all its operations."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from kerneldsl.contract import Specialization
from kerneldsl.ir.control import LOOPS
from kerneldsl.ir.emission import Emitter
from kerneldsl.ir.operations import Function, Operation
from kerneldsl.ir.tiles.fit import check_fit
from kerneldsl.ir.tiles.live_ranges import is_tile
from targets.cuda.compile.tile_block import DEFAULT_TILE_BLOCK
from targets.cuda.compile.tiles.order import order_tiles
from targets.cuda.compile.tiles.writer import NAMES, TileWriter

__all__ = ["tile_handlers"]

_Handler = Callable[[Operation], None]


def tile_handlers(
    emitter: Emitter, function: Function, specialization: Specialization
) -> dict[str, _Handler]:
    """Return what writes tile operations, and loops with the number of those around them.

    Raises
    ------
    UnsupportedConstructError
        If a tile with an element for each thread does not fit the block.
    """
    block_dim = specialization.block_dim or DEFAULT_TILE_BLOCK
    check_fit(function, specialization.unit, math.prod(block_dim))
    order_tiles(function, specialization.kinds, specialization.promises)
    writer = TileWriter(emitter, function, block_dim)
    inside = {name: partial(_inside, writer, emitter.handlers[name]) for name in LOOPS}
    undefined = partial(_undefined, emitter.handlers["undefined"])
    return {**dict.fromkeys(NAMES, writer.write), **inside, "undefined": undefined}


def _inside(writer: TileWriter, write: _Handler, operation: Operation) -> None:
    """Write a loop."""
    writer.loop_depth += 1
    write(operation)
    writer.loop_depth -= 1


def _undefined(write: _Handler, operation: Operation) -> None:
    """Write a value that is not defined, unless it is a tile, which nothing reads."""
    if not is_tile(operation.result):
        write(operation)
