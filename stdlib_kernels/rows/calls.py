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

from typing import Any, NamedTuple

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch, launch_over
from stdlib_kernels.arrays import allocate, around_axis, finish, on_device, source_and_result
from stdlib_kernels.checks import Array, Out, check_array, check_same_kind, check_shape
from stdlib_kernels.parameters import computing_dtype, finite_of, floating_dtype

__all__ = [
    "GRADIENT_BLOCK",
    "SPACE",
    "Kernels",
    "added_of",
    "apply",
    "factor_of",
    "gradient",
    "launch_rows",
    "tile_of",
]

#: Bytes of the longest row that is one tile, in the dtype that is computed in.
MAX_TILE_BYTES = 1 << 17
#: Elements of the tiles of a longer row.
LONG_TILE = 8192
#: Threads of a block by the largest tile that they take, the best that were found on an H200.
BLOCKS = {2048: 32, 4096: 64, 16384: 512, 32768: 1024}
#: Blocks and tiles of rows: a launch that was not tuned takes the block of `BLOCKS`.
SPACE = kd.Space(
    block=[32, 64, 128, 256, 512, 1024],
    width=[1 << bits for bits in range(5, 16)],
    where=lambda c: c.block <= c.width <= 64 * c.block,
    covers=lambda c: 1,
    first=lambda c: c.block == next(n for most, n in BLOCKS.items() if c.width <= most),
)
#: Threads of a block of columns, and of one that takes a row of a gradient.
COLUMN_BLOCK, GRADIENT_BLOCK = 256, 256


class Kernels(NamedTuple):
    """Kernels of one function: ``(x, out, *others)``, with `number` and, of rows, in a `SPACE`."""

    short: Any
    long: Any
    columns: Any


def factor_of(name: str, array: Array | None, x: Array, axis: int) -> Array:
    """Check weights or shifts, and bring them to where kernels can reach them.

    For ``None`` it is an array of the dtype of the computation, which is not read.
    """
    if array is None:
        return allocate(
            on_device(x[:0] if x.ndim else x), (1,), computing_dtype(floating_dtype(x.dtype))
        )
    check_array(name, array, kinds="biuf", halves=True, ndim=1)
    check_same_kind(name, array, "x", x)
    n = x.shape[axis]
    remedy = "Name the axis that it belongs to, or take as many elements of it"
    check_shape(name, array, (n,), f"There must be one for each of the {n} along the axis", remedy)
    return on_device(array)


def added_of(eps: Any, number: np.dtype[Any]) -> Any:
    """Return what a norm adds, in the dtype that is computed in; its precision for ``None``."""
    return finite_of("eps", np.finfo(number).eps if eps is None else eps, number, 0)


def apply(kernels: Kernels, x: Array, axis: int, out: Out, *others: Any, **constants: Any) -> Any:
    """Launch the kernel that suits the array's layout, and return the result.

    `axis` is from 0 on; `others` and `constants` are what the kernels take beside.
    """
    dtype = floating_dtype(x.dtype)
    number = computing_dtype(dtype)
    source, result = source_and_result(x, out, tuple(x.shape), dtype)
    if x.size:
        constants["number"] = number.type
        taken, given = around_axis(source, axis), around_axis(result, axis)
        launch_rows(kernels, taken, given, *others, **constants)
    return finish(result, like=x, out=out)


def launch_rows(kernels: Kernels, x: Array, out: Array, *others: Any, **constants: Any) -> None:
    """Launch the kernel that suits arrays in three axes; the rows are along the second.

    Of `others`, arrays in three axes are handed on as `x` is.
    """
    before, n, after = x.shape
    if after > 1:
        strips, block = -(-after // COLUMN_BLOCK), min(COLUMN_BLOCK, tile_of(after))
        launch(kernels.columns, before * strips, block, x, out, *others, **constants)
        return
    rows = [each[:, :, 0] if getattr(each, "ndim", 0) == 3 else each for each in (x, out, *others)]
    is_short = tile_of(n) * np.dtype(constants["number"]).itemsize <= MAX_TILE_BYTES
    kernel, width = (kernels.short, tile_of(n)) if is_short else (kernels.long, LONG_TILE)
    launch_over(kernel, (before,), *rows, width=width, **constants)


def gradient(
    kernel: Any, before: tuple[Array, ...], x: Array, axis: int, *after: Any, **how: Any
) -> Any:
    """Launch ``(*before, x, out, *after)`` with a block for each row, and return a gradient by `x`.

    Arrays in three axes are made of `x` and the result; `before` has those of the other arrays.
    """
    source = on_device(x)
    result = allocate(source, tuple(x.shape), x.dtype)
    if x.size:
        taken, given = around_axis(source, axis), around_axis(result, axis)
        grid, how["number"] = taken.shape[0] * taken.shape[2], computing_dtype(x.dtype).type
        kernel[grid, GRADIENT_BLOCK](*before, taken, given, *after, **how)
    return finish(result, like=x)


def tile_of(n: int) -> int:
    """Return the elements of the smallest tile that holds so many, a power of two."""
    return max(32, 1 << (n - 1).bit_length())
