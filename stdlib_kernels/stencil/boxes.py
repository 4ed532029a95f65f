"""Filters over boxes of up to three axes: correlation and convolution.

The array is first copied with its border, so that the kernel needs no special case at the edges. A
thread computes some elements of a column, and reads their common neighbours once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentValueError
from kerneldsl.repeating.recorded_calls import launch, launch_over
from stdlib_kernels.arrays import constant_beside, finish, is_on_host, source_and_result, to_host
from stdlib_kernels.checks import Array, Ints, Out, check_array
from stdlib_kernels.functions import library_function
from stdlib_kernels.parameters import integer_of, wrong_value
from stdlib_kernels.stencil.borders import Border, border_of, offset_of, padded, per_axis, place
from stdlib_kernels.stencil.lines import MAX_SHARED_BYTES, computing, read_weights, shift, stored
from stdlib_kernels.vectors import vector_of

__all__ = ["box_of", "convolve", "correlate", "weigh"]

#: Columns of a part of a plane that a block computes on a GPU, one for each lane.
COLUMNS = 32
#: Bytes of a column that a thread computes, and warps of a block, which are neighbours along the
#: rows. With more bytes, fewer neighbours are read twice. With more warps, a high box is read fewer
#: times.
PARTS, HIGH_PARTS, SMALL_PARTS = (64, 4), (64, 8), (16, 8)
#: Rows of a high box, and the number of blocks from which on larger parts occupy a device.
HIGH_BOX, MANY_BLOCKS = 8, 512
#: Blocks along y that every device has.
MAX_GRID_Y = 65535


@kd.kernel(wraparound=False)
def weigh_box(x, weights, out, *, box, number, store, skips):
    """Add up products: ``x[a + …, b + …, c + …], weights[…], out[a, b, c]``."""
    i, j, k = kd.grid(3)
    total = number(0)
    for p in range(box[0]):
        for s in range(box[2]):
            for q in range(box[1]):
                w = weights[(p * box[2] + s) * box[1] + q]
                # An element with weight 0 is not added, even if it is infinite.
                total += w * (number(0) if skips and w == 0 else x[i + p, j + q, k + s])
    out[i, j, k] = store(total)


@kd.kernel(wraparound=False)
def weigh_tiles(
    x, weights, out, fill, before,
    *, box, lines, strips, items, warps, mode, number, vector, width, store, skips,
):  # fmt: skip
    """Add up products in a part of a plane, with its halo in the block's shared memory.

    Weights along the middle axis are neighbours, padded to multiples of `width`, by which they are
    read.
    """
    high, wide = warps * items + box[1] - 1, COLUMNS + box[2] - 1
    tile = kd.shared.array((warps * items + box[1] - 1, COLUMNS + box[2] - 1), number)
    sums, near = kd.local.array(items, number), kd.local.array(items, number)
    w, vectors = kd.local.array(width, number), kd.view(weights, vector)
    ys, zs = kd.local.array(lines, kd.int64), kd.local.array(strips, kd.int64)
    read = kd.local.array((lines, strips), number)
    lane, warp = kd.threadIdx.x % 32, kd.threadIdx.x // 32
    down = (out.shape[1] + warps * items - 1) // (warps * items)
    a, row = kd.blockIdx.y // down, warp * items
    top, left = kd.blockIdx.y % down * (warps * items), kd.blockIdx.x * COLUMNS
    for r in range(items):
        sums[r] = number(0)
    low, first = top + before[1], left + before[2]
    is_inside = low >= 0 and low + high <= x.shape[1] and first >= 0 and first + wide <= x.shape[2]
    if not is_inside:
        for n in range(lines):
            ys[n] = place(mode, low + warp + n * warps, x.shape[1])
        for m in range(strips):
            zs[m] = place(mode, first + lane + m * 32, x.shape[2])
    for p in range(box[0]):
        y = place(mode, a + p + before[0], x.shape[0])
        if is_inside and y >= 0:
            for n in range(lines):
                for m in range(strips):
                    if warp + n * warps < high and lane + m * 32 < wide:
                        at = low + warp + n * warps, first + lane + m * 32
                        read[n, m] = number(x[y, at[0], at[1]])
        else:
            for n in range(lines):
                for m in range(strips):
                    is_there = y >= 0 and ys[n] >= 0 and zs[m] >= 0
                    read[n, m] = number(x[y, ys[n], zs[m]]) if is_there else fill
        kd.syncthreads()
        for n in range(lines):
            for m in range(strips):
                if warp + n * warps < high and lane + m * 32 < wide:
                    tile[warp + n * warps, lane + m * 32] = read[n, m]
        kd.syncthreads()
        for s in range(box[2]):
            start = (p * box[2] + s) * ((box[1] + width - 1) // width * width)
            for r in range(1, items):
                near[r] = tile[row + r - 1, lane + s]
            for group in range(0, box[1], width):
                read_weights(weights, vectors, start + group, width, w)
                for each in range(width):
                    q = group + each
                    if q < box[1]:
                        shift(near, items, tile[row + q + items - 1, lane + s])
                        for r in range(items):
                            v = number(0) if skips and w[each] == 0 else near[r]
                            sums[r] += w[each] * v
    for r in range(items):
        if top + row + r < out.shape[1] and left + lane < out.shape[2]:
            out[a, top + row + r, left + lane] = store(sums[r])


def _weighing(name: str, said: str, example: str, *, is_reversed: bool) -> Any:
    """Return the correlation, or the convolution, which reverses the weights."""

    def weighing(
        x: Array,
        weights: Any,
        mode: str = "reflect",
        cval: float = 0.0,
        origin: Ints = 0,
        *,
        out: Out = None,
    ) -> Any:
        box, moved = box_of(weights, x), per_axis("origin", origin, x.ndim, integer_of)
        if is_reversed:
            moved = tuple(-by - (n % 2 == 0) for by, n in zip(moved, box.shape, strict=True))
            box = np.flip(box)
        return weigh(x, box, mode, cval, moved, out)

    weighing.__name__ = weighing.__qualname__ = name
    weighing.__doc__ = f"""{said}.

    Parameters
    ----------
    x : array
        Integers or floats. Any layout.
    weights : array
        The same number of axes as `x`, one to three. They are read on the host.
    mode : str
        Values beyond the borders: ``"reflect"``, ``"mirror"``, ``"nearest"``, ``"wrap"`` or
        ``"constant"``. :func:`~stdlib_kernels.stencil.gaussian_filter` describes them.
    cval : float
        The value beyond the borders in mode ``"constant"``.
    origin : int or tuple of int
        Shift of the centre of the weights, for all axes or for each.
    out : array, optional
        Array for the result, with the same shape, dtype and kind as `x`.

    Returns
    -------
    array
        Same shape, dtype and kind as `x`; `out` if it is given.

    See Also
    --------
    scipy.ndimage.{name}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.stencil import {name}
    >>> {name}(np.array([1.0, 2.0, 4.0]), np.array([0.0, 1.0, 10.0])).tolist()
    {example}
    """
    return library_function(weighing)


correlate = _weighing(
    "correlate",
    "Compute the sum of each element's neighbours, multiplied by weights",
    "[21.0, 42.0, 44.0]",
    is_reversed=False,
)
convolve = _weighing(
    "convolve",
    "Correlate with the weights in reversed order along each axis, as `correlate` does",
    "[11.0, 12.0, 24.0]",
    is_reversed=True,
)


def box_of(weights: Any, x: Array) -> np.ndarray[Any, Any]:
    """Check the weights, and bring them to the host."""
    check_array("x", x, kinds="iuf", halves=True)
    found = to_host(weights)
    check_array("weights", found, kinds="biuf")
    if not 1 <= x.ndim <= 3:
        raise wrong_value("x.ndim", x.ndim, "There must be one to three axes", "Reshape x")
    if found.ndim != x.ndim or not found.size:
        raise ArgumentValueError(
            f"x has {x.ndim} axes, and weights the shape {found.shape}",
            value=found.shape,
            limit="There must be as many axes as those of x, and at least one weight",
            remedy="Reshape one, as in weights[None, :]" if found.size else "Pass a weight",
        )
    return found.astype(np.float64)


def weigh(x: Array, box: np.ndarray[Any, Any], mode: Any, cval: Any, origin: Any, out: Out) -> Any:
    """Correlate with weights that have as many axes as `x`."""
    border = border_of(mode, cval)
    first = [offset_of(n, by) for n, by in zip(box.shape, origin, strict=True)]
    source, result = source_and_result(x, out, tuple(x.shape), x.dtype)
    if x.size:
        missing = 3 - x.ndim
        before, shape = [0] * missing + first, (1,) * missing + tuple(x.shape)
        box = np.where(np.abs(box) > np.finfo(np.float64).eps, box, 0)
        box = box.reshape((1,) * missing + box.shape)
        taken, given, number = source[(None,) * missing], result.reshape(shape), computing(x.dtype)
        how: dict[str, Any] = {"box": box.shape, "number": number.type, "store": stored(x.dtype)}
        how["skips"] = bool(np.any(box == 0))
        box = box.transpose(0, 2, 1).astype(number)
        if is_on_host(source) or not _weighed_by_tiles(taken, given, box, border, before, how):
            wide = padded(taken, number, border, before, how["box"])
            weights = constant_beside(taken, box.reshape(-1))
            launch_over(weigh_box, shape, wide, weights, given, **how)
    return finish(result, like=x, out=out)


def _weighed_by_tiles(
    x: Array, out: Array, box: np.ndarray[Any, Any], border: Border, before: Any, how: Any
) -> bool:
    """Correlate parts of planes, unless their halos do not fit into shared memory."""
    _, across, down = box.shape
    size, wide = box.dtype.itemsize, COLUMNS + across - 1
    for nbytes, warps in (HIGH_PARTS if down >= HIGH_BOX else PARTS, SMALL_PARTS):
        items = nbytes // size
        high, rows = warps * items + down - 1, -(-out.shape[1] // (warps * items))
        grid = -(-out.shape[2] // COLUMNS), out.shape[0] * rows
        if high * wide * size <= MAX_SHARED_BYTES and math.prod(grid) >= MANY_BLOCKS:
            break
    if high * wide * size > MAX_SHARED_BYTES or grid[1] > MAX_GRID_Y:
        return False
    vector = vector_of(box.dtype)
    weights = np.pad(box, ((0, 0), (0, 0), (0, -down % vector["width"]))).reshape(-1)
    constants = {"lines": -(-high // warps), "strips": -(-wide // 32), "items": items, **vector}
    numbers = box.dtype.type(border.fill), tuple(before)
    arrays = x, constant_beside(x, weights), out, *numbers
    how |= {"warps": warps, "mode": border.mode}
    launch(weigh_tiles, grid, 32 * warps, *arrays, **constants, **how)
    return True
