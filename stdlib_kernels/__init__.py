"""Library kernels, written in the language of :mod:`kerneldsl` and on every target alike.

=================================  =================================================================
:mod:`stdlib_kernels.elementwise`  any function of numbers over arrays, choices, bounds, conversions
:mod:`stdlib_kernels.compact`      elements and places by a condition, runs, distinct elements
:mod:`stdlib_kernels.histogram`    counts of integers, and between edges along one axis or two
:mod:`stdlib_kernels.imaging`      grey conversion, Gaussian blur, Sobel, histogram, equalization
:mod:`stdlib_kernels.reduce`       sums, extremes, moments, norms and their places, over any axes
:mod:`stdlib_kernels.scan`         cumulative sums, products, extremes, and any operation's scan
:mod:`stdlib_kernels.sort`         sorts, the places that sort, top elements, searches, merges
:mod:`stdlib_kernels.movement`     axes in another order, elements by their places, copies, borders
:mod:`stdlib_kernels.rows`         softmax, layer and root mean square normalization, along an axis
:mod:`stdlib_kernels.linalg`       transpose, matrix product
:mod:`stdlib_kernels.stencil`      convolution, Gaussian and other filters of neighbours
:mod:`stdlib_kernels.random`       arrays of random numbers, of a seed and a counter
=================================  =================================================================

Each function takes NumPy arrays or device arrays and returns the same kind. Importing this package
imports none of the families.
"""
