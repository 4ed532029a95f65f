"""Copies between arrays whose fastest axes differ, through a tile in shared memory.

Elements are read along the source's rows and written along the result's, both 64 at a time, and a
thread has its 16 loads under way at once. Rows of the tile are one element longer than it is, so
that a column's elements lie in different banks.

References
----------
Greg Ruetsch and Paulius Micikevicius, "Optimizing Matrix Transpose in CUDA", NVIDIA, 2009.
"""

from __future__ import annotations

from typing import Any

import kerneldsl as kd
from stdlib_kernels.arrays import Array, is_on_host
from stdlib_kernels.copying import copy_elements
from stdlib_kernels.repeating import launch, refuse_to_repeat

__all__ = ["copy_array", "copy_permuted", "over"]

#: Elements of a tile; of elements of 16 bytes, of which fewer fit into shared memory.
TILE, SMALL_TILE = 64 * 64, 32 * 32
#: Most rows or columns of a tile of the shape that suits two long axes.
SIDE = 64
#: Threads of a block.
BLOCK = 256


@kd.kernel(wraparound=False)
def copy_tiles(source, out, strips, down, *, height, width, items, number):
    """Copy along the source's last axis, and the result's middle one: ``[count, m, n]`` of both."""
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


def copy_permuted(source: Array, out: Array) -> None:
    """Copy one array over another of the same shape, whatever order their axes have in memory."""
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


def over(kernel: Any, shape: tuple[int, ...], *args: Any, **constants: Any) -> None:
    """Launch a kernel over three axes along which threads follow each other, the last one first.

    Where that has an extent of 1, the middle one is the last, as `is_last` tells the kernel.
    """
    is_last = shape[2] == 1
    extent = (shape[0], 1, shape[1]) if is_last else shape
    kernel.forall(*extent)(*args, is_last=is_last, **constants)


def copy_array(source: Array, out: Array) -> None:
    """Copy one array over another of the same shape, element by element."""
    if isinstance(source, kd.DeviceArray) and isinstance(out, kd.DeviceArray):
        copy_elements(source, out)
    else:
        refuse_to_repeat()
        out[...] = source


def _copy_crossed(source: Array, out: Array) -> None:
    """Copy where the source's last axis is its fastest, and the result's last but one."""
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
        # An axis that is short is taken whole, and as much more of the other one.
        down, across = (1 << (n - 1).bit_length() for n in (rows, columns))
        width = min(side, across)
        height = min(size // width, max(down, BLOCK // width), BLOCK)
        width = min(size // height, across, BLOCK) if height < side else width
    strips, down = -(-columns // width), -(-rows // height)
    constants = {"height": height, "width": width, "items": height * width // BLOCK}
    grid, number = source.shape[0] * strips * down, source.dtype.type
    launch(copy_tiles, grid, BLOCK, source, out, strips, down, **constants, number=number)
