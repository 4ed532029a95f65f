"""Histogram and histogram equalization of a grey image.

Levels are counted by :mod:`stdlib_kernels.histogram.counting`.

References
----------
R. C. Gonzalez and R. E. Woods, "Digital Image Processing", 4th edition, 2018, section 3.3:
histogram equalization.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from stdlib_kernels.arrays import allocate, contiguous_1d, finish, on_device, source_and_result
from stdlib_kernels.checks import Array, Out, check_array, check_out
from stdlib_kernels.functions import library_function
from stdlib_kernels.histogram.counting import count_bins, itself

__all__ = ["equalize", "histogram"]

#: Grey values, and threads of the block that makes a table of them.
LEVELS = 256


@kd.kernel(wraparound=False)
def equalizing_table(counts, table):
    """Make the table of new grey values: ``(int64[256], uint8[256])``, one block of 256.

    The cumulative histogram is stretched so that the darkest level that occurs becomes 0 and the
    brightest 255.
    """
    t = kd.threadIdx.x
    below = kd.block.inclusive_scan(counts[t])
    darkest = counts[kd.block.min(t if counts[t] > 0 else LEVELS - 1)]
    rest = kd.block.broadcast(below, LEVELS - 1) - darkest
    value = t
    if rest > 0:
        value = (max(below - darkest, 0) * (LEVELS - 1) + rest // 2) // rest
    table[t] = value


@kd.kernel(wraparound=False)
def look_up(image, table, out):
    """Replace each grey value: ``(uint8[h, w], uint8[256], uint8[h, w])``."""
    i, j = kd.grid(2)
    if i < image.shape[0] and j < image.shape[1]:
        out[i, j] = table[image[i, j]]


def _histogram(pixels: Array) -> Any:
    """Count on the device where the pixels are."""
    return count_bins(pixels, pixels, LEVELS, itself, np.dtype(np.int32))


@library_function
def histogram(image: Array, *, out: Out = None) -> Any:
    """Count how often each grey value occurs.

    {parameters}
    image : uint8 array
        Of any rank and layout.
    out : int64 array of shape (256,), optional
        Where the counts go, of `image`'s kind.
    {returns: int64 array of shape (256,)}
        Of `image`'s kind; `out`, where it is given.
    {raises of: ArgumentError}
        Where `image` is no array of bytes, or `out` does not fit.
    {see: numpy.bincount : with ``minlength=256`` gives the same.}
    >>> histogram(np.array([[2, 0], [2, 1]], np.uint8))[:4].tolist()
    [1, 1, 2, 0]
    """
    check_array("image", image, dtypes=("uint8",))
    check_out(out, like=image, shape=(LEVELS,), dtype=np.dtype(np.int64))
    return finish(_histogram(on_device(contiguous_1d(image))), like=image, out=out)


@library_function
def equalize(image: Array, *, out: Out = None) -> Any:
    """Spread the grey values so that their cumulative histogram becomes a straight line.

    {parameters}
    image : uint8 array of shape (h, w)
        Of any layout.
    {grey out}
    {returns: uint8 array of shape (h, w)}
        A grey value v becomes ``round(255 (c[v] - c_min) / (n - c_min))``, halves up, where c is
        the cumulative histogram, c_min its first value above 0 and n the number of pixels; an image
        of one grey value stays as it is. `out`, where it is given.
    {raises of: ArgumentError}
        Where `image` is no grey image of bytes, or `out` does not fit.
    >>> equalize(np.array([[10, 11], [11, 12]], np.uint8)).tolist()
    [[0, 170], [170, 255]]
    """
    check_array("image", image, dtypes=("uint8",), ndim=2)
    shape = tuple(image.shape)
    source, result = source_and_result(image, out, shape, image.dtype, any_layout=True)
    if image.size:
        counts = _histogram(contiguous_1d(source))
        table = allocate(source, (LEVELS,), image.dtype)
        equalizing_table[1, LEVELS](counts, table)
        look_up.forall(*shape)(source, table, result)
    return finish(result, like=image, out=out)
