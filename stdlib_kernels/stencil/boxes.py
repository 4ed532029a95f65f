"""Weights of a box of up to three axes, each applied at once: direct convolution.

The array is first copied with its border, so that the kernel knows no edges; a thread computes some
elements of a column, and reads what they have in common once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentValueError
from stdlib_kernels.arrays import Array, check_array, is_on_host
from stdlib_kernels.functions import library_function
from stdlib_kernels.parameters import integer_of
from stdlib_kernels.stencil.borders import Border, border_of, offset_of, padded, place
from stdlib_kernels.stencil.calls import checked, delivered, weights_on
from stdlib_kernels.stencil.lines import computing, read_weights, stored
from stdlib_kernels.vectors import vector_of

__all__ = ["convolve", "correlate"]

#: Elements of a column that a thread computes, on a GPU; on the host one, and lanes do the rest.
ITEMS = 4
#: Columns of a part of a plane that a block computes, one for each lane; its warps, which follow
#: each other along the rows.
COLUMNS, WARPS = 32, 8
#: Bytes of shared memory, and blocks along y, that every device has.
MAX_SHARED_BYTES, MAX_GRID_Y = 48 << 10, 65535


@kd.kernel(wraparound=False)
def weigh_box(x, weights, out, *, box, number, store, skips):
    """Add up products: ``x[a + …, b + …, c + …], weights[…], out[a, b, c]``."""
    i, j, k = kd.grid(3)
    total = number(0)
    for p in range(box[0]):
        for s in range(box[2]):
            for q in range(box[1]):
                w = weights[(p * box[2] + s) * box[1] + q]
                # What has no weight has no part, be it infinite.
                total += w * (number(0) if skips and w == 0 else x[i + p, j + q, k + s])
    out[i, j, k] = store(total)


@kd.kernel(wraparound=False)
def weigh_tiles(
    x,
    weights,
    out,
    fill,
    before,
    *,
    box,
    lines,
    strips,
    items,
    mode,
    number,
    vector,
    width,
    store,
    skips,
):
    """Add up products in a part of a plane, which a block holds with its halo in shared memory.

    Weights along the middle axis stand side by side, padded to multiples of `width`, at which they
    are read.
    """
    high, wide = WARPS * items + box[1] - 1, COLUMNS + box[2] - 1
    tile = kd.shared.array((WARPS * items + box[1] - 1, COLUMNS + box[2] - 1), number)
    sums, near = kd.local.array(items, number), kd.local.array(items, number)
    w, vectors = kd.local.array(width, number), kd.view(weights, vector)
    ys, zs = kd.local.array(lines, kd.int64), kd.local.array(strips, kd.int64)
    read = kd.local.array((lines, strips), number)
    lane, warp = kd.threadIdx.x % 32, kd.threadIdx.x // 32
    down = (out.shape[1] + WARPS * items - 1) // (WARPS * items)
    a, row = kd.blockIdx.y // down, warp * items
    top, left = kd.blockIdx.y % down * (WARPS * items), kd.blockIdx.x * COLUMNS
    for r in range(items):
        sums[r] = number(0)
    low, first = top + before[1], left + before[2]
    is_inside = low >= 0 and low + high <= x.shape[1] and first >= 0 and first + wide <= x.shape[2]
    if not is_inside:
        for n in range(lines):
            ys[n] = place(mode, low + warp + n * WARPS, x.shape[1])
        for m in range(strips):
            zs[m] = place(mode, first + lane + m * 32, x.shape[2])
    for p in range(box[0]):
        y = place(mode, a + p + before[0], x.shape[0])
        if is_inside and y >= 0:
            for n in range(lines):
                for m in range(strips):
                    if warp + n * WARPS < high and lane + m * 32 < wide:
                        at = low + warp + n * WARPS, first + lane + m * 32
                        read[n, m] = number(x[y, at[0], at[1]])
        else:
            for n in range(lines):
                for m in range(strips):
                    is_there = y >= 0 and ys[n] >= 0 and zs[m] >= 0
                    read[n, m] = number(x[y, ys[n], zs[m]]) if is_there else fill
        kd.syncthreads()
        for n in range(lines):
            for m in range(strips):
                if warp + n * WARPS < high and lane + m * 32 < wide:
                    tile[warp + n * WARPS, lane + m * 32] = read[n, m]
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
                        for r in range(items - 1):
                            near[r] = near[r + 1]
                        near[items - 1] = tile[row + q + items - 1, lane + s]
                        for r in range(items):
                            v = number(0) if skips and w[each] == 0 else near[r]
                            sums[r] += w[each] * v
    for r in range(items):
        if top + row + r < out.shape[1] and left + lane < out.shape[2]:
            out[a, top + row + r, left + lane] = store(sums[r])


@library_function
def correlate(
    x: Array,
    weights: Any,
    mode: str = "reflect",
    cval: float = 0.0,
    origin: int | tuple[int, ...] = 0,
    *,
    out: Array | None = None,
) -> Any:
    """Add up the neighbours of each element, each multiplied by a weight.

    {parameters: filtered}
    {weights}
    {border}
    {origins: weights}
    {filtered result}
    {see: scipy.ndimage.correlate}
    {examples}
    >>> correlate(np.array([1.0, 2.0, 4.0]), np.array([0.0, 1.0, 10.0])).tolist()
    [21.0, 42.0, 44.0]
    """
    box = _weights(weights, x)
    return _apply(x, box, mode, cval, _origins(origin, box), out)


@library_function
def convolve(
    x: Array,
    weights: Any,
    mode: str = "reflect",
    cval: float = 0.0,
    origin: int | tuple[int, ...] = 0,
    *,
    out: Array | None = None,
) -> Any:
    """Correlate with the weights in reversed order along each axis, as `correlate` does.

    {parameters: filtered}
    {weights}
    {border}
    {origins: weights}
    {filtered result}
    {see: scipy.ndimage.convolve}
    """
    box = _weights(weights, x)
    moved = tuple(
        -by - (n % 2 == 0) for by, n in zip(_origins(origin, box), box.shape, strict=True)
    )
    return _apply(x, np.flip(box), mode, cval, moved, out)


def _weights(weights: Any, x: Array) -> np.ndarray[Any, Any]:
    """Check the weights, and bring them to the host."""
    check_array("x", x, kinds="iuf", halves=True)
    found = weights.copy_to_host() if isinstance(weights, kd.DeviceArray) else np.asarray(weights)
    check_array("weights", found, kinds="biuf")
    if found.ndim != x.ndim or not 1 <= found.ndim <= 3 or not found.size:
        raise ArgumentValueError(
            f"x has {x.ndim} axes, and weights the shape {found.shape}",
            value=found.shape,
            limit="Both have one to three axes, as many as the other, and there is a weight",
        )
    return found.astype(np.float64)


def _origins(origin: Any, box: np.ndarray[Any, Any]) -> tuple[int, ...]:
    given = origin if isinstance(origin, tuple | list) else (origin,) * box.ndim
    if len(given) != box.ndim:
        raise ArgumentValueError(
            f"origin has {len(given)} numbers", value=origin, limit="There is one for each axis"
        )
    return tuple(integer_of("origin", each) for each in given)


def _apply(
    x: Array, box: np.ndarray[Any, Any], mode: Any, cval: Any, origin: Any, out: Array | None
) -> Any:
    border = border_of(mode, cval)
    first = [offset_of(n, by) for n, by in zip(box.shape, origin, strict=True)]
    source, result = checked(x, out)
    if x.size:
        missing = 3 - x.ndim
        before, shape = [0] * missing + first, (1,) * missing + tuple(x.shape)
        box = np.where(np.abs(box) > np.finfo(np.float64).eps, box, 0)
        box = box.reshape((1,) * missing + box.shape).transpose(0, 2, 1)
        planes = source[(None,) * missing], result.reshape(shape)
        (_weigh_padded if is_on_host(source) else _weigh_tiles)(*planes, box, border, before)
    return delivered(result, x, out)


def _constants(box: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> dict[str, Any]:
    count, across, down = box.shape
    return {
        "box": (count, down, across),
        "number": computing(dtype).type,
        "store": stored(dtype),
        "skips": bool(np.any(box == 0)),
    }


def _weigh_padded(
    x: Array, out: Array, box: np.ndarray[Any, Any], border: Border, before: Any
) -> None:
    """Weigh the elements of a copy with its border, so that the kernel knows no edges."""
    constants = _constants(box, x.dtype)
    extents = tuple(n + m - 1 for n, m in zip(out.shape, constants["box"], strict=True))
    number = computing(x.dtype)
    wide = padded(x, number, border, before, extents)
    weights = weights_on(x, box.reshape(-1).astype(number))
    weigh_box.forall(*out.shape)(wide, weights, out, **constants)


def _weigh_tiles(
    x: Array, out: Array, box: np.ndarray[Any, Any], border: Border, before: Any
) -> None:
    """Weigh parts of planes, as far as their halos fit into shared memory."""
    constants = _constants(box, x.dtype)
    _, down, across = constants["box"]
    number = computing(x.dtype)
    high, wide = WARPS * ITEMS + down - 1, COLUMNS + across - 1
    rows = -(-out.shape[1] // (WARPS * ITEMS))
    grid = -(-out.shape[2] // COLUMNS), out.shape[0] * rows
    if high * wide * number.itemsize > MAX_SHARED_BYTES or grid[1] > MAX_GRID_Y:
        _weigh_padded(x, out, box, border, before)
        return
    constants |= vector_of(number)
    spare = -down % constants["width"]
    weights = np.pad(box, ((0, 0), (0, 0), (0, spare))).reshape(-1)
    weigh_tiles[grid, 32 * WARPS](
        x,
        weights_on(x, weights.astype(number)),
        out,
        number.type(border.fill),
        tuple(before),
        **constants,
        lines=-(-high // WARPS),
        strips=-(-wide // 32),
        items=ITEMS,
        mode=border.mode,
    )
