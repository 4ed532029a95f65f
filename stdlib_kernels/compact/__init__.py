"""Compaction: fewer elements, in the order of those that they are taken from."""

from stdlib_kernels.compact.selection import (
    compress,
    flatnonzero,
    nonzero,
    partition,
    run_length,
    unique,
)

__all__ = ["compress", "flatnonzero", "nonzero", "partition", "run_length", "unique"]
