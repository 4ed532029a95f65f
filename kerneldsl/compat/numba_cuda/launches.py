"""Grids and blocks as numba.cuda checks them."""

from __future__ import annotations

import numbers
from typing import Any

from kerneldsl.compat.numba_cuda.errors import missing_launch_config_msg

__all__ = ["checked_dimensions"]


def checked_dimensions(griddim: Any, blockdim: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return grid and block as tuples; raise numba.cuda's errors for others."""
    if griddim is None or blockdim is None:
        raise ValueError(missing_launch_config_msg)
    return _checked(griddim, "griddim"), _checked(blockdim, "blockdim")


def _checked(dim: Any, name: str) -> tuple[int, ...]:
    items = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    if len(items) > 3:
        raise ValueError(f"{name} must be a sequence of 1, 2 or 3 integers, got {list(items)!r}")
    if not all(isinstance(each, numbers.Integral) for each in items):
        raise TypeError(f"{name} must be a sequence of integers, got {list(items)!r}")
    return tuple(map(int, items))
