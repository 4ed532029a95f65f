"""Grey values: of a colour image, their histogram, and its equalization.

Levels are counted by :mod:`stdlib_kernels.histogram.counting`.

References
----------
Recommendation ITU-R BT.601-7, section 2.5.1: luma is 0.299 R + 0.587 G + 0.114 B.
R. C. Gonzalez and R. E. Woods, "Digital Image Processing", 4th edition, 2018, section 3.3:
histogram equalization.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError
from kerneldsl.repeating.recorded_calls import launch_over
from stdlib_kernels.arrays import allocate, contiguous_1d, finish, on_device, source_and_result
from stdlib_kernels.checks import Array, Out, check_array, check_out
from stdlib_kernels.functions import library_function, repeated_function
from stdlib_kernels.histogram.counting import count_bins, itself

__all__ = ["equalize", "grey", "histogram"]

#: Grey values, and threads of the block that makes a table of them.
LEVELS = 256
#: The dtype of their counts.
COUNTED = np.dtype(np.int32)
#: The remedy for an image of another dtype: a conversion alone would make many values equal.
_TO_BYTES = (
    "Scale values to 0 … 255: (255 * image).astype(np.uint8) for values of 0 to 1, "
    "(image // 256).astype(np.uint8) for uint16, image.astype(np.uint8) for values of 0 to 255"
)


@kd.kernel(wraparound=False)
def luma(image, out):
    """Compute luma from thousandths of R, G and B, in integers for equal results everywhere."""
    i, j = kd.grid(2)
    red = np.int32(image[i, j, 0])
    green = np.int32(image[i, j, 1])
    blue = np.int32(image[i, j, 2])
    out[i, j] = (299 * red + 587 * green + 114 * blue + 500) // 1000


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
    out[i, j] = table[image[i, j]]


@repeated_function
def grey(image: Array, *, out: Out = None) -> Any:
    """Convert a colour image to grey.

    Parameters
    ----------
    image : uint8 array of shape (h, w, 3) or (h, w, 4)
        Red, green, blue and optionally alpha, which is ignored.
    out : array of shape (h, w), optional
        Array for the result, with the result's dtype and the same kind as `image`.

    Returns
    -------
    uint8 array of shape (h, w)
        The luma, rounded half up; `out` if it is given.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        If `image` is not a colour image of bytes, or `out` does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.imaging import grey
    >>> grey(np.array([[[255, 255, 255], [255, 0, 0]]], np.uint8)).tolist()
    [[255, 76]]
    """
    check_array("image", image, dtypes=("uint8",), ndim=3, dtype_remedy=_TO_BYTES)
    if image.shape[2] not in (3, 4):
        raise ArgumentTypeError(
            f"image has {image.shape[2]} channels",
            value=tuple(image.shape),
            limit="A colour image has 3 (red, green, blue) or 4 (and alpha) along its last axis",
            remedy="Move the channels to the last axis, or leave a grey image as it is",
        )
    shape = tuple(image.shape[:2])
    source, result = source_and_result(image, out, shape, image.dtype, any_layout=True)
    launch_over(luma, shape, source, result)
    return finish(result, like=image, out=out)


@library_function
def histogram(image: Array, *, out: Out = None) -> Any:
    """Count how often each grey value occurs.

    Parameters
    ----------
    image : uint8 array
        Any rank and layout.
    out : int64 array of shape (256,), optional
        Array for the counts. Same kind as `image`.

    Returns
    -------
    int64 array of shape (256,)
        Same kind as `image`; `out` if it is given.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        If `image` is not an array of bytes, or `out` does not fit.

    See Also
    --------
    numpy.bincount : with ``minlength=256`` gives the same.

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.imaging import histogram
    >>> histogram(np.array([[2, 0], [2, 1]], np.uint8))[:4].tolist()
    [1, 1, 2, 0]
    """
    check_array("image", image, dtypes=("uint8",), dtype_remedy=_TO_BYTES)
    check_out(out, like=image, shape=(LEVELS,), dtype=np.dtype(np.int64))
    pixels = on_device(contiguous_1d(image))
    return finish(count_bins(pixels, pixels, LEVELS, itself, COUNTED), like=image, out=out)


@library_function
def equalize(image: Array, *, out: Out = None) -> Any:
    """Spread the grey values so that their cumulative histogram becomes a straight line.

    Parameters
    ----------
    image : uint8 array of shape (h, w)
        Any layout.
    out : array of shape (h, w), optional
        Array for the result, with the result's dtype and the same kind as `image`.

    Returns
    -------
    uint8 array of shape (h, w)
        `out` if it is given. A grey value v becomes ``round(255 (c[v] - c_min) / (n - c_min))``,
        with halves rounded up. Here c is the cumulative histogram, c_min its first value above 0,
        and n the number of pixels. An image with only one grey value does not change.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        If `image` is not a grey image of bytes, or `out` does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.imaging import equalize
    >>> equalize(np.array([[10, 11], [11, 12]], np.uint8)).tolist()
    [[0, 170], [170, 255]]
    """
    check_array("image", image, dtypes=("uint8",), ndim=2, dtype_remedy=_TO_BYTES)
    shape = tuple(image.shape)
    source, result = source_and_result(image, out, shape, image.dtype, any_layout=True)
    if image.size:
        pixels = contiguous_1d(source)
        counts = count_bins(pixels, pixels, LEVELS, itself, COUNTED)
        table = allocate(source, (LEVELS,), image.dtype)
        equalizing_table[1, LEVELS](counts, table)
        look_up.forall(*shape)(source, table, result)
    return finish(result, like=image, out=out)
