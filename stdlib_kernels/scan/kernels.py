"""Kernels of scans: a chain of blocks in one pass, a block a row, and a thread a column.

Sums are scanned as tiles, any other operation as values of threads. `number` is what elements are
converted to first.

References
----------
Duane Merrill and Michael Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back",
NVIDIA Technical Report NVR-2016-002, 2016: the chain of blocks.
Guy E. Blelloch, "Prefix Sums and Their Applications", Carnegie Mellon University, CMU-CS-90-190,
1990: the scan of any associative operation, inclusive and exclusive.
"""

from __future__ import annotations

import kerneldsl as kd
from stdlib_kernels.reduce.folding import add

__all__ = ["scan_chain", "scan_columns", "scan_rows", "sum_chain", "sum_rows"]


@kd.kernel
def sum_chain(x, out, state, *, width, number, identity, is_exclusive):
    """Add up one array, a tile by each block: ``x[n], out[n], state[3 * blocks]``."""
    part = kd.chain.next(state)
    v = kd.tile.load(x, part * width, width, other=identity, dtype=number)
    before = kd.chain.before(state, part, v.sum(), add, identity)
    kd.tile.store(out, part * width, v.cumsum(exclusive=is_exclusive) + before)


@kd.kernel
def sum_rows(x, out, *, width, number, identity, is_exclusive):
    """Add up each row, tile by tile: ``x[rows, n], out[rows, n]``."""
    row = kd.blockIdx.x
    carry = identity
    for at in range(0, x.shape[1], width):
        v = kd.tile.load(x[row], at, width, other=identity, dtype=number)
        kd.tile.store(out[row], at, v.cumsum(exclusive=is_exclusive) + carry)
        carry += v.sum()


@kd.kernel(wraparound=False)
def scan_chain(x, out, state, *, block, items, number, op, identity, is_exclusive):
    """Scan one array, a part by each block: ``x[n], out[n], state[3 * blocks]``.

    A block of `block` threads goes over its part in `items` steps, and holds what they give until
    it knows what the parts before come to.
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
    """Scan each row, as many elements at a time as there are threads: ``x[rows, n], …``."""
    row, t = kd.blockIdx.x, kd.threadIdx.x
    carry = identity
    for first in range(0, x.shape[1], block):
        i = first + t
        v = number(x[row, i]) if i < x.shape[1] else identity
        s = kd.block.inclusive_scan(v, op)
        before = s
        if is_exclusive:
            before = kd.block.exclusive_scan(v, op, identity)
        if i < x.shape[1]:
            out[row, i] = op(carry, before)
        carry = number(op(carry, kd.block.broadcast(s, block - 1)))


@kd.kernel(wraparound=False)
def scan_columns(x, out, *, number, op, identity, is_exclusive):
    """Scan each column by a thread: ``x[a, n, b], out[a, n, b]``."""
    strips = (x.shape[2] + kd.blockDim.x - 1) // kd.blockDim.x
    a = kd.blockIdx.x // strips
    b = kd.blockIdx.x % strips * kd.blockDim.x + kd.threadIdx.x
    if b < x.shape[2]:
        total = identity
        for k in range(x.shape[1]):
            before = total
            total = number(op(total, number(x[a, k, b])))
            out[a, k, b] = before if is_exclusive else total
