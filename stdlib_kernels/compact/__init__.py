"""Compaction: fewer elements, in the order of those that they are taken from."""

from __future__ import annotations

from stdlib_kernels.compact.selection import (
    compress,
    flatnonzero,
    nonzero,
    partition,
    run_length,
    unique,
)

__all__ = ["compress", "flatnonzero", "nonzero", "partition", "run_length", "unique"]
