"""A call of a scan: which kernel takes an array, and how it is laid out for it.

====================  =====================================================================
kernel                array
====================  =====================================================================
chain                 few rows, each of many parts; one launch a row
rows                  rows that one block each goes over
columns               rows that are too short for a block, or lie across memory
====================  =====================================================================

Long columns that are too few to occupy a device are copied into rows first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kerneldsl.utilities.flags import read_flag
from stdlib_kernels.arrays import (
    Array,
    Out,
    allocate,
    around_axis,
    check_out,
    contiguous_1d,
    destination,
    finish,
    is_contiguous,
    is_on_host,
    on_device,
)
from stdlib_kernels.parameters import axis_of
from stdlib_kernels.reduce.folding import Rule, add
from stdlib_kernels.repeating import launch
from stdlib_kernels.scan.kernels import scan_chain, scan_columns, scan_rows, sum_chain, sum_rows

__all__ = ["scan_call"]

#: Bytes of the tiles of a sum, and threads of their blocks: the best that were found on an H200.
TILE_BYTES, TILE_BLOCK = 1 << 16, 256
#: Elements of the tiles of rows.
ROW_TILE = 4096
#: Threads of a block, and its steps, where values of threads are scanned: on a GPU, and on a host,
#: where one thread goes over its part at the speed of its memory.
BLOCK, ITEMS = 256, 16
HOST_BLOCK, HOST_ITEMS = 1, 2048
#: Rows shorter than this are scanned by a thread each.
SHORT_ROW = 64
#: Rows that occupy a device, a block each.
MANY_ROWS = 32
#: Elements from which on a row is worth a chain of blocks.
LONG_ROW = 1 << 16
#: Columns below which long ones are copied into rows.
FEW_COLUMNS = 512


def scan_call(
    rule: Rule, x: Array, axis: Any, dtype: np.dtype[Any], out: Out, exclusive: bool, reverse: bool
) -> Any:
    """Scan an array along an axis by a rule's operation, to a dtype."""
    shape, place = (x.size,), 0
    if axis is not None:
        shape, place = tuple(x.shape), axis_of(axis, x.ndim)
    constants = {
        "number": rule.number,
        "identity": rule.identity,
        "op": rule.op,
        "is_exclusive": read_flag("exclusive", exclusive),
    }
    is_reversed = read_flag("reverse", reverse)
    check_out(out, like=x, shape=shape, dtype=dtype)
    source = on_device(x)
    usable = out if out is not None and is_contiguous(out) else None
    result = destination(source, shape, dtype, usable)
    if x.size:
        flat = contiguous_1d(source) if axis is None else source
        taken, given = around_axis(flat, place), around_axis(result, place)
        if is_reversed:
            taken, given = taken[:, ::-1], given[:, ::-1]
        _scan(taken, given, constants)
    return out if result is out else finish(result, like=x, out=out)


def _scan(x: Array, out: Array, constants: dict[str, Any]) -> None:
    """Scan along the middle one of three axes."""
    before, n, after = x.shape
    count = before * after
    if after == 1 and n >= SHORT_ROW:
        _scan_rows(x[:, :, 0], out[:, :, 0], constants)
    elif n >= LONG_ROW and count < FEW_COLUMNS:
        rows, results = (allocate(x, (before, after, n), each.dtype) for each in (x, out))
        finish(x.transpose((0, 2, 1)), like=x, out=rows)
        _scan_rows(rows.reshape((count, n)), results.reshape((count, n)), constants)
        finish(results, like=x, out=out.transpose((0, 2, 1)))
    else:
        if after == 1:
            x, out = x.transpose((2, 1, 0)), out.transpose((2, 1, 0))
        block = BLOCK if x.shape[2] > 32 else 32
        strips = -(-x.shape[2] // block)
        launch(scan_columns, x.shape[0] * strips, block, x, out, **constants)


def _scan_rows(x: Array, out: Array, constants: dict[str, Any]) -> None:
    rows, n = x.shape
    constants = dict(constants)
    is_sum = constants["op"] is add
    if is_sum:
        del constants["op"]
    itemsize = np.dtype(constants["number"]).itemsize
    on_host = is_on_host(x)
    block = TILE_BLOCK if is_sum else HOST_BLOCK if on_host else BLOCK
    if rows < MANY_ROWS and n >= LONG_ROW:
        items = HOST_ITEMS if on_host else ITEMS
        part = TILE_BYTES // itemsize if is_sum else items * block
        constants |= {"width": part} if is_sum else {"block": block, "items": items}
        kernel, blocks = sum_chain if is_sum else scan_chain, -(-n // part)
        state = allocate(x, (3 * blocks,), np.dtype(np.uint64), zero=True)
        for row in range(rows):
            launch(kernel, blocks, block, x[row], out[row], state, **constants)
    elif is_sum:
        width = ROW_TILE if n > ROW_TILE // 4 else ROW_TILE // 4
        launch(sum_rows, rows, width // 16, x, out, width=width, **constants)
    else:
        block = min(block, 32) if n <= ROW_TILE // 4 else block
        launch(scan_rows, rows, block, x, out, block=block, **constants)
