"""Filters of the neighbours of each element, by the names of ``scipy.ndimage``.

===================================================  ==============================================
`correlate`, `convolve`                              with weights of one to three axes
`correlate1d`, `convolve1d`                          with weights along an axis
`gaussian_filter`, `uniform_filter`                  smooth, along each axis in turn
`sobel`, `prewitt`, `laplace`                        derive
`median_filter`, `minimum_filter`, `maximum_filter`  take an element of a box, or of a footprint
`rank_filter`, `percentile_filter`                   take the element of a given rank
===================================================  ==============================================

Sums of integers are float64, and are truncated after each axis, as in SciPy. Sums of floats have
the dtype of the array; those of float16 and bfloat16 are float32.
"""

from stdlib_kernels.stencil.boxes import convolve, correlate
from stdlib_kernels.stencil.filters import (
    convolve1d,
    correlate1d,
    gaussian_filter,
    laplace,
    prewitt,
    sobel,
    uniform_filter,
)
from stdlib_kernels.stencil.ranks import (
    maximum_filter,
    median_filter,
    minimum_filter,
    percentile_filter,
    rank_filter,
)

__all__ = [
    "convolve",
    "convolve1d",
    "correlate",
    "correlate1d",
    "gaussian_filter",
    "laplace",
    "maximum_filter",
    "median_filter",
    "minimum_filter",
    "percentile_filter",
    "prewitt",
    "rank_filter",
    "sobel",
    "uniform_filter",
]
