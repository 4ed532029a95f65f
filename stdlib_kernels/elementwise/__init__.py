"""Functions of single elements, over arrays that are broadcast against each other."""

from stdlib_kernels.elementwise.mapping import astype, clip, map, where

__all__ = ["astype", "clip", "map", "where"]
