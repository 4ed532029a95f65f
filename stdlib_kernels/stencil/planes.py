"""Weights along the last two axes in one pass: what is between them stays in shared memory.

A block filters `ROWS` rows of `COLUMNS` columns. First it filters down the columns, from global to
shared memory, with the further columns that the weights across need. Then it filters across.
Sums are formed in the order of two passes by `lines`, and have the same bits.

References: those of :mod:`stdlib_kernels.stencil.lines`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch
from stdlib_kernels.arrays import constant_beside, contiguous
from stdlib_kernels.checks import Array
from stdlib_kernels.stencil.borders import Border, place
from stdlib_kernels.stencil.lines import (
    BLOCK,
    MAX_SHARED_BYTES,
    ROW_ITEMS,
    AxisWeights,
    reach_of,
    read_weights,
    shift,
)
from stdlib_kernels.vectors import vector_of

__all__ = ["filter_plane", "fits_plane"]

#: Rows of a block, which a thread filters down a column; columns of a block, `ROW_ITEMS` by each
#: thread of a warp.
ROWS, COLUMNS = 16, 32 * ROW_ITEMS
#: Weights up to which a compiler keeps a thread's sums in registers.
MAX_TAPS = 48


@kd.kernel(wraparound=False)
def along_planes(
    x, down, across, out, mode, fill, first_down, first_across,
    *, taps_down, taps_across, reach, number, vector, width,
):  # fmt: skip
    """Filter a part of a plane by a block: ``x[a, n, m], down[t], across[t], out[a, n, m]``."""
    tile = kd.shared.array((ROWS, COLUMNS + reach), number)
    n, m = x.shape[1], x.shape[2]
    column_parts, row_parts = (m + COLUMNS - 1) // COLUMNS, (n + ROWS - 1) // ROWS
    part = kd.blockIdx.x // column_parts
    plane = part // row_parts
    top, left = part % row_parts * ROWS, kd.blockIdx.x % column_parts * COLUMNS
    low = top + first_down
    w = kd.local.array(width, number)
    sums, near = kd.local.array(ROWS, number), kd.local.array(ROWS, number)
    vectors = kd.view(down, vector)
    for k in range(kd.threadIdx.x, COLUMNS + taps_across - 1, BLOCK):
        column = place(mode, left + first_across + k, m)
        if column < 0:
            for r in range(ROWS):
                tile[r, k] = fill
        elif low >= 0 and low + taps_down + ROWS - 1 <= n:
            for r in range(ROWS):
                sums[r] = number(0)
                near[r] = x[plane, low + max(r - 1, 0), column]
            for t in range(0, taps_down, width):
                read_weights(down, vectors, t, width, w)
                for s in range(width):
                    if t + s < taps_down:
                        shift(near, ROWS, x[plane, low + t + s + ROWS - 1, column])
                        for r in range(ROWS):
                            sums[r] += w[s] * near[r]
            for r in range(ROWS):
                tile[r, k] = sums[r]
        else:
            for r in range(ROWS):
                total = number(0)
                for t in range(taps_down):
                    row = place(mode, low + t + r, n)
                    total += down[t] * (x[plane, row, column] if row >= 0 else fill)
                tile[r, k] = total
    kd.syncthreads()
    lane = kd.threadIdx.x % 32
    totals, beside = kd.local.array(ROW_ITEMS, number), kd.local.array(ROW_ITEMS, number)
    vectors_across = kd.view(across, vector)
    for r in range(kd.threadIdx.x // 32, ROWS, BLOCK // 32):
        for i in range(ROW_ITEMS):
            totals[i] = number(0)
            beside[i] = tile[r, lane * ROW_ITEMS + max(i - 1, 0)]
        for t in range(0, taps_across, width):
            read_weights(across, vectors_across, t, width, w)
            for s in range(width):
                if t + s < taps_across:
                    shift(beside, ROW_ITEMS, tile[r, lane * ROW_ITEMS + t + s + ROW_ITEMS - 1])
                    for i in range(ROW_ITEMS):
                        totals[i] += w[s] * beside[i]
        # The totals are exchanged between threads, so that neighbours are stored at once.
        kd.syncwarp()
        for i in range(ROW_ITEMS):
            tile[r, lane * ROW_ITEMS + i] = totals[i]
        kd.syncwarp()
        for i in range(ROW_ITEMS):
            k = lane + i * 32
            if top + r < n and left + k < m:
                out[plane, top + r, left + k] = tile[r, k]


def fits_plane(dtype: np.dtype[Any], *taps: int) -> bool:
    """Return whether a block's part has room on chip, and its sums are in the dtype."""
    nbytes = ROWS * (COLUMNS + reach_of(max(taps))) * dtype.itemsize
    is_small = max(taps) <= MAX_TAPS and nbytes <= MAX_SHARED_BYTES
    return is_small and dtype in (np.float32, np.float64)


def filter_plane(
    x: Array, out: Array, border: Border, down: AxisWeights, across: AxisWeights
) -> None:
    """Correlate along the last two axes into another contiguous array of the shape of `x`."""
    number, (n, m) = out.dtype, x.shape[-2:]
    vector = vector_of(number)
    weights = (
        constant_beside(x, np.pad(np.asarray(w, number), (0, -len(w) % vector["width"])))
        for w in (down.weights, across.weights)
    )
    shape = (math.prod(x.shape[:-2]), n, m)
    grid = shape[0] * -(-n // ROWS) * -(-m // COLUMNS)
    arrays = (contiguous(x).reshape(shape), *weights, out.reshape(shape))
    taps = {"taps_down": len(down.weights), "taps_across": len(across.weights)}
    constants = {**taps, "reach": reach_of(taps["taps_across"]), "number": number.type, **vector}
    numbers = (border.mode, number.type(border.fill), down.first, across.first)
    launch(along_planes, grid, BLOCK, *arrays, *numbers, **constants)
