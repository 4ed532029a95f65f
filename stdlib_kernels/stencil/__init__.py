"""Filters of the neighbours of each element, by the names of ``scipy.ndimage``.

===================================================  ==============================================
`correlate`, `convolve`                              with weights of one to three axes
`correlate1d`, `convolve1d`                          with weights along an axis
`gaussian_filter`, `uniform_filter`                  smooth, along each axis in turn
`sobel`, `prewitt`, `laplace`                        derive
`median_filter`                                      takes the median of a box
===================================================  ==============================================
"""

from stdlib_kernels.stencil.boxes import convolve, correlate, median_filter
from stdlib_kernels.stencil.filters import (
    convolve1d,
    correlate1d,
    gaussian_filter,
    laplace,
    prewitt,
    sobel,
    uniform_filter,
)

__all__ = [
    "convolve",
    "convolve1d",
    "correlate",
    "correlate1d",
    "gaussian_filter",
    "laplace",
    "median_filter",
    "prewitt",
    "sobel",
    "uniform_filter",
]
