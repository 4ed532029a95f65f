"""Gaussian blur of grey images: the filter of :mod:`stdlib_kernels.stencil` in floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from stdlib_kernels.checks import Array, Out, check_array
from stdlib_kernels.functions import library_function
from stdlib_kernels.parameters import number_of
from stdlib_kernels.stencil.borders import border_of
from stdlib_kernels.stencil.filters import filter_lines, gaussian_weights
from stdlib_kernels.stencil.lines import step_of

__all__ = ["gaussian_blur"]


@library_function
def gaussian_blur(image: Array, sigma: float, *, truncate: float = 4.0, out: Out = None) -> Any:
    """Blur a grey image with a Gaussian filter.

    {parameters}
    {grey image}
    sigma : float
        Standard deviation of the Gaussian in pixels.
    truncate : float
        The filter ends this many standard deviations from its centre.
    {grey out}
    {returns: array of shape (h, w)}
        float64 for a float64 image, else float32; `out`, where it is given. The image is continued
        beyond its edges by its mirror image, edge pixels included.
    {grey raises}
    kerneldsl.errors.ArgumentValueError
        Where sigma is not positive.
    {see: scipy.ndimage.gaussian_filter : the same with its default mode.}
    >>> spot = np.zeros((5, 5), np.float32)
    >>> spot[2, 2] = 1
    >>> round(float(gaussian_blur(spot, 0.5)[2, 2]), 4)
    0.6187
    """
    check_array("image", image, dtypes=("uint8", "float32", "float64"), ndim=2)
    weights = gaussian_weights(number_of("sigma", sigma), number_of("truncate", truncate))
    dtype = np.dtype(np.float64 if image.dtype == np.float64 else np.float32)
    steps = [step_of(weights, 1), step_of(weights, 0)]
    return filter_lines(image, steps, border_of("reflect", 0.0), out, dtype)
