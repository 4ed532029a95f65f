"""Grey values of a colour image.

References
----------
Recommendation ITU-R BT.601-7, section 2.5.1: luma is 0.299 R + 0.587 G + 0.114 B.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError
from kerneldsl.repeating.calls import launch_over
from stdlib_kernels.arrays import finish, source_and_result
from stdlib_kernels.checks import Array, Out, check_array
from stdlib_kernels.functions import repeated_function

__all__ = ["grey"]


@kd.kernel(wraparound=False)
def luma(image, out):
    """Compute luminance; thousandths of R, G and B add up in integers, alike on every target."""
    i, j = kd.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        red = np.int32(image[i, j, 0])
        green = np.int32(image[i, j, 1])
        blue = np.int32(image[i, j, 2])
        out[i, j] = (299 * red + 587 * green + 114 * blue + 500) // 1000


@repeated_function
def grey(image: Array, *, out: Out = None) -> Any:
    """Convert a colour image to grey.

    {parameters}
    image : uint8 array of shape (h, w, 3) or (h, w, 4)
        Red, green, blue and, ignored, alpha.
    {grey out}
    {returns: uint8 array of shape (h, w)}
        The luma, rounded half up; `out`, where it is given.
    {raises of: ArgumentError}
        Where `image` is no colour image of bytes, or `out` does not fit.
    >>> grey(np.array([[[255, 255, 255], [255, 0, 0]]], np.uint8)).tolist()
    [[255, 76]]
    """
    check_array("image", image, dtypes=("uint8",), ndim=3)
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
