"""A call of a function of rows: which kernel takes an array, and with which constants.

====================  ==========================  ===============================================
kernel                array                       who works
====================  ==========================  ===============================================
``short``             (rows, n)                   a block holds a row as one tile
``long``              (rows, n)                   a block goes over a row, one tile after the other
``columns``           (before, n, after)          a thread goes over a column
====================  ==========================  ===============================================
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from kerneldsl.errors import ArgumentValueError
from stdlib_kernels.arrays import (
    Array,
    Out,
    allocate,
    check_array,
    check_out,
    check_same_kind,
    computing_dtype,
    contiguous_1d,
    destination,
    finish,
    is_contiguous,
    on_device,
)
from stdlib_kernels.parameters import axis_of
from stdlib_kernels.repeating import launch

__all__ = ["Kernels", "apply", "checked_axis", "factor_of", "result_dtype", "tile_of"]

#: Bytes of the longest row that is one tile, in the dtype that is computed in.
MAX_TILE_BYTES = 1 << 17
#: Elements of the tiles of a longer row.
LONG_TILE = 8192
#: Threads of a block by the largest tile that they take, the best that were found on an H200.
BLOCKS = {2048: 32, 4096: 64, 16384: 512, 32768: 1024}
#: Threads of a block of columns.
COLUMN_BLOCK = 256


class Kernels(NamedTuple):
    """Kernels of one function: ``(x, out, *others)``, with `number` and, of rows, `width`."""

    short: Any
    long: Any
    columns: Any


def result_dtype(x: Array) -> np.dtype[Any]:
    """Return the dtype of a result: float64 of booleans and integers."""
    return np.dtype(np.float64) if x.dtype.kind in "biu" else x.dtype


def checked_axis(x: Any, axis: Any) -> int:
    """Check an array and its axis, and return the axis from 0 on."""
    check_array("x", x, kinds="biuf", halves=True)
    return axis_of(axis, x.ndim)


def factor_of(name: str, array: Array | None, x: Array, axis: int) -> Array:
    """Check weights or shifts, and bring them to where kernels can reach them.

    For ``None`` it is an array of the dtype that is computed in, which nobody reads.
    """
    if array is None:
        return allocate(on_device(x[:0] if x.ndim else x), (1,), computing_dtype(result_dtype(x)))
    check_array(name, array, kinds="biuf", halves=True, ndim=1)
    check_same_kind(name, array, "x", x)
    if array.shape[0] != x.shape[axis]:
        raise ArgumentValueError(
            f"{name} has {array.shape[0]} elements, and the axis {x.shape[axis]}",
            value=tuple(array.shape),
            limit="There is one for each element along the axis",
            remedy="Name the axis that it belongs to, or take as many elements of it",
        )
    return on_device(array)


def apply(kernels: Kernels, x: Array, axis: int, out: Out, *others: Any, **constants: Any) -> Any:
    """Launch the kernel that suits the array's layout, and return the result.

    `axis` is from 0 on; `others` and `constants` are what the kernels take beside.
    """
    dtype = result_dtype(x)
    number = computing_dtype(dtype)
    check_out(out, like=x, shape=tuple(x.shape), dtype=dtype)
    source = on_device(x)
    usable = out if out is not None and is_contiguous(out) else None
    result = destination(source, tuple(x.shape), dtype, usable)
    if x.size:
        n, after = x.shape[axis], math.prod(x.shape[axis + 1 :])
        before = x.size // (n * after)
        constants["number"] = number.type
        if after == 1:
            rows = source[None] if x.ndim == 1 else contiguous_1d(source).reshape((before, n))
            _by_rows(kernels, rows, result.reshape((before, n)), *others, **constants)
        else:
            form = (before, n, after)
            strips = -(-after // COLUMN_BLOCK)
            block = min(COLUMN_BLOCK, tile_of(after))
            arrays = contiguous_1d(source).reshape(form), result.reshape(form)
            launch(kernels.columns, before * strips, block, *arrays, *others, **constants)
    return out if result is out else finish(result, like=x, out=out)


def tile_of(n: int) -> int:
    """Return the elements of the smallest tile that holds so many, a power of two."""
    return max(32, 1 << (n - 1).bit_length())


def _by_rows(kernels: Kernels, x: Array, out: Array, *others: Any, **constants: Any) -> None:
    width = tile_of(x.shape[1])
    is_short = width * np.dtype(constants["number"]).itemsize <= MAX_TILE_BYTES
    width = width if is_short else LONG_TILE
    block = next(block for most, block in BLOCKS.items() if width <= most)
    kernel = kernels.short if is_short else kernels.long
    launch(kernel, x.shape[0], block, x, out, *others, width=width, **constants)
