"""numba.cuda.cg: the group of the grid."""

from __future__ import annotations

from kerneldsl.language.intrinsics.barriers import grid_group as this_grid

__all__ = ["this_grid"]
