"""Weights along one axis: neighbours are side by side, or rows apart.

====================  =============  ============================================================
kernel                array          who works
====================  =============  ============================================================
``along_rows``        (rows, n)      a block filters a part of a row, which it holds with what the
                                     weights reach beyond it (the halo) in shared memory
``along_columns``     (a, n, b)      a thread filters some neighbours of a column
====================  =============  ============================================================

A thread has as many sums as elements that it filters, and reads each element once for all.

References
----------
Victor Podlozhnyuk, "Image Convolution with CUDA", NVIDIA, 2007: the separable filter with halos.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch, launch_over
from stdlib_kernels.arrays import around_axis, constant_beside, is_on_host
from stdlib_kernels.checks import Array
from stdlib_kernels.copying import itself
from stdlib_kernels.stencil.borders import Border, offset_of, place
from stdlib_kernels.vectors import vector_of

__all__ = [
    "AxisWeights",
    "axis_weights",
    "computing",
    "filter_line",
    "reach_of",
    "read_weights",
    "shift",
    "stored",
]

#: Threads of a block that filters rows; elements that one of them filters, odd so that their
#: places in shared memory are in different banks.
BLOCK, ROW_ITEMS = 256, 7
#: Elements of a column that a thread filters, on a GPU and on the host. On the host, lanes take
#: neighbours along a row, and loops over few elements are vectorized.
COLUMN_ITEMS, HOST_COLUMN_ITEMS = 8, 2
#: Multiple to which the halo of a part is rounded up.
REACH = 32
#: Bytes of shared memory that every device has for a block.
MAX_SHARED_BYTES = 48 << 10


class AxisWeights(NamedTuple):
    """Weights along an axis, and what their sum is divided by."""

    weights: Any
    axis: int
    #: Offset of the first weight from the element itself.
    first: int
    divisor: float = 1.0


def axis_weights(weights: Any, axis: int, origin: int = 0, divisor: float = 1.0) -> AxisWeights:
    """Return a step of weights with the middle moved by `origin`, to one of them."""
    return AxisWeights(weights, axis, offset_of(len(weights), origin), divisor)


def truncated(v: Any) -> Any:
    """Return what an array of integers stores: without the fraction, and modulo its width."""
    return np.int64(v) if v < 2.0**63 else np.int64(np.uint64(v))


def computing(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return in which dtype sums are formed: as SciPy float64 for integers; else the array's."""
    if dtype.kind in "iu":
        return np.dtype(np.float64)
    return dtype if dtype == np.float64 else np.dtype(np.float32)


def stored(dtype: np.dtype[Any]) -> Any:
    """Return what turns a sum into what an array of a dtype stores."""
    return truncated if dtype.kind in "iu" else itself


def reach_of(taps: int) -> int:
    """Return the elements of the halo of a part, of a few sizes so that code is shared."""
    return -(-taps // REACH) * REACH


def shift(near: Any, items: Any, after: Any) -> None:
    """Move neighbours one place to the front, and put one more after them."""
    for r in range(items - 1):
        near[r] = near[r + 1]
    near[items - 1] = after


def read_weights(weights: Any, vectors: Any, t: Any, width: Any, own: Any) -> None:
    """Read `width` weights from number `t` on, a multiple of it, into a local array."""
    if width == 1:
        own[0] = weights[t]
    else:
        v = vectors[t // width]
        for s in range(width):
            own[s] = v[s]


@kd.kernel(wraparound=False)
def along_columns(
    x, weights, out, mode, fill, first, divisor,
    *, taps, items, number, vector, width, store, divides,
):  # fmt: skip
    """Filter `items` neighbours by a thread: ``x[a, n, b], weights[t], out[a, n, b]``."""
    a, part, b = kd.grid(3)
    n, count = x.shape[1], taps or weights.size
    start = part * items
    low = start + first
    sums = kd.local.array(items, number)
    near = kd.local.array(items, number)
    w, vectors = kd.local.array(width, number), kd.view(weights, vector)
    for r in range(items):
        sums[r] = number(0)
    if low >= 0 and low + count + items - 1 <= n:
        for r in range(1, items):
            near[r] = number(x[a, low + r - 1, b])
        for t in range(0, count, width):
            read_weights(weights, vectors, t, width, w)
            for s in range(width):
                if t + s < count:
                    shift(near, items, number(x[a, low + t + s + items - 1, b]))
                    for r in range(items):
                        sums[r] += w[s] * near[r]
    else:
        for t in range(count):
            for r in range(items):
                at = place(mode, low + t + r, n)
                sums[r] += weights[t] * (number(x[a, at, b]) if at >= 0 else fill)
    for r in range(items):
        if start + r < n:
            out[a, start + r, b] = store(sums[r] / divisor if divides else sums[r])


@kd.kernel(wraparound=False)
def along_rows(
    x, weights, out, mode, fill, first, divisor,
    *, taps, reach, items, number, vector, width, store, divides,
):  # fmt: skip
    """Filter a part of a row by a block of `BLOCK`: ``x[rows, n], weights[t], out[rows, n]``."""
    tile = kd.shared.array(BLOCK * items + reach, number)
    n, count = x.shape[1], taps or weights.size
    parts = (n + BLOCK * items - 1) // (BLOCK * items)
    row = kd.blockIdx.x // parts
    start = kd.blockIdx.x % parts * BLOCK * items
    thread = kd.threadIdx.x
    low = start + first
    if low >= 0 and low + BLOCK * items + reach <= n:
        for r in range(items):
            k = thread + r * BLOCK
            tile[k] = number(x[row, low + k])
        for k in range(BLOCK * items + thread, BLOCK * items + reach, BLOCK):
            tile[k] = number(x[row, low + k])
    else:
        for k in range(thread, BLOCK * items + count - 1, BLOCK):
            at = place(mode, low + k, n)
            tile[k] = number(x[row, at]) if at >= 0 else fill
    kd.syncthreads()
    sums = kd.local.array(items, number)
    near = kd.local.array(items, number)
    w, vectors = kd.local.array(width, number), kd.view(weights, vector)
    for r in range(items):
        sums[r] = number(0)
        near[r] = tile[thread * items + max(r - 1, 0)]
    for t in range(0, count, width):
        read_weights(weights, vectors, t, width, w)
        for s in range(width):
            if t + s < count:
                shift(near, items, tile[thread * items + t + s + items - 1])
                for r in range(items):
                    sums[r] += w[s] * near[r]
    # The sums are exchanged between threads, so that neighbours are stored at once.
    kd.syncthreads()
    for r in range(items):
        tile[thread * items + r] = sums[r]
    kd.syncthreads()
    for r in range(items):
        k = thread + r * BLOCK
        if start + k < n:
            out[row, start + k] = store(tile[k] / divisor if divides else tile[k])


def filter_line(x: Array, out: Array, border: Border, step: AxisWeights) -> None:
    """Correlate along an axis into another contiguous array of the same shape, not an empty one."""
    number, count, axis = computing(out.dtype), len(step.weights), step.axis
    n, after = x.shape[axis], math.prod(x.shape[axis + 1 :])
    on_host = is_on_host(x)
    constants = {
        # A GPU's code has the number of weights in it; the host's takes any.
        "taps": 0 if on_host else count,
        "number": number.type,
        "store": stored(out.dtype),
        "divides": step.divisor != 1,
        **(vector_of(number) | ({"width": 1} if on_host else {})),
    }
    taken = np.pad(np.asarray(step.weights, number), (0, -count % constants["width"]))
    numbers = (border.mode, number.type(border.fill), step.first, number.type(step.divisor))
    source, held = around_axis(x, axis), constant_beside(x, taken)
    items = 1 if on_host else ROW_ITEMS
    reach = reach_of(count)
    if after == 1 and (BLOCK * items + reach) * number.itemsize <= MAX_SHARED_BYTES:
        rows = out.reshape((x.size // n, n))
        grid = rows.shape[0] * -(-n // (BLOCK * items))
        arrays = source[:, :, 0], held, rows
        launch(along_rows, grid, BLOCK, *arrays, *numbers, reach=reach, items=items, **constants)
        return
    result = out.reshape((x.size // (n * after), n, after))
    items = HOST_COLUMN_ITEMS if on_host else COLUMN_ITEMS
    extent = result.shape[0], -(-n // items), after
    launch_over(along_columns, extent, source, held, result, *numbers, items=items, **constants)
