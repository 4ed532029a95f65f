"""Gaussian blur: two passes of a one-dimensional filter, each through a tile in shared memory.

A block filters a strip of the image. Its threads first load the strip and, beyond both ends, the
neighbours that the filter reaches (the halo), wait for each other, and then read each element from
shared memory as often as the filter has weights. The radius of the filter is a constant of the
kernel, so its loop is unrolled.

References
----------
Victor Podlozhnyuk, "Image Convolution with CUDA", NVIDIA, 2007: the separable filter with halos.
R. C. Gonzalez and R. E. Woods, "Digital Image Processing", 4th edition, 2018, section 3.5: the
Gaussian filter and its separability.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.errors import ArgumentValueError
from stdlib_kernels.arrays import (
    Array,
    allocate,
    check_array,
    check_out,
    destination,
    finish,
    on_device,
    to_like,
)
from stdlib_kernels.functions import library_function
from stdlib_kernels.parameters import number_of

__all__ = ["gaussian_blur"]

#: Columns and rows of the part of the image that a block filters.
BLOCK_X, BLOCK_Y = 32, 8
#: The filter's halo must fit into 48 KB of shared memory beside the strip.
MAX_RADIUS = 64


@kd.func
def mirrored(i, size, folds):
    """Return the place inside ``0 … size - 1`` that mirrors i: d c b a | a b c d | d c b a."""
    for _ in range(folds):
        i = max(i, -1 - i)
        i = min(i, 2 * size - 1 - i)
    return i


@cache
def blur_rows(dtype: np.dtype[Any], radius: int) -> Any:
    """Make the kernel that filters along rows.

    Its parameters are ``(image[h, w], weights[2 radius + 1], out[h, w], folds)``; `folds` is how
    often the halo must be mirrored: once, where the image is not smaller than it.
    """
    number = dtype.type
    taps = 2 * radius + 1
    loaded = BLOCK_X + 2 * radius

    @kd.kernel(wraparound=False)
    def blur_rows(image, weights, out, folds):
        tile = kd.shared.array((BLOCK_Y, loaded), number)
        tx = kd.threadIdx.x
        ty = kd.threadIdx.y
        row = kd.blockIdx.y * BLOCK_Y + ty
        left = kd.blockIdx.x * BLOCK_X
        for k in range(tx, loaded, BLOCK_X):
            column = mirrored(left + k - radius, image.shape[1], folds)
            if row < image.shape[0]:
                tile[ty, k] = image[row, column]
        kd.syncthreads()
        total = number(0)
        for k in range(taps):
            total += weights[k] * tile[ty, tx + k]
        if row < out.shape[0] and left + tx < out.shape[1]:
            out[row, left + tx] = total

    return blur_rows


@cache
def blur_columns(dtype: np.dtype[Any], radius: int) -> Any:
    """Make the kernel that filters along columns; its parameters are those of `blur_rows`."""
    number = dtype.type
    taps = 2 * radius + 1
    loaded = BLOCK_Y + 2 * radius

    @kd.kernel(wraparound=False)
    def blur_columns(image, weights, out, folds):
        tile = kd.shared.array((loaded, BLOCK_X), number)
        tx = kd.threadIdx.x
        ty = kd.threadIdx.y
        column = kd.blockIdx.x * BLOCK_X + tx
        top = kd.blockIdx.y * BLOCK_Y
        for k in range(ty, loaded, BLOCK_Y):
            row = mirrored(top + k - radius, image.shape[0], folds)
            if column < image.shape[1]:
                tile[k, tx] = image[row, column]
        kd.syncthreads()
        total = number(0)
        for k in range(taps):
            total += weights[k] * tile[ty + k, tx]
        if top + ty < out.shape[0] and column < out.shape[1]:
            out[top + ty, column] = total

    return blur_columns


def gaussian_weights(sigma: float, radius: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the 2 radius + 1 samples of a Gaussian that add up to 1."""
    weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    return np.asarray(weights / weights.sum())


@library_function
def gaussian_blur(
    image: Array, sigma: float, *, truncate: float = 4.0, out: Array | None = None
) -> Any:
    """Blur a grey image with a Gaussian filter.

    Parameters
    ----------
    image : array of shape (h, w)
        Of any layout; uint8, float32 or float64.
    sigma : float
        Standard deviation of the Gaussian in pixels.
    truncate : float
        The filter ends this many standard deviations from its centre.
    out : array of shape (h, w), optional
        Where the result goes, of the result's dtype and of `image`'s kind.

    Returns
    -------
    array of shape (h, w)
        float64 for a float64 image, else float32; `out`, where it is given. The image is continued
        beyond its edges by its mirror image, edge pixels included.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        Where `image` is no grey image, or `out` does not fit.
    kerneldsl.errors.ArgumentValueError
        Where sigma is not positive, or the filter reaches further than 64 pixels.

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
    check_array("image", image, dtypes=("uint8", "float32", "float64"), ndim=2)
    sigma, truncate = number_of("sigma", sigma), number_of("truncate", truncate)
    radius = filter_radius(sigma, truncate)
    dtype = np.dtype(np.float64 if image.dtype == np.float64 else np.float32)
    height, width = image.shape
    check_out(out, like=image, shape=(height, width), dtype=dtype)
    source = on_device(image)
    result = destination(source, (height, width), dtype, out)
    if height and width:
        weights = to_like(source, gaussian_weights(sigma, radius).astype(dtype))
        between = allocate(source, (height, width), dtype)
        grid = (-(-width // BLOCK_X), -(-height // BLOCK_Y))
        block = (BLOCK_X, BLOCK_Y)
        folds = _folds(width, radius, BLOCK_X), _folds(height, radius, BLOCK_Y)
        blur_rows(dtype, radius)[grid, block](source, weights, between, folds[0])
        blur_columns(dtype, radius)[grid, block](between, weights, result, folds[1])
    return finish(result, like=image, out=out)


def filter_radius(sigma: float, truncate: float = 4.0) -> int:
    """Return how many pixels the filter reaches to each side.

    Raises
    ------
    ArgumentValueError
        Where sigma or truncate is not a positive number, or that is more than `MAX_RADIUS`.
    """
    if not (math.isfinite(sigma) and sigma > 0 and math.isfinite(truncate) and truncate > 0):
        raise ArgumentValueError(
            f"gaussian_blur: sigma {sigma} with truncate {truncate}",
            value=(sigma, truncate),
            limit="Both are positive numbers",
        )
    radius = int(truncate * sigma + 0.5)
    if radius > MAX_RADIUS:
        raise ArgumentValueError(
            f"gaussian_blur: sigma {sigma} with truncate {truncate} reaches {radius} pixels",
            value=radius,
            limit=f"The halo of a block has room for {MAX_RADIUS}",
            remedy="Blur several times with a smaller sigma: variances add up",
        )
    return radius


def _folds(size: int, radius: int, block: int) -> int:
    """Count how often an index must be mirrored until it is inside."""
    reach = radius + (-size) % block
    return max(1, -(-reach // size))
