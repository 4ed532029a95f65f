"""Axes in another order: copies through a tile between arrays with different fastest axes.

Elements are read along the rows of the source and written along those of the result, 64 at a time.
A thread starts its 16 loads before it uses a result. Rows of the tile have one additional element,
so that the elements of a column are in different banks.

References
----------
Greg Ruetsch and Paulius Micikevicius, "Optimizing Matrix Transpose in CUDA", NVIDIA, 2009.
"""

from __future__ import annotations

import math
from typing import Any

import kerneldsl as kd
from kerneldsl.errors import ArgumentValueError
from kerneldsl.errors.values import safe_repr
from kerneldsl.repeating.recorded_calls import launch
from stdlib_kernels.arrays import finish, is_contiguous, is_on_host, source_and_result
from stdlib_kernels.checks import Array, Out, check_array
from stdlib_kernels.copying import copy_array
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.parameters import each_axis_of

__all__ = ["permute", "permuted"]

#: Elements of a tile, and those for elements of 16 bytes: fewer of them fit into shared memory.
TILE, SMALL_TILE = 64 * 64, 32 * 32
#: The largest number of rows or columns of a tile, for two long axes.
SIDE = 64
#: Threads of a block.
BLOCK = 256


@kd.kernel(wraparound=False)
def copy_tiles(source, out, strips, down, *, height, width, items, number):
    """Copy along the source's last axis, and the result's middle one: both ``[count, m, n]``."""
    held = kd.shared.array((height, width + 1), number)
    own = kd.local.array(items, number)
    left = kd.blockIdx.x % strips * width
    top = kd.blockIdx.x // strips % down * height
    at = kd.blockIdx.x // (strips * down)
    x, y, step = kd.threadIdx.x % width, kd.threadIdx.x // width, BLOCK // width
    for k in range(items):
        if top + y + k * step < source.shape[1] and left + x < source.shape[2]:
            own[k] = source[at, top + y + k * step, left + x]
    for k in range(items):
        held[y + k * step, x] = own[k]
    kd.syncthreads()
    x, y, step = kd.threadIdx.x % height, kd.threadIdx.x // height, BLOCK // height
    for k in range(items):
        if top + x < source.shape[1] and left + y + k * step < source.shape[2]:
            out[at, top + x, left + y + k * step] = held[x, y + k * step]


def _copy_permuted(source: Array, out: Array) -> None:
    """Copy an array to another of the same shape; their axes may have any order in memory."""
    kept = [k for k in range(out.ndim) if out.shape[k] != 1]
    read, written = (
        min(kept, key=lambda k: abs(each.strides[k]), default=0) for each in (source, out)
    )
    if not out.size:
        return
    if read == written:
        copy_array(source, out)
        return
    others = [k for k in range(out.ndim) if k not in (read, written)]
    order = (*sorted(others, key=lambda k: out.shape[k]), written, read)
    _copy_crossed(source.transpose(order), out.transpose(order))


def _copy_crossed(source: Array, out: Array) -> None:
    """Copy if the fastest axis is the source's last one, and the result's last but one."""
    if source.ndim > 3:
        for i in range(source.shape[0]):
            _copy_crossed(source[i], out[i])
        return
    if source.ndim == 2:
        source, out = source[None], out[None]
    _, rows, columns = source.shape
    size, side = (TILE, SIDE) if source.dtype.itemsize <= 8 else (SMALL_TILE, SIDE // 2)
    width = height = side
    if not is_on_host(out):
        # A tile contains all of a short axis, and accordingly more of the other one.
        down, across = (1 << (n - 1).bit_length() for n in (rows, columns))
        width = min(side, across)
        height = min(size // width, max(down, BLOCK // width), BLOCK)
        width = min(size // height, across, BLOCK) if height < side else width
    strips, down = -(-columns // width), -(-rows // height)
    constants = {"height": height, "width": width, "items": height * width // BLOCK}
    grid, number = source.shape[0] * strips * down, source.dtype.type
    launch(copy_tiles, grid, BLOCK, source, out, strips, down, **constants, number=number)


@repeated_function
def permute(x: Array, axes: tuple[int, ...] | None = None, *, out: Out = None) -> Any:
    """Return an array with its axes in another order, in new memory.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    axes : tuple of int, optional
        For each axis of the result, the axis of `x`; by default reversed.
    out : array, optional
        Array for the result, with the result's shape and dtype and the same kind as `x`.

    Returns
    -------
    array
        Same kind and dtype as `x`, contiguous in C order; `out` if it is given.

    See Also
    --------
    numpy.transpose : returns a view instead.

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.movement import permute
    >>> permute(np.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    check_array("x", x, halves=True)
    order = tuple(reversed(range(x.ndim))) if axes is None else each_axis_of(axes, x.ndim)
    if sorted(order) != list(range(x.ndim)):
        raise ArgumentValueError(
            f"axes are {safe_repr(axes)}", value=axes, limit=f"Each of the {x.ndim} is named once"
        )
    return permuted(x, order, out)


def permuted(x: Array, order: tuple[int, ...], out: Out) -> Any:
    """Return an array with its axes in another order, or `out`, as `permute` does."""
    shape = tuple(x.shape[k] for k in order)
    source, result = source_and_result(x, out, shape, x.dtype, any_layout=True)
    if is_contiguous(source) and is_contiguous(result) and x.size:
        # Axes that remain neighbours are merged into one.
        groups: list[list[int]] = []
        for k in order:
            if groups and groups[-1][-1] == k - 1:
                groups[-1].append(k)
            else:
                groups.append([k])
        whole = {g[0]: math.prod(x.shape[k] for k in g) for g in groups}
        firsts = sorted(whole)
        merged = source.reshape(tuple(whole[k] for k in firsts))
        moved = merged.transpose(tuple(firsts.index(g[0]) for g in groups))
        _copy_permuted(moved, result.reshape(tuple(moved.shape)))
    else:
        _copy_permuted(source.transpose(order), result)
    return finish(result, like=x, out=out)
