"""Functions of single elements, over arrays that are broadcast against each other."""

from __future__ import annotations

from stdlib_kernels.elementwise.choices import astype, clip, where
from stdlib_kernels.elementwise.mapping import map

__all__ = ["astype", "clip", "map", "where"]
