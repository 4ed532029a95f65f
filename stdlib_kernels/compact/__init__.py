"""Compaction: fewer elements, in the order of those that they are taken from."""

from stdlib_kernels.compact.distinct import unique
from stdlib_kernels.compact.selection import compress, flatnonzero, nonzero, partition, run_length

__all__ = ["compress", "flatnonzero", "nonzero", "partition", "run_length", "unique"]
