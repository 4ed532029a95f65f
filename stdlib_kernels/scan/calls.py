"""A call of a scan: which kernel takes an array, and how it is laid out for it.

====================  =====================================================================
kernel                array
====================  =====================================================================
chain                 few rows, each of many parts; one launch a row
rows                  rows that one block each goes over
columns               rows that are too short for a block, or lie across memory
====================  =====================================================================

Long columns that are too few to occupy a device are copied into rows first. Chains have no complex
numbers: sums of these are scanned as sums of their parts. Sums are scanned as
tiles, any other operation as values of threads. `number` is what elements are converted to first.

References
----------
Duane Merrill and Michael Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back",
NVIDIA Technical Report NVR-2016-002, 2016: the chain of blocks.
Guy E. Blelloch, "Prefix Sums and Their Applications", Carnegie Mellon University, CMU-CS-90-190,
1990: the scan of any associative operation, inclusive and exclusive.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch
from kerneldsl.utilities.flags import read_flag
from stdlib_kernels.arrays import (
    allocate,
    around_axis,
    contiguous,
    contiguous_1d,
    finish,
    is_contiguous,
    is_on_host,
    source_and_result,
)
from stdlib_kernels.checks import Array, Out
from stdlib_kernels.operations import add
from stdlib_kernels.parameters import axis_or_flat, real_dtype
from stdlib_kernels.reduce.folding import Rule

__all__ = ["scan_call"]

#: Bytes of the tiles of a sum, and threads of their blocks. On a GPU, registers suffice for twice
#: as many, with a few spills.
TILE_BYTES, TILE_BLOCK = 1 << 15, 256
#: Elements of a chain's state for each block, so that each block publishes in a separate sector.
STATE_WORDS = 6
#: Elements of the tiles of rows.
ROW_TILE = 4096
#: Threads of a block, and its steps, for scans of threads' values: on a GPU, and on a host. There
#: one thread processes its part at the speed of its memory.
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


@kd.func
def after(v, place, before, at):
    """Return the sum before an element of a tile, which begins with 0: 0 + -0 would not be -0."""
    return before if place == 0 and at > 0 else v + before


@kd.kernel
def sum_chain(x, out, state, *, width, number, identity, is_exclusive):
    """Add up one array, a tile by each block: ``x[n], out[n], state[6 * blocks]``.

    Later blocks have the sum of this one while it processes its elements.
    """
    part = kd.chain.next(state)
    v = kd.tile.load(x, part * width, width, other=identity, dtype=number)
    total = v.sum()
    kd.chain.publish(state, part, total, add)
    sums = v.cumsum(exclusive=is_exclusive)
    before = kd.chain.before(state, part, total, add, identity)
    if is_exclusive:
        kd.tile.store(out, part * width, sums, after, before, part)
    else:
        kd.tile.store(out, part * width, sums + before)


@kd.kernel
def sum_rows(x, out, *, width, number, identity, is_exclusive):
    """Add up each row, tile by tile: ``x[rows, n], out[rows, n]``."""
    row = kd.blockIdx.x
    carry = identity
    for at in range(0, x.shape[1], width):
        v = kd.tile.load(x[row], at, width, other=identity, dtype=number)
        if is_exclusive:
            kd.tile.store(out[row], at, v.cumsum(exclusive=True), after, carry, at)
        else:
            kd.tile.store(out[row], at, v.cumsum() + carry)
        carry += v.sum()


@kd.kernel(wraparound=False)
def scan_chain(x, out, state, *, block, items, number, op, identity, is_exclusive):
    """Scan one array, a part by each block: ``x[n], out[n], state[6 * blocks]``.

    A block of `block` threads processes its part in `items` steps. It holds the results until the
    result of the earlier parts is known.
    """
    part, t = kd.chain.next(state), kd.threadIdx.x
    held = kd.shared.array(items * block, number)
    first = part * items * block + t
    total = identity
    for k in range(items):
        i = first + k * block
        v = number(x[i]) if i < x.size else identity
        s = kd.block.inclusive_scan(v, op)
        before = s
        if is_exclusive:
            before = kd.block.exclusive_scan(v, op, identity)
        held[k * block + t] = op(total, before)
        total = number(op(total, kd.block.broadcast(s, block - 1)))
    start = kd.chain.before(state, part, total, op, identity)
    for k in range(items):
        if first + k * block < x.size:
            out[first + k * block] = op(start, held[k * block + t])


@kd.kernel(wraparound=False)
def scan_rows(x, out, *, block, number, op, identity, is_exclusive):
    """Scan each row, as many elements at a time as there are threads: ``x[rows, n], …``.

    No element is combined with the identity. Products of complex numbers have none:
    ``(inf - 4j) * 1`` has a NaN.
    """
    row, t = kd.blockIdx.x, kd.threadIdx.x
    carry = identity
    if is_exclusive and t == 0:
        out[row, 0] = identity
    for first in range(0, x.shape[1], block):
        i = first + t
        v = number(x[row, i]) if i < x.shape[1] else identity
        s = kd.block.inclusive_scan(v, op)
        last = number(kd.block.broadcast(s, block - 1))
        if is_exclusive:
            i += 1
        if i < x.shape[1]:
            out[row, i] = op(carry, s) if first > 0 else s
        carry = number(op(carry, last)) if first > 0 else last


@kd.kernel(wraparound=False)
def scan_columns(x, out, *, number, op, identity, is_exclusive):
    """Scan each column by a thread: ``x[a, n, b], out[a, n, b]``."""
    strips = (x.shape[2] + kd.blockDim.x - 1) // kd.blockDim.x
    a = kd.blockIdx.x // strips
    b = kd.blockIdx.x % strips * kd.blockDim.x + kd.threadIdx.x
    if b < x.shape[2]:
        total = identity
        for k in range(x.shape[1]):
            before, v = total, number(x[a, k, b])
            total = number(op(total, v)) if k > 0 else v
            out[a, k, b] = before if is_exclusive else total


def scan_call(
    rule: Rule, x: Array, axis: Any, dtype: np.dtype[Any], out: Out, exclusive: bool, reverse: bool
) -> Any:
    """Scan an array along an axis by a rule's operation, to a dtype."""
    place = axis_or_flat(axis, x.ndim)
    shape = (x.size,) if place is None else tuple(x.shape)
    constants = {
        "number": rule.number,
        "identity": rule.identity,
        "op": rule.op,
        "is_exclusive": read_flag("exclusive", exclusive),
    }
    is_reversed = read_flag("reverse", reverse)
    source, result = source_and_result(x, out, shape, dtype)
    if x.size:
        flat = contiguous_1d(source) if place is None else source
        taken, given = around_axis(flat, place or 0), around_axis(result, place or 0)
        if is_reversed:
            taken, given = taken[:, ::-1], given[:, ::-1]
        if x.dtype.kind == "c" and rule.op is add:
            _sum_parts(taken, given, constants)
        else:
            _scan(taken, given, constants)
    return finish(result, like=x, out=out)


def _sum_parts(x: Array, out: Array, constants: dict[str, Any]) -> None:
    """Add up complex numbers as their real and their imaginary parts, which chains can hold."""
    sums = out if is_contiguous(out) else allocate(x, tuple(out.shape), out.dtype)
    number = real_dtype(np.dtype(constants["number"])).type
    how = {**constants, "number": number, "identity": constants["identity"].real}
    _scan(_parts_of(contiguous(x)), _parts_of(sums), how)
    if sums is not out:
        finish(sums, like=x, out=out)


def _parts_of(x: Array) -> Array:
    """Return the real and imaginary parts of three axes, as two columns for each of the last."""
    flat = x.reshape((*x.shape, 1)).view(real_dtype(x.dtype))
    return flat.reshape((*x.shape[:2], -1))


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
    is_sum = constants["op"] is add
    constants = {name: constants[name] for name in constants if not (is_sum and name == "op")}
    if is_sum:  # -0 is that of no elements with which a sum of negative zeros stays one
        constants["identity"] = constants["number"](-0.0)
    itemsize = np.dtype(constants["number"]).itemsize
    on_host = is_on_host(x)
    block = TILE_BLOCK if is_sum else HOST_BLOCK if on_host else BLOCK
    is_complex = np.dtype(constants["number"]).kind == "c"
    if rows < MANY_ROWS and n >= LONG_ROW and not is_complex:
        items = HOST_ITEMS if on_host else ITEMS
        part = TILE_BYTES // itemsize if is_sum else items * block
        constants |= {"width": part} if is_sum else {"block": block, "items": items}
        kernel, blocks = sum_chain if is_sum else scan_chain, -(-n // part)
        state = allocate(x, (STATE_WORDS * blocks,), np.dtype(np.uint64), zero=True)
        for row in range(rows):
            launch(kernel, blocks, block, x[row], out[row], state, **constants)
    elif is_sum:
        width = ROW_TILE if n > ROW_TILE // 4 else ROW_TILE // 4
        launch(sum_rows, rows, width // 16, x, out, width=width, **constants)
    else:
        block = min(block, 32) if n <= ROW_TILE // 4 else block
        launch(scan_rows, rows, block, x, out, block=block, **constants)
