"""Histograms: how many elements there are of each value, or between edges."""

from stdlib_kernels.families import make_callable
from stdlib_kernels.histogram.bins import histogram, histogram2d
from stdlib_kernels.histogram.integers import bincount

__all__ = ["bincount", "histogram", "histogram2d"]

make_callable(__name__)
