"""Filters of grey images: Gaussian blur, and the strength of edges by Sobel's operator.

References
----------
R. O. Duda and P. E. Hart, "Pattern Classification and Scene Analysis", 1973, pages 271-272, where
Sobel's 3×3 operator was first published.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch_over
from stdlib_kernels.arrays import finish, source_and_result
from stdlib_kernels.checks import Array, Out, check_array
from stdlib_kernels.functions import library_function, repeated_function
from stdlib_kernels.parameters import number_of
from stdlib_kernels.stencil.borders import border_of
from stdlib_kernels.stencil.filters import filter_lines, gaussian_weights
from stdlib_kernels.stencil.lines import axis_weights

__all__ = ["gaussian_blur", "sobel"]


@library_function
def gaussian_blur(image: Array, sigma: float, *, truncate: float = 4.0, out: Out = None) -> Any:
    """Blur a grey image with a Gaussian filter.

    Parameters
    ----------
    image : array of shape (h, w)
        uint8, float32 or float64. Any layout.
    sigma : float
        Standard deviation of the Gaussian in pixels.
    truncate : float
        The filter ends this many standard deviations from its centre.
    out : array of shape (h, w), optional
        Array for the result, with the result's dtype and the same kind as `image`.

    Returns
    -------
    array of shape (h, w)
        float64 for a float64 image, else float32; `out` if it is given. Beyond its edges the image
        is mirrored, including the edge pixels.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        If `image` is not a grey image, or `out` does not fit.
    kerneldsl.errors.ArgumentValueError
        If sigma is not positive.

    See Also
    --------
    scipy.ndimage.gaussian_filter : the same with its default mode.

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.imaging import gaussian_blur
    >>> spot = np.zeros((5, 5), np.float32)
    >>> spot[2, 2] = 1
    >>> round(float(gaussian_blur(spot, 0.5)[2, 2]), 4)
    0.6187
    """
    dtype = _checked(image)
    weights = gaussian_weights(number_of("sigma", sigma), number_of("truncate", truncate))
    steps = [axis_weights(weights, 1), axis_weights(weights, 0)]
    return filter_lines(image, steps, border_of("reflect", 0.0), out, dtype)


@cache
def gradient_magnitude(dtype: np.dtype[Any]) -> Any:
    """Make the kernel for one dtype: ``(image[h, w], out[h, w])``."""
    number = dtype.type

    @kd.kernel(wraparound=False)
    def gradient_magnitude(image, out):
        i, j = kd.grid(2)
        above = max(i - 1, 0)
        below = min(i + 1, image.shape[0] - 1)
        left = max(j - 1, 0)
        right = min(j + 1, image.shape[1] - 1)
        north_west = number(image[above, left])
        north = number(image[above, j])
        north_east = number(image[above, right])
        west = number(image[i, left])
        east = number(image[i, right])
        south_west = number(image[below, left])
        south = number(image[below, j])
        south_east = number(image[below, right])
        down = (south_west - north_west) + (south_east - north_east)
        down += (south - north) + (south - north)
        across = (north_east - north_west) + (south_east - south_west)
        across += (east - west) + (east - west)
        out[i, j] = math.sqrt(down * down + across * across)

    return gradient_magnitude


@repeated_function
def sobel(image: Array, *, out: Out = None) -> Any:
    """Compute the magnitude of the gradient of a grey image.

    Parameters
    ----------
    image : array of shape (h, w)
        uint8, float32 or float64. Any layout.
    out : array of shape (h, w), optional
        Array for the result, with the result's dtype and the same kind as `image`.

    Returns
    -------
    array of shape (h, w)
        The length of the gradient, eight times the change from pixel to pixel. float64 for a
        float64 image, else float32; `out` if it is given. Beyond its edges the image is mirrored.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        If `image` is not a grey image, or `out` does not fit.

    See Also
    --------
    scipy.ndimage.sobel : one component of the gradient, with the same scale.

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.imaging import sobel
    >>> sobel(np.array([[0, 0, 9, 9]] * 3, np.uint8))[1].tolist()
    [0.0, 36.0, 36.0, 0.0]
    """
    dtype = _checked(image)
    shape = tuple(image.shape)
    source, result = source_and_result(image, out, shape, dtype, any_layout=True)
    launch_over(gradient_magnitude(dtype), shape, source, result)
    return finish(result, like=image, out=out)


def _checked(image: Array) -> np.dtype[Any]:
    """Check a grey image, and return the dtype of the result."""
    check_array("image", image, dtypes=("uint8", "float32", "float64"), ndim=2)
    return np.dtype(np.float64 if image.dtype == np.float64 else np.float32)
