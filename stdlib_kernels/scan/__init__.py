"""Scans: each element becomes the sum of all up to it."""

from __future__ import annotations

from stdlib_kernels.scan.prefix_sum import cumsum

__all__ = ["cumsum"]
