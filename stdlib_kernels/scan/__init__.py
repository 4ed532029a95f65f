"""Scans: each element becomes what all up to it come to, as NumPy names them."""

from stdlib_kernels.families import make_callable
from stdlib_kernels.scan.cumulative import cummax, cummin, cumprod, cumsum, scan

__all__ = ["cummax", "cummin", "cumprod", "cumsum", "scan"]

make_callable(__name__)
